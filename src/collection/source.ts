// SPDX-License-Identifier: Apache-2.0
// A table filled from outside. What is set shows at once here and in its indexes; whatever is derived from it follows at the next commit,
// which sees only the two ends of the time between commits: there and back again is nothing.

import { Table, type Place } from './table.js'
import type { Source } from './types.js'

export class SourceTable<V> extends Table<V> implements Source<V> {
  /** Rows touched since the last commit, as they were then. */
  #before = new Map<string, V | undefined>()
  readonly #equal: (a: V, b: V) => boolean

  constructor(place: Place, equal: (a: V, b: V) => boolean) {
    super(place)
    this.#equal = equal
  }

  set(key: string, row: V): void {
    this.graph.assertWritable(this.name)
    const last = this.rows.get(key)
    if (last !== undefined && this.same(last, row)) return
    this.#write(key, last, row)
  }

  delete(key: string): void {
    this.graph.assertWritable(this.name)
    const last = this.rows.get(key)
    if (last !== undefined) this.#write(key, last, undefined)
  }

  replace(rows: ReadonlyMap<string, V>): void {
    rows.forEach((row, key) => this.set(key, row))
    if (this.rows.size === rows.size) return
    for (const key of [...this.rows.keys()]) if (!rows.has(key)) this.delete(key)
  }

  run(): void {
    if (this.#before.size === 0) return
    const before = this.#before
    this.#before = new Map()
    this.publish(before, true)
  }

  protected equal(a: V, b: V): boolean {
    return this.#equal(a, b)
  }

  #write(key: string, last: V | undefined, wanted: V | undefined): void {
    let now = wanted
    if (!this.#before.has(key)) this.#before.set(key, last)
    else {
      const first = this.#before.get(key)
      if (first !== undefined && now !== undefined && this.same(first, now)) now = first
      if (first === now) this.#before.delete(key)
    }
    if (now === undefined) this.rows.delete(key)
    else this.rows.set(key, now)
    for (const index of this.indexes) index.move(key, last, now)
    this.graph.wake()
  }
}
