// SPDX-License-Identifier: Apache-2.0
// Writes protobuf from the last byte to the first, so that every length is known when it is written and nothing is moved. For the hand-written encoders.
// Fields are therefore given in descending order. Never allocates per field; `copy` gives the result a buffer of its own.

const initialSize = 64 * 1024
/** A slab that grew beyond this for one big message is not kept. */
const keptSize = 1024 * 1024

/** One growing slab. Not re-entrant: fill it and copy out in one go. */
export class BackwardWriter {
  #slab: Uint8Array
  #at: number

  constructor(size = initialSize) {
    this.#slab = new Uint8Array(size)
    this.#at = size
  }

  /** Forgets what was written. */
  reset(): void {
    if (this.#slab.length > keptSize) this.#slab = new Uint8Array(initialSize)
    this.#at = this.#slab.length
  }

  /** Bytes written so far: the mark to give to `close` or `view` later. */
  mark(): number {
    return this.#slab.length - this.#at
  }

  /** What was written, in a buffer of exactly that size. */
  copy(): Uint8Array {
    return this.#slab.slice(this.#at)
  }

  /** What was written since the mark, without copying: valid until the next write or reset. */
  view(mark: number): Uint8Array {
    return this.#slab.subarray(this.#at, this.#slab.length - mark)
  }

  /** Ends (that is, begins) the message whose content was written since the mark: length, then tag. Written also when empty. */
  close(tag: number, mark: number): void {
    this.varint(this.#slab.length - this.#at - mark)
    this.varint(tag)
  }

  /** A uint32. */
  varint(value: number): void {
    if (value >= 0 && value < 0x80) {
      if (this.#at < 1) this.#grow(1)
      this.#slab[--this.#at] = value
      return
    }
    this.#longVarint(value >>> 0)
  }

  /** A uint32 field; 0 is not written. */
  uint32Field(tag: number, value: number): void {
    if (value === 0) return
    this.varint(value)
    this.varint(tag)
  }

  /** An enum field; 0 is not written, negative values take ten bytes as protobuf has it. */
  enumField(tag: number, value: number): void {
    if (value === 0) return
    this.enumValue(value)
    this.varint(tag)
  }

  enumValue(value: number): void {
    if (value >= 0) this.varint(value)
    else this.#negativeVarint(value)
  }

  /** A bool field; false is not written. */
  boolField(tag: number, value: boolean): void {
    if (!value) return
    this.varint(1)
    this.varint(tag)
  }

  /** A string field; the empty string is not written. */
  stringField(tag: number, text: string): void {
    if (text !== '') this.stringElement(tag, text)
  }

  /** A string of a repeated or oneof field: written also when empty. */
  stringElement(tag: number, text: string): void {
    const mark = this.mark()
    this.text(text)
    this.close(tag, mark)
  }

  /** A bytes field; empty bytes are not written. */
  bytesField(tag: number, bytes: Uint8Array): void {
    if (bytes.length > 0) this.bytesElement(tag, bytes)
  }

  /** Bytes of a repeated field: written also when empty. */
  bytesElement(tag: number, bytes: Uint8Array): void {
    this.bytes(bytes)
    this.varint(bytes.length)
    this.varint(tag)
  }

  /** Bytes as they are. */
  bytes(bytes: Uint8Array): void {
    const length = bytes.length
    if (this.#at < length) this.#grow(length)
    this.#at -= length
    const slab = this.#slab
    // A call into the engine costs more than a few moves.
    if (length <= 16) for (let i = 0; i < length; i++) slab[this.#at + i] = bytes[i] ?? 0
    else slab.set(bytes, this.#at)
  }

  /** UTF-8 of the text. Lone surrogates become U+FFFD. */
  text(text: string): void {
    const most = text.length * 3
    if (this.#at < most) this.#grow(most)
    const slab = this.#slab
    let at = this.#at
    for (let i = text.length - 1; i >= 0; i--) {
      let code = text.charCodeAt(i)
      if (code < 0x80) {
        slab[--at] = code
        continue
      }
      if ((code & 0xf800) === 0xd800) {
        const high = i > 0 ? text.charCodeAt(i - 1) : 0
        if (code >= 0xdc00 && (high & 0xfc00) === 0xd800) {
          code = 0x10000 + ((high & 0x3ff) << 10) + (code & 0x3ff)
          i--
        } else {
          code = 0xfffd
        }
      }
      slab[--at] = 0x80 | (code & 0x3f)
      if (code < 0x800) {
        slab[--at] = 0xc0 | (code >> 6)
        continue
      }
      slab[--at] = 0x80 | ((code >> 6) & 0x3f)
      if (code < 0x10000) {
        slab[--at] = 0xe0 | (code >> 12)
        continue
      }
      slab[--at] = 0x80 | ((code >> 12) & 0x3f)
      slab[--at] = 0xf0 | (code >> 18)
    }
    this.#at = at
  }

  #longVarint(value: number): void {
    if (this.#at < 5) this.#grow(5)
    const size = value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x200000 ? 3 : value < 0x10000000 ? 4 : 5
    this.#at -= size
    let rest = value
    let at = this.#at
    while (rest > 0x7f) {
      this.#slab[at++] = (rest & 0x7f) | 0x80
      rest >>>= 7
    }
    this.#slab[at] = rest
  }

  #negativeVarint(value: number): void {
    if (this.#at < 10) this.#grow(10)
    this.#at -= 10
    let rest = BigInt.asUintN(64, BigInt(value | 0))
    for (let i = 0; i < 9; i++) {
      this.#slab[this.#at + i] = Number(rest & 0x7fn) | 0x80
      rest >>= 7n
    }
    this.#slab[this.#at + 9] = Number(rest)
  }

  #grow(need: number): void {
    const used = this.mark()
    const slab = new Uint8Array(Math.max(this.#slab.length * 2, used + need))
    slab.set(this.#slab.subarray(this.#at), slab.length - used)
    this.#slab = slab
    this.#at = slab.length - used
  }
}

/** Orders two texts as their UTF-8 bytes are ordered (UTF-16 order differs above U+FFFF). */
export function compareUtf8(a: string, b: string): number {
  const length = Math.min(a.length, b.length)
  for (let i = 0; i < length; i++) {
    const x = a.charCodeAt(i)
    const y = b.charCodeAt(i)
    if (x !== y) return toUtf8Rank(x) - toUtf8Rank(y)
  }
  return a.length - b.length
}

/** Surrogates stand for code points above all others of 16 bits. */
function toUtf8Rank(unit: number): number {
  return (unit & 0xf800) === 0xd800 ? unit + 0x10000 : unit
}
