// SPDX-License-Identifier: Apache-2.0
// How a transform sees other tables, and the record of what it saw. One for a whole graph: rows run one after another. For the engine only.

import { setReads, type Cell, type Slot } from './cell.js'
import { SettingValue } from './setting.js'
import { Table, type Ledger } from './table.js'
import { TermIndex } from './term-index.js'
import type { Collection, Index, Read, Setting } from './types.js'

const mostToScan = 16

export class Reading implements Read {
  #slot: Slot | undefined
  readonly #cells: Cell[] = []
  #seen: Set<Cell> | undefined

  constructor(readonly graph: Ledger) {}

  /** From here on reads belong to `slot`. */
  begin(slot: Slot): void {
    this.#slot = slot
    this.#cells.length = 0
    this.#seen = undefined
  }

  /** The run is over, well or not: what was read is what the slot depends on. */
  end(): void {
    if (this.#slot !== undefined) setReads(this.#slot, this.#cells)
    this.#slot = undefined
  }

  one<V>(from: Collection<V>, key: string): V | undefined {
    const table = this.#tableOf(from)
    this.#note(table.cellOf(key))
    return table.rows.get(key)
  }

  many<V>(from: Index<V>, term: string): readonly V[] {
    if (!(from instanceof TermIndex)) throw new TypeError(`${from.name} is no index of this engine`)
    const index = from as TermIndex<V>
    this.#assertEarlier(index.of.name, index.of.order, index.of.graph)
    const cell = index.cellOf(term)
    this.#note(cell)
    return index.rowsOf(cell)
  }

  setting<V>(from: Setting<V>): V {
    if (!(from instanceof SettingValue)) throw new TypeError(`${from.name} is no setting of this engine`)
    const setting = from as SettingValue<V>
    this.#assertEarlier(setting.name, -1, setting.graph)
    this.#note(setting.cell)
    return setting.get()
  }

  #tableOf<V>(from: Collection<V>): Table<V> {
    if (!(from instanceof Table)) throw new TypeError(`${from.name} is no collection of this engine`)
    const table = from as Table<V>
    this.#assertEarlier(table.name, table.order, table.graph)
    return table
  }

  #assertEarlier(name: string, order: number, graph: object): void {
    const reader = this.#slot?.owner
    if (reader === undefined) throw new Error(`${name} is read after the transform has returned`)
    if (graph !== this.graph) throw new Error(`${reader.name} reads ${name}, which belongs to another graph`)
    if (order >= reader.order) throw new Error(`${reader.name} reads ${name}, which is made after it`)
  }

  #note(cell: Cell): void {
    if (this.#seen !== undefined) {
      if (this.#seen.has(cell)) return
      this.#seen.add(cell)
    } else if (this.#cells.includes(cell)) return
    this.#cells.push(cell)
    if (this.#cells.length === mostToScan) this.#seen = new Set(this.#cells)
  }
}
