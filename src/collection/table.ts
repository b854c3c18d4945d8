// SPDX-License-Identifier: Apache-2.0
// What every collection of a graph has: rows, the cells of those who read them, indexes, and the changes of the commit under way.
// For the engine; others see it as Collection.

import { Cell, type CellOwner } from './cell.js'
import { Failures, tell } from './failures.js'
import { TermIndex } from './term-index.js'
import type { Change, Collection, Index, OnFailure } from './types.js'

/** What a table asks of its graph. */
export interface Ledger {
  readonly onFailure: OnFailure
  /** There is something to commit. */
  wake(): void
  /** Throws while transforms run: they must not write. */
  assertWritable(name: string): void
}

/** Where a table stands. */
export interface Place {
  readonly name: string
  /** A transform reads only tables of a lower order than its own. */
  readonly order: number
  readonly graph: Ledger
}

const NO_CHANGES: readonly never[] = []

export abstract class Table<V> implements Collection<V>, CellOwner {
  readonly name: string
  readonly order: number
  readonly graph: Ledger
  readonly rows = new Map<string, V>()
  readonly cells = new Map<string, Cell>()
  readonly indexes: TermIndex<V>[] = []
  readonly failures: Failures
  /** The net changes of the commit under way, until all who need them have read them. */
  changes: readonly Change<V>[] = NO_CHANGES
  /** How many rows this commit changed. */
  changed = 0
  readonly #listeners: ((changes: readonly Change<V>[]) => void)[] = []
  #consumers = 0
  #waiting = 0

  constructor(place: Place) {
    this.name = place.name
    this.order = place.order
    this.graph = place.graph
    this.failures = new Failures(place.name, place.graph.onFailure)
  }

  /** Brings the rows to the state that this commit makes, then publishes. Every table of a lower order has done so. */
  abstract run(): void

  /** Is a change from `a` to `b` nothing? */
  protected abstract equal(a: V, b: V): boolean

  get size(): number {
    return this.rows.size
  }

  get(key: string): V | undefined {
    return this.rows.get(key)
  }

  keys(): Iterable<string> {
    return this.rows.keys()
  }

  values(): Iterable<V> {
    return this.rows.values()
  }

  index(name: string, terms: (row: V) => readonly string[]): Index<V> {
    const index = new TermIndex(this, name, terms, this.graph.onFailure)
    this.indexes.push(index)
    return index
  }

  /** The key's cell, made when missing: for a reader, who must then attach itself. */
  cellOf(key: string): Cell {
    let cell = this.cells.get(key)
    if (cell === undefined) this.cells.set(key, (cell = new Cell(this, key)))
    return cell
  }

  release(cell: Cell): void {
    this.cells.delete(cell.key)
  }

  same(a: V, b: V): boolean {
    if (a === b) return true
    try {
      return this.equal(a, b)
    } catch (error) {
      tell(this.graph.onFailure, { collection: this.name, key: '', error })
      return false
    }
  }

  listen(listener: (changes: readonly Change<V>[]) => void): void {
    this.#listeners.push(listener)
  }

  /** One more table is made from this one; it calls `consumed` in each of its runs. */
  addConsumer(): void {
    this.#consumers++
  }

  /** The caller is done with `changes`. A first build changes every row, so they go as early as they can. */
  consumed(): void {
    this.#waiting--
    if (this.#waiting <= 0 && this.#listeners.length === 0) this.changes = NO_CHANGES
  }

  /** Tells the listeners of this table, each once. One that throws is reported and harms nobody. */
  tellListeners(): void {
    if (this.changes.length === 0) return
    for (const listener of this.#listeners) {
      try {
        listener(this.changes)
      } catch (error) {
        tell(this.graph.onFailure, { collection: this.name, key: '', error })
      }
    }
  }

  endCommit(): void {
    this.changes = NO_CHANGES
    this.changed = 0
  }

  /**
   * Compares the rows with what they were at the last commit and marks all who read what is different.
   * @param before the keys that may have changed, each with its row at the last commit
   * @param isFiled true when the indexes have been moved along already
   */
  protected publish(before: ReadonlyMap<string, V | undefined>, isFiled: boolean): void {
    const isWanted = this.#consumers > 0 || this.#listeners.length > 0
    const changes: Change<V>[] = []
    // forEach makes nothing an entry; the first commit is made of nothing else.
    before.forEach((old, key) => {
      const now = this.rows.get(key)
      if (old === now) return
      if (old !== undefined && now !== undefined && this.same(old, now)) {
        // There and back: whoever holds the old row holds the right one.
        this.rows.set(key, old)
        return
      }
      this.changed++
      this.cells.get(key)?.mark()
      for (const index of this.indexes) {
        if (!isFiled) index.move(key, old, now)
        index.mark(old, now)
      }
      if (isWanted) changes.push({ key, old, now })
    })
    this.changes = changes
    this.#waiting = this.#consumers
  }
}
