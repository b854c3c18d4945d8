// SPDX-License-Identifier: Apache-2.0
// Netlink as bytes: messages, attributes, answers. For the encoders of nf_tables and rtnetlink in this folder; opens no socket and knows no meaning.
// Headers are in host order, which is little-endian on every machine that this product runs on.

export const requestFlag = 1
export const acknowledgeFlag = 4
export const replaceFlag = 0x100
export const exclusiveFlag = 0x200
export const createFlag = 0x400
export const appendFlag = 0x800
export const dumpFlag = 0x300

const nestedBit = 0x8000
const typeBits = 0x3fff
const headerBytes = 16
const errorType = 2
const doneType = 3

/** One attribute: length, type, value, padding to four bytes. */
export function toAttribute(type: number, value: Uint8Array): Buffer {
  const length = 4 + value.length
  const out = Buffer.alloc((length + 3) & ~3)
  out.writeUInt16LE(length, 0)
  out.writeUInt16LE(type, 2)
  out.set(value, 4)
  return out
}

/** An attribute that holds attributes. */
export function toNested(type: number, ...parts: readonly Uint8Array[]): Buffer {
  return toAttribute(type | nestedBit, Buffer.concat(parts))
}

/** As nf_tables wants its numbers. */
export function toBigEndian(value: number): Buffer {
  const out = Buffer.alloc(4)
  out.writeUInt32BE(value >>> 0)
  return out
}

/** As rtnetlink wants its numbers, and as registers hold marks. */
export function toHostOrder(value: number): Buffer {
  const out = Buffer.alloc(4)
  out.writeUInt32LE(value >>> 0)
  return out
}

export function toCString(text: string): Buffer {
  return Buffer.from(`${text}\0`)
}

/** A whole message. The sequence number comes back in its answers. */
export function toMessage(
  head: { readonly type: number; readonly flags: number; readonly sequence: number },
  body: Uint8Array,
): Buffer {
  const length = headerBytes + body.length
  const out = Buffer.alloc((length + 3) & ~3)
  out.writeUInt32LE(length, 0)
  out.writeUInt16LE(head.type, 4)
  out.writeUInt16LE(head.flags, 6)
  out.writeUInt32LE(head.sequence, 8)
  out.set(body, headerBytes)
  return out
}

/** One message as it came. */
export interface Received {
  readonly type: number
  readonly sequence: number
  readonly body: Buffer
}

/** The messages of several datagrams, in order. What is cut off at the end of one is left out. */
export function readMessages(datagrams: readonly Buffer[]): readonly Received[] {
  const out: Received[] = []
  for (const bytes of datagrams) {
    for (let at = 0; at + headerBytes <= bytes.length;) {
      const length = bytes.readUInt32LE(at)
      if (length < headerBytes || at + length > bytes.length) break
      const body = bytes.subarray(at + headerBytes, at + length)
      out.push({ type: bytes.readUInt16LE(at + 4), sequence: bytes.readUInt32LE(at + 8), body })
      at += (length + 3) & ~3
    }
  }
  return out
}

/** The positive errno that an answer reports, 0 for an acknowledgement; undefined when the message is neither. The end of a dump may report one too. */
export function readErrno(message: Received): number | undefined {
  if (message.body.length < 4) return undefined
  if (message.type === errorType) return -message.body.readInt32LE(0)
  if (message.type !== doneType) return undefined
  const errno = -message.body.readInt32LE(0)
  return errno > 0 ? errno : undefined
}

/** Calls `visit` with the type and value of each attribute; the flag of nested ones is cut off. */
export function visitAttributes(bytes: Buffer, visit: (type: number, value: Buffer) => void): void {
  for (let at = 0; at + 4 <= bytes.length;) {
    const length = bytes.readUInt16LE(at)
    if (length < 4 || at + length > bytes.length) return
    visit(bytes.readUInt16LE(at + 2) & typeBits, bytes.subarray(at + 4, at + length))
    at += (length + 3) & ~3
  }
}

/** The attributes by type; of one that comes twice the last. */
export function readAttributes(bytes: Buffer): ReadonlyMap<number, Buffer> {
  const out = new Map<number, Buffer>()
  visitAttributes(bytes, (type, value) => out.set(type, value))
  return out
}

/** The attribute's text without the NUL at its end; empty when it is not there. */
export function readText(value: Buffer | undefined): string {
  if (value === undefined) return ''
  const end = value.indexOf(0)
  return value.toString('utf8', 0, end < 0 ? value.length : end)
}

/**
 * Whether `actual` holds the attributes of `expected` with the same values, whatever their order. Looks into those that are marked as nested in `expected`.
 * Attributes that only `actual` has (newer kernels say more) count as equal when all their bytes are zero.
 */
export function isSameAttributes(expected: Buffer, actual: Buffer): boolean {
  if (expected.equals(actual)) return true
  const left = new Map(readAttributes(actual))
  for (let at = 0; at + 4 <= expected.length;) {
    const length = expected.readUInt16LE(at)
    const rawType = expected.readUInt16LE(at + 2)
    const wanted = expected.subarray(at + 4, at + length)
    const found = left.get(rawType & typeBits)
    if (found === undefined) return false
    left.delete(rawType & typeBits)
    const isSame = (rawType & nestedBit) === 0 ? wanted.equals(found) : isSameAttributes(wanted, found)
    if (!isSame) return false
    at += (length + 3) & ~3
  }
  return [...left.values()].every((value) => value.every((byte) => byte === 0))
}
