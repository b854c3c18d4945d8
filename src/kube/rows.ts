// SPDX-License-Identifier: Apache-2.0
// Puts what lists and watches show into a Source. For the reflector. An object that cannot be read is reported once and keeps its last good
// row, unless another object has taken its name.

import type { Source } from '../collection/types.js'
import type { Logger } from '../base/log.js'
import { findFalseAddresses } from './false-addresses.js'
import type { KubeMetrics } from './kube-metrics.js'
import type { Kind, RecordByKind } from './records.js'
import { isGood, type BadItem, type GoodItem, type Item } from './wire.js'

export class Rows<K extends Kind> {
  readonly #kind: K
  readonly #source: Source<RecordByKind[K]>
  readonly #log: Logger
  readonly #metrics: KubeMetrics
  /** What was said about which unreadable object. */
  readonly #reported = new Map<string, string>()
  /** What was said about the addresses of which object. */
  readonly #falseAddresses = new Map<string, string>()

  constructor(kind: K, source: Source<RecordByKind[K]>, log: Logger, metrics: KubeMetrics) {
    this.#kind = kind
    this.#source = source
    this.#log = log
    this.#metrics = metrics
  }

  get size(): number {
    return this.#source.size
  }

  /** These objects are all there are. */
  replace(items: readonly Item<K>[]): void {
    const rows = new Map<string, RecordByKind[K]>()
    const bad = new Set<string>()
    let updates = 0
    for (const item of items) {
      const row = isGood(item) ? item.record : this.#keepLast(item)
      if (!isGood(item)) bad.add(item.key ?? '')
      if (row === undefined || item.key === undefined) continue
      this.#judgeAddresses(item.key, row)
      if (this.#source.get(item.key) !== undefined && !rows.has(item.key)) updates++
      rows.set(item.key, row)
    }
    const deletes = this.#source.size - updates
    this.#source.replace(rows)
    for (const key of this.#reported.keys()) if (!bad.has(key)) this.#reported.delete(key)
    for (const key of this.#falseAddresses.keys()) if (!rows.has(key)) this.#falseAddresses.delete(key)
    this.#count(rows.size - updates, updates, deletes)
  }

  /** One object came or changed. */
  set(item: Item<K>): void {
    if (isGood(item)) {
      this.#setGood(item)
      return
    }
    const kept = this.#keepLast(item)
    if (kept === undefined && item.key !== undefined) this.#delete(item.key)
    this.#count(0, 0, 0)
  }

  /** One object is gone. */
  remove(item: Item<K>): void {
    if (item.key === undefined) return
    this.#reported.delete(item.key)
    this.#falseAddresses.delete(item.key)
    this.#delete(item.key)
    this.#count(0, 0, 0)
  }

  #setGood(item: GoodItem<K>): void {
    const known = this.#source.get(item.key) !== undefined
    this.#judgeAddresses(item.key, item.record)
    this.#source.set(item.key, item.record)
    this.#reported.delete(item.key)
    this.#count(known ? 0 : 1, known ? 1 : 0, 0)
  }

  /** Tells once of texts that stand where an address is due; whoever reads the row passes over them. */
  #judgeAddresses(key: string, record: RecordByKind[K]): void {
    // What did not change was judged when it came.
    if (this.#source.get(key) === record) return
    const reason = findFalseAddresses(this.#kind, record)
    if (reason === undefined) {
      if (this.#falseAddresses.size > 0) this.#falseAddresses.delete(key)
      return
    }
    if (this.#falseAddresses.get(key) === reason) return
    this.#falseAddresses.set(key, reason)
    this.#log.warn({ kind: this.#kind, object: key, reason }, 'an object has an address that is none')
  }

  #delete(key: string): void {
    if (this.#source.get(key) === undefined) return
    this.#source.delete(key)
    this.#metrics.countEvents(this.#kind, 'delete', 1)
  }

  /** The row that stays for an unreadable object. */
  #keepLast(item: BadItem): RecordByKind[K] | undefined {
    const { message } = item.error
    if (this.#reported.get(item.key ?? '') !== message) {
      this.#reported.set(item.key ?? '', message)
      this.#log.warn({ kind: this.#kind, object: item.key, error: message }, 'an object cannot be read and is skipped')
    }
    const last = item.key === undefined ? undefined : this.#source.get(item.key)
    if (last === undefined) return undefined
    const uid = 'uid' in last ? last.uid : undefined
    return uid === undefined || item.uid === undefined || uid === item.uid ? last : undefined
  }

  #count(adds: number, updates: number, deletes: number): void {
    this.#metrics.countEvents(this.#kind, 'add', adds)
    this.#metrics.countEvents(this.#kind, 'update', updates)
    this.#metrics.countEvents(this.#kind, 'delete', deletes)
    this.#metrics.setUnreadable(this.#kind, this.#reported.size)
  }
}
