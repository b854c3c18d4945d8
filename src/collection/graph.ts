// SPDX-License-Identifier: Apache-2.0
// The engine of derived collections: makes the tables of one program and commits what changed in one synchronous sweep.
// For main, tests and whoever builds tables; knows nothing of what is in them. Never waits, never sets a timer.

import { tell } from './failures.js'
import { DerivedTable } from './derived.js'
import { DistinctTable } from './distinct.js'
import { Reading } from './reading.js'
import { SettingValue } from './setting.js'
import { SourceTable } from './source.js'
import { Table, type Ledger, type Place } from './table.js'
import { UnionTable } from './union.js'
import type { Change, Collection, DeriveOptions, Graph, OnFailure, Setting, Source, Transform } from './types.js'

/** How much the engine holds, in records. All zero once every source is empty and committed, settings aside. */
export interface Footprint {
  readonly rows: number
  /** Input rows of transforms. */
  readonly slots: number
  /** Keys and terms that are read or filed under. */
  readonly cells: number
  /** Reads recorded. */
  readonly reads: number
  /** All else: owners of output keys, counts of groups, failures told. */
  readonly rest: number
}

/**
 * Makes an empty graph.
 * @param options.onFailure told of each failing row once per message, of keys that are given twice, and of listeners that throw (`key` is then empty)
 */
export function createGraph(options: { readonly onFailure?: OnFailure } = {}): Graph & { footprint(): Footprint } {
  return new TableGraph(options.onFailure ?? (() => undefined))
}

type Phase = 'idle' | 'computing' | 'telling'

class TableGraph implements Graph, Ledger {
  readonly #tables: Table<unknown>[] = []
  readonly #settings: SettingValue<unknown>[] = []
  readonly #wakers: (() => void)[] = []
  readonly #afterCommit: (() => void)[] = []
  readonly #reading = new Reading(this)
  #isAwake = false
  #phase: Phase = 'idle'

  constructor(readonly onFailure: OnFailure) {}

  source<V>(name: string, equal: (a: V, b: V) => boolean): Source<V> {
    return this.#add(new SourceTable(this.#place(name), equal))
  }

  setting<V>(name: string, initial: V, equal: (a: V, b: V) => boolean = Object.is): Setting<V> {
    const setting = new SettingValue(name, this, initial, equal)
    this.#settings.push(setting as SettingValue<unknown>)
    return setting
  }

  derive<I, O>(
    name: string,
    from: Collection<I>,
    transform: Transform<I, O>,
    options: DeriveOptions<O>,
  ): Collection<O> {
    const reading = this.#reading
    const table = new DerivedTable(this.#place(name), this.#own(from), transform, { ...options, reading })
    return this.#add(table, from.size > 0)
  }

  distinct<V, G>(
    name: string,
    from: Collection<V>,
    pick: (row: V) => readonly [key: string, group: G] | undefined,
  ): Collection<G> {
    return this.#add(new DistinctTable(this.#place(name), this.#own(from), pick), from.size > 0)
  }

  union<V>(name: string, ...parts: readonly Collection<V>[]): Collection<V> {
    const tables = parts.map((part) => this.#own(part))
    const isDirty = tables.some((table) => table.size > 0)
    return this.#add(new UnionTable(this.#place(name), tables), isDirty)
  }

  onDirty(wake: () => void): void {
    this.#wakers.push(wake)
    if (this.#isAwake) wake()
  }

  onCommit<V>(of: Collection<V>, listener: (changes: readonly Change<V>[]) => void): void {
    this.#own(of).listen(listener)
  }

  afterCommit(listener: () => void): void {
    this.#afterCommit.push(listener)
  }

  commit(): boolean {
    if (this.#phase !== 'idle') throw new Error('commit() was called by a transform or a listener of a commit')
    this.#phase = 'computing'
    this.#isAwake = false
    let isChanged = false
    try {
      for (const setting of this.#settings) if (setting.run()) isChanged = true
      for (const table of this.#tables) {
        table.run()
        if (table.changed > 0) isChanged = true
      }
      this.#phase = 'telling'
      const tables = this.#tables.slice()
      for (const table of tables) table.tellListeners()
      for (const table of tables) table.endCommit()
      for (const listener of this.#afterCommit) this.#tellOfCommit(listener)
    } finally {
      this.#phase = 'idle'
    }
    return isChanged
  }

  wake(): void {
    if (this.#isAwake) return
    this.#isAwake = true
    for (const waker of this.#wakers) waker()
  }

  assertWritable(name: string): void {
    if (this.#phase === 'computing') throw new Error(`a transform writes to ${name}: transforms only read`)
  }

  footprint(): Footprint {
    const sum = { rows: 0, slots: 0, cells: 0, reads: 0, rest: 0 }
    for (const table of this.#tables) {
      sum.rows += table.rows.size
      sum.cells += table.cells.size
      sum.rest += table.failures.size
      for (const index of table.indexes) {
        sum.cells += index.cells.size
        sum.rest += index.failures.size
      }
      if (table instanceof DistinctTable) sum.rest += table.counts.size
      if (!(table instanceof DerivedTable)) continue
      sum.slots += table.slots.size
      sum.rest += table.owned
      for (const slot of table.slots.values()) sum.reads += slot.reads.length
    }
    return sum
  }

  #tellOfCommit(listener: () => void): void {
    try {
      listener()
    } catch (error) {
      tell(this.onFailure, { collection: '', key: '', error })
    }
  }

  #place(name: string): Place {
    return { name, order: this.#tables.length, graph: this }
  }

  #add<V, T extends Table<V>>(table: T & Table<V>, isDirty = false): T {
    this.#tables.push(table as unknown as Table<unknown>)
    if (isDirty) this.wake()
    return table
  }

  #own<V>(collection: Collection<V>): Table<V> {
    if (!(collection instanceof Table) || collection.graph !== this) {
      throw new TypeError(`${collection.name} is no collection of this graph`)
    }
    return collection as Table<V>
  }
}
