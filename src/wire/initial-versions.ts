// SPDX-License-Identifier: Apache-2.0
// What a reconnecting client says it holds: thousands of names with versions. Kept as the bytes of the request with a hash table over them, so that a server can
// compare its own resources without making a string per entry. For xds. Valid as long as the request's bytes are.

import { randomInt } from 'node:crypto'

/** The client's version of a resource equals ours, differs, or the client does not have it. */
export type VersionState = 'current' | 'other' | 'absent'

/** Differs per process, so that nobody can prepare names that fall on one slot. */
const seed = randomInt(0x7fffffff)
const multiplier = randomInt(0x40000000, 0x7fffffff) | 1

// Columns of an entry.
const HASH = 0
const NAME = 1
const NAME_END = 2
const VERSION = 3
const VERSION_END = 4
const WIDTH = 5

/** An iterable of [name, version]; of a name given twice the last version counts. */
export class InitialVersions implements Iterable<readonly [name: string, version: string]> {
  static readonly none = new InitialVersions(Buffer.alloc(0))

  readonly #bytes: Buffer
  /** The columns of all entries, outside the heap: there may be as many as a client likes. */
  #rows = new Int32Array(0)
  /** Entry number plus one by slot; 0 is free. */
  #slots = new Uint32Array(0)
  #size = 0
  #checked = new Uint8Array(0)

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  get size(): number {
    return this.#size
  }

  /** Takes the entry whose name and version lie at these offsets of the bytes. Both must be valid UTF-8. */
  add(name: number, nameEnd: number, version: number, versionEnd: number): void {
    if (this.#size * 2 >= this.#slots.length) this.#rehash()
    let hash = seed
    for (let i = name; i < nameEnd; i++) hash = mix(hash, this.#bytes[i] ?? 0)
    let slot = hash & (this.#slots.length - 1)
    for (let entry = this.#slots[slot] ?? 0; entry !== 0; entry = this.#slots[slot] ?? 0) {
      const row = (entry - 1) * WIDTH
      if (this.#rows[row + HASH] === hash && this.#isName(row, this.#bytes, name, nameEnd)) {
        this.#rows[row + VERSION] = version
        this.#rows[row + VERSION_END] = versionEnd
        return
      }
      slot = (slot + 1) & (this.#slots.length - 1)
    }
    const row = this.#size * WIDTH
    if (row + WIDTH > this.#rows.length) this.#growRows()
    this.#rows[row + HASH] = hash
    this.#rows[row + NAME] = name
    this.#rows[row + NAME_END] = nameEnd
    this.#rows[row + VERSION] = version
    this.#rows[row + VERSION_END] = versionEnd
    this.#size++
    this.#slots[slot] = this.#size
  }

  /** Compares one of our resources, and remembers that this name was asked for. */
  check(name: string, version: string): VersionState {
    const row = this.#find(name)
    if (row < 0) return 'absent'
    if (this.#checked.length < this.#size) this.#checked = new Uint8Array(this.#size)
    this.#checked[row / WIDTH] = 1
    const start = this.#cell(row + VERSION)
    const end = this.#cell(row + VERSION_END)
    if (end - start !== version.length) return 'other'
    for (let i = 0; i < version.length; i++) {
      if (this.#bytes[start + i] !== version.charCodeAt(i)) return 'other'
    }
    return 'current'
  }

  has(name: string): boolean {
    return this.#find(name) >= 0
  }

  /** The names that nobody has asked for by `check`: what the client holds and we do not, after all of ours were checked. */
  unchecked(): string[] {
    const names: string[] = []
    for (let entry = 0; entry < this.#size; entry++) {
      if (this.#checked[entry] !== 1) names.push(this.#text(entry * WIDTH + NAME))
    }
    return names
  }

  *[Symbol.iterator](): Iterator<readonly [name: string, version: string]> {
    for (let entry = 0; entry < this.#size; entry++) {
      yield [this.#text(entry * WIDTH + NAME), this.#text(entry * WIDTH + VERSION)]
    }
  }

  #cell(index: number): number {
    return this.#rows[index] ?? 0
  }

  #text(cell: number): string {
    return this.#bytes.toString('utf8', this.#cell(cell), this.#cell(cell + 1))
  }

  /** Row of the name, or -1. */
  #find(name: string): number {
    if (this.#size === 0) return -1
    let hash = seed
    for (let i = 0; i < name.length; i++) {
      const code = name.charCodeAt(i)
      if (code > 0x7f) return this.#findBytes(Buffer.from(name))
      hash = mix(hash, code)
    }
    const mask = this.#slots.length - 1
    for (let slot = hash & mask; ; slot = (slot + 1) & mask) {
      const entry = this.#slots[slot] ?? 0
      if (entry === 0) return -1
      const row = (entry - 1) * WIDTH
      if (this.#rows[row + HASH] !== hash) continue
      const start = this.#cell(row + NAME)
      if (this.#cell(row + NAME_END) - start !== name.length) continue
      let i = 0
      while (i < name.length && this.#bytes[start + i] === name.charCodeAt(i)) i++
      if (i === name.length) return row
    }
  }

  #findBytes(name: Buffer): number {
    let hash = seed
    for (const byte of name) hash = mix(hash, byte)
    const mask = this.#slots.length - 1
    for (let slot = hash & mask; ; slot = (slot + 1) & mask) {
      const entry = this.#slots[slot] ?? 0
      if (entry === 0) return -1
      const row = (entry - 1) * WIDTH
      if (this.#rows[row + HASH] === hash && this.#isName(row, name, 0, name.length)) return row
    }
  }

  #isName(row: number, other: Buffer, start: number, end: number): boolean {
    const own = this.#cell(row + NAME)
    const length = end - start
    if (this.#cell(row + NAME_END) - own !== length) return false
    let i = 0
    while (i < length && this.#bytes[own + i] === other[start + i]) i++
    return i === length
  }

  #growRows(): void {
    const rows = new Int32Array(Math.max(16 * WIDTH, this.#rows.length * 2))
    rows.set(this.#rows)
    this.#rows = rows
  }

  #rehash(): void {
    const slots = new Uint32Array(Math.max(16, this.#slots.length * 2))
    const mask = slots.length - 1
    for (let entry = 1; entry <= this.#size; entry++) {
      let slot = this.#cell((entry - 1) * WIDTH + HASH) & mask
      while (slots[slot] !== 0) slot = (slot + 1) & mask
      slots[slot] = entry
    }
    this.#slots = slots
  }
}

function mix(hash: number, byte: number): number {
  const product = Math.imul(hash ^ byte, multiplier)
  return product ^ (product >>> 15)
}
