// SPDX-License-Identifier: Apache-2.0
// All rows of several tables under one name; on equal keys the earlier part wins. For the engine only.

import { Table, type Place } from './table.js'

export class UnionTable<V> extends Table<V> {
  readonly #parts: readonly Table<V>[]
  #isSeeded = false

  constructor(place: Place, parts: readonly Table<V>[]) {
    super(place)
    this.#parts = parts
    for (const part of parts) part.addConsumer()
  }

  run(): void {
    const before = new Map<string, V | undefined>()
    for (const part of this.#parts) {
      if (this.#isSeeded) for (const { key } of part.changes) before.set(key, this.rows.get(key))
      else for (const key of part.rows.keys()) before.set(key, undefined)
      part.consumed()
    }
    this.#isSeeded = true
    if (before.size === 0) return
    for (const key of before.keys()) {
      const now = this.#select(key)
      if (now === undefined) this.rows.delete(key)
      else this.rows.set(key, now)
    }
    this.publish(before, false)
  }

  /** A row that moves to another part is the same only when every part would say so. */
  protected equal(a: V, b: V): boolean {
    return this.#parts.every((part) => part.same(a, b))
  }

  #select(key: string): V | undefined {
    for (const part of this.#parts) {
      const row = part.rows.get(key)
      if (row !== undefined) return row
    }
    return undefined
  }
}
