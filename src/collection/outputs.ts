// SPDX-License-Identifier: Apache-2.0
// Which input row gives which output row of one derived table, and who stays when two give the same key: the lowest input key, whatever
// the order of events; the others wait and take its place when it goes. For the engine only.

import { NONE, type Slot } from './cell.js'
import { tell } from './failures.js'
import type { OnFailure } from './types.js'

/** The table whose rows these are. */
export interface OutputTable<O> {
  readonly name: string
  readonly rows: Map<string, O>
  readonly slots: ReadonlyMap<string, Slot>
  same(a: O, b: O): boolean
}

export class Outputs<O> {
  /** Keys touched since `take`, each with its row before. */
  #before = new Map<string, O | undefined>()
  /** Who gives a key that is not its own and that nobody else gives. */
  readonly #owners = new Map<string, Slot>()
  /** Keys that two or more give, with the row of each. */
  readonly #contests = new Map<string, Map<Slot, O>>()
  /** Claims that met another claim since `take`. */
  #met: { readonly key: string; readonly slot: Slot }[] = []

  constructor(
    readonly table: OutputTable<O>,
    readonly onFailure: OnFailure,
  ) {}

  /** How many records are kept beside the rows themselves. */
  get size(): number {
    return this.#owners.size + this.#contests.size
  }

  /** These, under distinct keys, are now the rows of `slot`. */
  assign(slot: Slot, keys: readonly string[], rows: readonly O[]): void {
    const last = slot.outs
    // Set before claiming: who gives a key is read from here.
    slot.outs = toOuts(slot, keys)
    rows.forEach((row, place) => {
      const key = keys[place]
      if (key !== undefined) this.#claim(slot, key === slot.key ? slot.key : key, row)
    })
    if (typeof last === 'string') {
      if (!keys.includes(last)) this.#quit(slot, last)
    } else for (const key of last) if (!keys.includes(key)) this.#quit(slot, key)
  }

  /** The keys touched since the last call, each with its row before; tells of keys that are given twice. */
  take(): ReadonlyMap<string, O | undefined> {
    const before = this.#before
    if (before.size > 0) this.#before = new Map()
    const met = this.#met
    if (met.length > 0) this.#met = []
    for (const { key, slot } of met) this.#tellOfContest(key, slot)
    return before
  }

  #claim(slot: Slot, key: string, row: O): void {
    const contest = this.#contests.get(key)
    if (contest !== undefined) {
      if (!contest.has(slot)) this.#met.push({ key, slot })
      contest.set(slot, row)
      this.#settle(key, contest)
      return
    }
    const owner = this.#ownerOf(key)
    const ownersRow = this.table.rows.get(key)
    if (owner === undefined || owner === slot || ownersRow === undefined) {
      if (owner !== slot) this.#own(slot, key)
      this.#write(key, row)
      return
    }
    const fresh = new Map([
      [owner, ownersRow],
      [slot, row],
    ])
    this.#owners.delete(key)
    this.#contests.set(key, fresh)
    this.#met.push({ key, slot })
    this.#settle(key, fresh)
  }

  #quit(slot: Slot, key: string): void {
    const contest = this.#contests.get(key)
    if (contest === undefined) {
      this.#owners.delete(key)
      this.#write(key, undefined)
      return
    }
    contest.delete(slot)
    this.#settle(key, contest)
    if (contest.size > 1) return
    this.#contests.delete(key)
    for (const left of contest.keys()) this.#own(left, key)
  }

  #settle(key: string, contest: ReadonlyMap<Slot, O>): void {
    const winner = selectWinner(contest)
    if (winner !== undefined) this.#write(key, contest.get(winner))
  }

  #own(slot: Slot, key: string): void {
    if (key !== slot.key) this.#owners.set(key, slot)
  }

  #ownerOf(key: string): Slot | undefined {
    const owner = this.#owners.get(key)
    if (owner !== undefined) return owner
    const own = this.table.slots.get(key)
    return own?.gives(key) === true ? own : undefined
  }

  #write(key: string, row: O | undefined): void {
    const rows = this.table.rows
    const last = rows.get(key)
    if (last === row) return
    if (last !== undefined && row !== undefined && this.table.same(last, row)) return
    if (!this.#before.has(key)) this.#before.set(key, last)
    if (row === undefined) rows.delete(key)
    else rows.set(key, row)
  }

  #tellOfContest(key: string, slot: Slot): void {
    const contest = this.#contests.get(key)
    if (contest?.has(slot) !== true) return
    const winner = selectWinner(contest)
    for (const loser of winner === slot ? contest.keys() : [slot]) {
      if (loser === winner || winner === undefined) continue
      const error = new Error(`gives a row under ${key}, which ${winner.key} gives too and keeps`)
      tell(this.onFailure, { collection: this.table.name, key: loser.key, error })
    }
  }
}

function selectWinner(contest: ReadonlyMap<Slot, unknown>): Slot | undefined {
  let winner: Slot | undefined
  for (const slot of contest.keys()) if (winner === undefined || slot.key < winner.key) winner = slot
  return winner
}

/** The keys in the form that costs least: the strings and lists that are held already, where they are the same. */
function toOuts(slot: Slot, keys: readonly string[]): string | readonly string[] {
  const first = keys[0]
  if (first === undefined) return NONE
  if (keys.length > 1) return isSameList(slot.outs, keys) ? slot.outs : keys
  if (first === slot.key) return slot.key
  return first === slot.outs ? slot.outs : first
}

function isSameList(last: string | readonly string[], keys: readonly string[]): boolean {
  return typeof last !== 'string' && last.length === keys.length && last.every((key, place) => key === keys[place])
}
