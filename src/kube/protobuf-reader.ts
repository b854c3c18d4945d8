// SPDX-License-Identifier: Apache-2.0
// A cursor over protobuf bytes, for the hand-written decoders of this folder. Knows the wire format and no message. Bytes that end too
// early are an InvalidInput; it never reads past its buffer.

import { InvalidInput } from '../base/errors.js'

/** Tag of a length-delimited field: text, bytes, a message. */
export const delimited = (field: number): number => (field << 3) | 2
/** Tag of a field that holds a number or a flag. */
export const numeric = (field: number): number => field << 3

export class ProtobufReader {
  pos = 0

  constructor(readonly bytes: Buffer) {}

  /** The next number. Exact up to 2^53; a negative one comes out large. */
  varint(): number {
    const { bytes } = this
    let value = 0
    let factor = 1
    for (let i = 0; i < 10; i++) {
      const byte = bytes[this.pos]
      if (byte === undefined) throw cutShort()
      this.pos++
      value += (byte & 127) * factor
      if (byte < 128) return value
      factor *= 128
    }
    throw new InvalidInput('protobuf: a number has more than ten bytes')
  }

  /** Reads a length; gives the position behind what it announces. */
  end(): number {
    const length = this.varint()
    const end = this.pos + length
    if (end > this.bytes.length) throw cutShort()
    return end
  }

  /** Signed 32 bits, as Kubernetes writes ports. */
  int32(): number {
    const value = this.varint()
    return value < 0x8000_0000 ? value : Number(BigInt.asIntN(32, BigInt(value)))
  }

  flag(): boolean {
    return this.varint() !== 0
  }

  text(): string {
    const end = this.end()
    const text = this.bytes.utf8Slice(this.pos, end)
    this.pos = end
    return text
  }

  /** The bytes of a field, not copied. */
  slice(): Buffer {
    const end = this.end()
    const slice = this.bytes.subarray(this.pos, end)
    this.pos = end
    return slice
  }

  /** Steps over the value of a field that nobody reads. */
  skip(tag: number): void {
    switch (tag & 7) {
      case 0:
        this.varint()
        return
      case 1:
        this.pos += 8
        break
      case 2:
        this.pos = this.end()
        return
      case 5:
        this.pos += 4
        break
      default:
        throw new InvalidInput(`protobuf: wire type ${tag & 7} is not used by Kubernetes`)
    }
    if (this.pos > this.bytes.length) throw cutShort()
  }

  /** To be called behind the last field of a message: its fields must end where it ends. */
  close(end: number): void {
    if (this.pos !== end) throw new InvalidInput('protobuf: a field reaches past the end of its message')
  }
}

declare global {
  // Node has these methods; its types do not name them. They skip the look-up of the encoding's name.
  interface Buffer {
    utf8Slice(start: number, end: number): string
    latin1Slice(start: number, end: number): string
  }
}

function cutShort(): InvalidInput {
  return new InvalidInput('protobuf: the bytes end in the middle of a field')
}
