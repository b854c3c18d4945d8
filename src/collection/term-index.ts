// SPDX-License-Identifier: Apache-2.0
// Rows of one table by term. For the engine; others see it as Index. Keeps keys, not rows: a row that changes without moving costs nothing here.

import { Cell, type CellOwner } from './cell.js'
import { addTo, eachOf, removeFrom, type Few } from './few.js'
import { Failures } from './failures.js'
import type { Index, OnFailure } from './types.js'

/** One term: the rows filed under it and the slots that looked it up. */
class TermCell extends Cell {
  members: Few<string> = undefined
}

const NO_TERMS: readonly string[] = []
const NO_ROWS: readonly never[] = Object.freeze([])

/** What an index needs to know of its table. */
export interface Indexed<V> {
  readonly name: string
  readonly order: number
  readonly graph: object
  readonly rows: ReadonlyMap<string, V>
}

export class TermIndex<V> implements Index<V>, CellOwner {
  readonly cells = new Map<string, TermCell>()
  readonly failures: Failures
  /** What the last call of `terms` threw. */
  #problem: unknown

  constructor(
    readonly of: Indexed<V>,
    readonly name: string,
    readonly terms: (row: V) => readonly string[],
    onFailure: OnFailure,
  ) {
    this.failures = new Failures(`${of.name}/${name}`, onFailure)
    for (const [key, row] of of.rows) this.move(key, undefined, row)
  }

  lookup(term: string): readonly V[] {
    return this.rowsOf(this.cells.get(term))
  }

  /** The term's cell, made when missing: for a reader, who must then attach itself. */
  cellOf(term: string): TermCell {
    let cell = this.cells.get(term)
    if (cell === undefined) this.cells.set(term, (cell = new TermCell(this, term)))
    return cell
  }

  /** A fresh array of the cell's rows. */
  rowsOf(cell: TermCell | undefined): readonly V[] {
    const members = cell?.members
    if (members === undefined) return NO_ROWS
    const found: V[] = []
    eachOf(members, (key) => {
      const row = this.of.rows.get(key)
      if (row !== undefined) found.push(row)
    })
    return found
  }

  /** Files row `key` anew. Tells no reader: that is `mark`. */
  move(key: string, old: V | undefined, now: V | undefined): void {
    const before = old === undefined ? NO_TERMS : this.#termsOf(old)
    this.#problem = undefined
    const after = now === undefined ? NO_TERMS : this.#termsOf(now)
    for (const term of before) {
      if (after.includes(term)) continue
      const cell = this.cells.get(term)
      if (cell === undefined) continue
      cell.members = removeFrom(cell.members, key)
      this.release(cell)
    }
    for (const term of after) {
      if (before.includes(term)) continue
      const cell = this.cellOf(term)
      cell.members = addTo(cell.members, key)
    }
    if (this.#problem === undefined) this.failures.clear(key)
    else this.failures.report(key, this.#problem)
  }

  /** The row changed: whoever looked up a term it was or is filed under re-runs. */
  mark(old: V | undefined, now: V | undefined): void {
    if (old !== undefined) for (const term of this.#termsOf(old)) this.cells.get(term)?.mark()
    if (now !== undefined) for (const term of this.#termsOf(now)) this.cells.get(term)?.mark()
  }

  release(cell: TermCell): void {
    if (cell.readers === undefined && cell.members === undefined) this.cells.delete(cell.key)
  }

  /** A row whose terms cannot be told is filed nowhere; `terms` is pure, so that holds when it leaves as when it came. */
  #termsOf(row: V): readonly string[] {
    this.#problem = undefined
    try {
      return this.terms(row)
    } catch (error) {
      this.#problem = error ?? new Error('unknown')
      return NO_TERMS
    }
  }
}
