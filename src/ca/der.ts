// SPDX-License-Identifier: Apache-2.0
// The few DER values of which certificates are made, as bytes, and a reader for the outer structure of those that others made.
// For certificates.ts and bundles: a library builds the same leaf twenty times slower. Reads nothing that callers send.

const SEQUENCE = 0x30
const SET = 0x31

/** One value: tag, length, content. */
export function encodeTlv(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  let length = 0
  for (const part of parts) length += part.length
  const head =
    length < 0x80
      ? [tag, length]
      : length < 0x100
        ? [tag, 0x81, length]
        : length < 0x10000
          ? [tag, 0x82, length >> 8, length & 255]
          : [tag, 0x83, length >> 16, (length >> 8) & 255, length & 255]
  return Buffer.concat([Buffer.from(head), ...parts], head.length + length)
}

export const encodeSequence = (...parts: readonly Uint8Array[]): Buffer => encodeTlv(SEQUENCE, ...parts)
export const encodeSet = (...parts: readonly Uint8Array[]): Buffer => encodeTlv(SET, ...parts)
export const encodeOctets = (bytes: Uint8Array): Buffer => encodeTlv(0x04, bytes)
export const encodeBoolean = (value: boolean): Buffer => Buffer.from([0x01, 1, value ? 0xff : 0])

/** A whole number of bits. */
export const encodeBits = (bytes: Uint8Array, unusedBits = 0): Buffer =>
  encodeTlv(0x03, Buffer.from([unusedBits]), bytes)

/** A whole number that is not negative, from big-endian bytes. */
export function encodeUnsigned(bytes: Uint8Array): Buffer {
  let start = 0
  while (start < bytes.length - 1 && bytes[start] === 0) start++
  const short = bytes.subarray(start)
  return (short[0] ?? 0) >= 0x80 ? encodeTlv(0x02, Buffer.from([0]), short) : encodeTlv(0x02, short)
}

/** An object identifier from its dotted form. */
export function encodeOid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number)
  const bytes: number[] = []
  for (const part of [first * 40 + second, ...rest]) {
    const groups = [part & 0x7f]
    for (let left = Math.floor(part / 128); left > 0; left = Math.floor(left / 128))
      groups.unshift((left & 0x7f) | 0x80)
    bytes.push(...groups)
  }
  return encodeTlv(0x06, Buffer.from(bytes))
}

/** A time, to the second: the short form up to 2049, as certificates must have it, the long one afterwards. */
export function encodeTime(ms: number): Buffer {
  const digits = new Date(ms)
    .toISOString()
    .replace(/\.\d+Z$/, 'Z')
    .replaceAll(/[-:T]/g, '')
  const isShort = digits < '2050'
  return encodeTlv(isShort ? 0x17 : 0x18, Buffer.from(isShort ? digits.slice(2) : digits, 'latin1'))
}

/** Text of a name: printable where it can be, else UTF-8. */
export function encodeText(text: string): Buffer {
  const isPrintable = /^[A-Za-z0-9 '()+,\-./:=?]*$/.test(text)
  return encodeTlv(isPrintable ? 0x13 : 0x0c, Buffer.from(text, 'utf8'))
}

/** One value inside others, where it lies. */
export interface DerValue {
  readonly tag: number
  /** Tag and length included. */
  readonly raw: Buffer
  readonly content: Buffer
}

/** Reads the value at the start of `bytes`; what follows it is left alone. Throws RangeError when it is cut off or not in definite form. */
export function readDer(bytes: Buffer): DerValue {
  const tag = bytes[0]
  const first = bytes[1]
  if (tag === undefined || first === undefined) throw new RangeError('a DER value is cut off')
  const lengthBytes = first < 0x80 ? 0 : first & 0x7f
  if (first >= 0x80 && (lengthBytes === 0 || lengthBytes > 4 || bytes.length < 2 + lengthBytes)) {
    throw new RangeError('a DER value has no definite length')
  }
  const length = lengthBytes === 0 ? first : bytes.readUIntBE(2, lengthBytes)
  const start = 2 + lengthBytes
  if (start + length > bytes.length) throw new RangeError('a DER value is cut off')
  return { tag, raw: bytes.subarray(0, start + length), content: bytes.subarray(start, start + length) }
}

/** The values inside another one. Throws RangeError like readDer. */
export function readDerValues(content: Buffer): DerValue[] {
  const values: DerValue[] = []
  for (let rest = content; rest.length > 0;) {
    const value = readDer(rest)
    values.push(value)
    rest = rest.subarray(value.raw.length)
  }
  return values
}
