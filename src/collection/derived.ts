// SPDX-License-Identifier: Apache-2.0
// A table made by a transform, one run for each input row that changed or read something that changed. For the engine only.

import { setReads, Slot, type SlotOwner } from './cell.js'
import { Outputs } from './outputs.js'
import type { Reading } from './reading.js'
import { Table, type Place } from './table.js'
import type { DeriveOptions, Transform } from './types.js'

export class DerivedTable<I, O> extends Table<O> implements SlotOwner {
  readonly slots = new Map<string, Slot>()
  dirty: Slot[] = []
  readonly #from: Table<I>
  readonly #transform: Transform<I, O>
  readonly #options: DeriveOptions<O>
  readonly #reading: Reading
  readonly #outputs: Outputs<O>
  #isSeeded = false

  constructor(
    place: Place,
    from: Table<I>,
    transform: Transform<I, O>,
    options: DeriveOptions<O> & { readonly reading: Reading },
  ) {
    super(place)
    this.#from = from
    this.#transform = transform
    this.#options = options
    this.#reading = options.reading
    this.#outputs = new Outputs(this, place.graph.onFailure)
    from.addConsumer()
  }

  /** Records kept beside rows, cells and slots. */
  get owned(): number {
    return this.#outputs.size
  }

  run(): void {
    if (this.#isSeeded) for (const change of this.#from.changes) this.#slotOf(change.key).mark()
    else this.#from.rows.forEach((_row, key) => this.#slotOf(key).mark())
    this.#isSeeded = true
    this.#from.consumed()
    if (this.dirty.length === 0) return
    const dirty = this.dirty
    this.dirty = []
    for (const slot of dirty) this.#runSlot(slot)
    this.publish(this.#outputs.take(), false)
  }

  protected equal(a: O, b: O): boolean {
    return this.#options.equal(a, b)
  }

  #slotOf(key: string): Slot {
    let slot = this.slots.get(key)
    if (slot === undefined) this.slots.set(key, (slot = new Slot(this, key)))
    return slot
  }

  #runSlot(slot: Slot): void {
    slot.isDirty = false
    const row = this.#from.rows.get(slot.key)
    if (row === undefined) {
      setReads(slot, [])
      this.#outputs.assign(slot, [], [])
      this.slots.delete(slot.key)
      this.failures.clear(slot.key)
      return
    }
    const outs = this.#evaluate(slot, row)
    if (outs === undefined) return
    this.failures.clear(slot.key)
    this.#outputs.assign(slot, outs.keys, outs.rows)
  }

  /** Runs the transform; undefined when it throws. What it read up to then decides when it is tried again; the last good rows stay. */
  #evaluate(slot: Slot, row: I): { readonly keys: readonly string[]; readonly rows: readonly O[] } | undefined {
    this.#reading.begin(slot)
    try {
      const given = this.#transform(row, this.#reading)
      if (given === undefined) return NOTHING
      const rows = isList(given) ? given : [given]
      const keys = rows.map((out) => this.#options.key(out))
      assertDistinct(keys)
      return { keys, rows }
    } catch (error) {
      this.failures.report(slot.key, error)
      return undefined
    } finally {
      this.#reading.end()
    }
  }
}

const NOTHING = { keys: [], rows: [] }

function isList<O>(given: O | readonly O[]): given is readonly O[] {
  return Array.isArray(given)
}

function assertDistinct(keys: readonly string[]): void {
  if (keys.length < 2 || new Set(keys).size === keys.length) return
  const twice = keys.find((key, place) => keys.indexOf(key) !== place)
  throw new Error(`gives two rows under ${String(twice)}`)
}
