// SPDX-License-Identifier: Apache-2.0
// A cursor over protobuf bytes for the hand-written decoders. Strict: whatever does not fit throws a ProtocolError that names the message and the field.
// Never copies: bytes are handed out as views.

import { ProtocolError } from '../base/errors.js'

/** gRPC status INTERNAL: what a server answers to a message that it cannot parse. */
const INTERNAL = 13
const REPLACEMENT = '\ufffd'
const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

const VARINT = 0
const FIXED64 = 1
export const BYTES = 2
const FIXED32 = 5

/** Reads one message between two offsets. `subject` is its name in error messages. */
export class Reader {
  readonly #bytes: Buffer
  readonly #subject: string
  #at: number
  #end: number
  /** Number of the field whose tag was read last. */
  field = 0
  /** Wire type of that field. */
  wireType = 0
  /** Length in bytes of the string that `textEnd` passed over last. */
  length = 0

  constructor(bytes: Uint8Array, subject: string, start = 0, end = bytes.length) {
    this.#bytes = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    this.#subject = subject
    this.#at = start
    this.#end = end
  }

  /** Offset of the next unread byte. */
  get offset(): number {
    return this.#at
  }

  /** Nothing is left to read. */
  get done(): boolean {
    return this.#at >= this.#end
  }

  /** Reads the next tag into `field` and `wireType`; false at the end of the message. */
  next(): boolean {
    if (this.#at >= this.#end) return false
    const tag = this.varint()
    this.field = tag >>> 3
    this.wireType = tag & 7
    if (this.field === 0) throw this.failure('has field number 0')
    return true
  }

  /** A varint cut to 32 bits, unsigned. */
  varint(): number {
    let value = 0
    for (let shift = 0; shift < 70; shift += 7) {
      if (this.#at >= this.#end) throw this.failure('ends inside a number')
      const byte = this.#bytes[this.#at++] ?? 0
      if (shift < 32) value |= (byte & 0x7f) << shift
      if (byte < 0x80) return value >>> 0
    }
    throw this.failure('has a number of more than ten bytes')
  }

  uint32(): number {
    this.expect(VARINT)
    return this.varint()
  }

  /** An enum or int32. */
  int32(): number {
    this.expect(VARINT)
    return this.varint() | 0
  }

  bool(): boolean {
    this.expect(VARINT)
    let any = false
    for (let count = 0; count < 10; count++) {
      if (this.#at >= this.#end) throw this.failure('ends inside a number')
      const byte = this.#bytes[this.#at++] ?? 0
      if ((byte & 0x7f) !== 0) any = true
      if (byte < 0x80) return any
    }
    throw this.failure('has a number of more than ten bytes')
  }

  double(): number {
    this.expect(FIXED64)
    const at = this.#take(8)
    return this.#bytes.readDoubleLE(at)
  }

  /** A view of the field's bytes. */
  bytes(): Uint8Array {
    this.expect(BYTES)
    const length = this.varint()
    const at = this.#take(length)
    return this.#bytes.subarray(at, at + length)
  }

  /** A string field; invalid UTF-8 is an error. */
  string(): string {
    this.expect(BYTES)
    const length = this.varint()
    const at = this.#take(length)
    return this.text(at, at + length)
  }

  /** The UTF-8 between two offsets as text; invalid UTF-8 is an error. */
  text(start: number, end: number): string {
    if (start === end) return ''
    const text = this.#bytes.toString('utf8', start, end)
    if (!text.includes(REPLACEMENT)) return text
    // Either it really says U+FFFD, or it is broken.
    try {
      return strictUtf8.decode(this.#bytes.subarray(start, end))
    } catch (error) {
      throw this.failure('is not valid UTF-8', error)
    }
  }

  /** Checks a string field and passes over it without making a string. Gives the offset of its end; its length in bytes is in `length`. */
  textEnd(): number {
    this.expect(BYTES)
    this.length = this.varint()
    const start = this.#take(this.length)
    for (let i = start; i < this.#at; i++) {
      if ((this.#bytes[i] ?? 0) > 0x7f) {
        this.text(i, this.#at)
        break
      }
    }
    return this.#at
  }

  /** Enters the length-delimited field: a reader of its content, this one moves on behind it. */
  message(subject: string): Reader {
    this.expect(BYTES)
    const length = this.varint()
    const at = this.#take(length)
    return new Reader(this.#bytes, subject, at, at + length)
  }

  /** Passes over a field of any kind. */
  skip(): void {
    switch (this.wireType) {
      case VARINT:
        this.varint()
        return
      case FIXED64:
        this.#take(8)
        return
      case BYTES:
        this.#take(this.varint())
        return
      case FIXED32:
        this.#take(4)
        return
      default:
        throw this.failure(`has wire type ${this.wireType}, which proto3 does not know`)
    }
  }

  expect(wireType: number): void {
    if (this.wireType !== wireType) throw this.failure(`has wire type ${this.wireType} instead of ${wireType}`)
  }

  /** True when the content of the length-delimited field equals `known`; the cursor moves behind it then, else it stays in front of the length. */
  takesBytes(known: Uint8Array): boolean {
    this.expect(BYTES)
    const start = this.#at
    const length = this.varint()
    const at = this.#take(length)
    if (length === known.length) {
      let i = 0
      while (i < length && this.#bytes[at + i] === known[i]) i++
      if (i === length) return true
    }
    this.#at = start
    return false
  }

  failure(what: string, cause?: unknown): ProtocolError {
    const where = this.field === 0 ? this.#subject : `${this.#subject}: field ${this.field}`
    return new ProtocolError(`${where} ${what}; is this message of that type?`, INTERNAL, cause)
  }

  #take(length: number): number {
    const at = this.#at
    if (length > this.#end - at) throw this.failure(`says it has ${length} bytes where ${this.#end - at} are left`)
    this.#at = at + length
    return at
  }
}
