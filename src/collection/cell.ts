// SPDX-License-Identifier: Apache-2.0
// The two ends of a recorded read. A cell is one key or term that somebody read; a slot is one input row of a derived table, which reads.
// There may be hundreds of thousands of each: they hold nothing that can be shared or computed.

import { addTo, eachOf, removeFrom, type Few } from './few.js'

/** Whoever keeps cells by key and must forget those that nobody reads. */
export interface CellOwner {
  release(cell: Cell): void
}

/** Whoever re-runs slots. `order` is the place among the tables of a graph. */
export interface SlotOwner {
  readonly name: string
  readonly order: number
  readonly dirty: Slot[]
}

/** The slot gives no row. */
export const NONE: readonly string[] = []
const NO_CELLS: readonly Cell[] = []

/** One key or term and the slots that read it. Lives only while it has readers (or members, for a term). */
export class Cell {
  readers: Few<Slot> = undefined

  constructor(
    readonly owner: CellOwner,
    readonly key: string,
  ) {}

  /** What this cell stands for has changed: all its readers re-run. */
  mark(): void {
    eachOf(this.readers, markSlot)
  }

  attach(slot: Slot): void {
    this.readers = addTo(this.readers, slot)
  }

  detach(slot: Slot): void {
    this.readers = removeFrom(this.readers, slot)
    if (this.readers === undefined) this.owner.release(this)
  }
}

/** One input row of a derived table: what it read in its last run and the keys of the rows it gave. */
export class Slot {
  isDirty = false
  reads: readonly Cell[] = NO_CELLS
  /** The key itself when it gives one row, as nearly all do. */
  outs: string | readonly string[] = NONE

  constructor(
    readonly owner: SlotOwner,
    readonly key: string,
  ) {}

  /** Queues the slot for its next run, once. */
  mark(): void {
    if (this.isDirty) return
    this.isDirty = true
    this.owner.dirty.push(this)
  }

  /** Does this slot give a row under `key`? */
  gives(key: string): boolean {
    return typeof this.outs === 'string' ? this.outs === key : this.outs.includes(key)
  }
}

function markSlot(slot: Slot): void {
  slot.mark()
}

/** Makes `next` (no cell twice) the reads of the slot: attaches what is new, detaches what is no longer read. `next` is copied. */
export function setReads(slot: Slot, next: readonly Cell[]): void {
  const last = slot.reads
  if (next.length === last.length && next.every((cell, place) => cell === last[place])) return
  const isNew = notIn(last)
  const isGone = notIn(next)
  // Attach first: a cell without readers is forgotten by its owner.
  for (const cell of next) if (isNew(cell)) cell.attach(slot)
  for (const cell of last) if (isGone(cell)) cell.detach(slot)
  slot.reads = next.length === 0 ? NO_CELLS : next.slice()
}

const mostToScan = 16

function notIn(cells: readonly Cell[]): (cell: Cell) => boolean {
  if (cells.length <= mostToScan) return (cell) => !cells.includes(cell)
  const set = new Set(cells)
  return (cell) => !set.has(cell)
}
