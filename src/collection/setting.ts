// SPDX-License-Identifier: Apache-2.0
// One value that any row may read. For the engine; others see it as Setting.

import { Cell, type CellOwner } from './cell.js'
import type { Ledger } from './table.js'
import type { Setting } from './types.js'

export class SettingValue<V> implements Setting<V>, CellOwner {
  readonly cell: Cell
  #value: V
  #committed: V

  constructor(
    readonly name: string,
    readonly graph: Ledger,
    initial: V,
    readonly equal: (a: V, b: V) => boolean,
  ) {
    this.#value = initial
    this.#committed = initial
    this.cell = new Cell(this, name)
  }

  get(): V {
    return this.#value
  }

  set(value: V): void {
    this.graph.assertWritable(this.name)
    if (this.equal(this.#value, value)) return
    this.#value = this.equal(this.#committed, value) ? this.#committed : value
    this.graph.wake()
  }

  /** Marks the readers when the value is not that of the last commit. True when so. */
  run(): boolean {
    if (this.#value === this.#committed) return false
    this.#committed = this.#value
    this.cell.mark()
    return true
  }

  release(): void {
    // The one cell of a setting stays.
  }
}
