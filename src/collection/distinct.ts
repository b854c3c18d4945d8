// SPDX-License-Identifier: Apache-2.0
// One row for each group that some row of another table picks, counted. For the engine only.

import { Table, type Place } from './table.js'

export class DistinctTable<V, G> extends Table<G> {
  readonly counts = new Map<string, number>()
  readonly #from: Table<V>
  readonly #pick: (row: V) => readonly [key: string, group: G] | undefined
  #isSeeded = false
  /** What the last calls of `pick` threw. */
  #problem: unknown
  #before = new Map<string, G | undefined>()

  constructor(place: Place, from: Table<V>, pick: (row: V) => readonly [key: string, group: G] | undefined) {
    super(place)
    this.#from = from
    this.#pick = pick
    from.addConsumer()
  }

  run(): void {
    if (this.#isSeeded) for (const { key, old, now } of this.#from.changes) this.#move(key, old, now)
    else for (const [key, row] of this.#from.rows) this.#move(key, undefined, row)
    this.#isSeeded = true
    this.#from.consumed()
    if (this.#before.size === 0) return
    const before = this.#before
    this.#before = new Map()
    this.publish(before, false)
  }

  /** The key is the group's whole identity: a group that left and came back within a commit never left. */
  protected equal(): boolean {
    return true
  }

  #move(key: string, old: V | undefined, now: V | undefined): void {
    const left = this.#pickOf(old)
    this.#problem = undefined
    const joined = this.#pickOf(now)
    if (this.#problem === undefined) this.failures.clear(key)
    else this.failures.report(key, this.#problem)
    if (left?.[0] === joined?.[0]) return
    if (left !== undefined) this.#count(left[0], -1, left[1])
    if (joined !== undefined) this.#count(joined[0], 1, joined[1])
  }

  #count(groupKey: string, by: number, group: G): void {
    const before = this.counts.get(groupKey) ?? 0
    const after = before + by
    if (after > 0) this.counts.set(groupKey, after)
    else this.counts.delete(groupKey)
    if (before > 0 && after > 0) return
    if (!this.#before.has(groupKey)) this.#before.set(groupKey, this.rows.get(groupKey))
    if (after > 0) this.rows.set(groupKey, group)
    else this.rows.delete(groupKey)
  }

  /** A row whose group cannot be told is in none; `pick` is pure, so that holds when it leaves as when it came. */
  #pickOf(row: V | undefined): readonly [key: string, group: G] | undefined {
    if (row === undefined) return undefined
    try {
      return this.#pick(row)
    } catch (error) {
      this.#problem = error ?? new Error('unknown')
      return undefined
    }
  }
}
