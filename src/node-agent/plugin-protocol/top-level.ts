// SPDX-License-Identifier: Apache-2.0
// Where the values of a JSON object's own keys stand in its bytes, so that one of them can be passed on byte for byte. Reads only what JSON.parse has
// taken already, and never looks inside the values.

/** Half open, in bytes. */
export interface Span {
  readonly start: number
  readonly end: number
}

const quote = 0x22
const backslash = 0x5c
const opening = new Set([0x7b, 0x5b])
const closing = new Set([0x7d, 0x5d])
const comma = 0x2c
const colon = 0x3a

/** The span of the value of `key` in the text of one object; of several equal keys the last, as JSON.parse has it. Undefined when there is none. */
export function selectValue(json: Buffer, key: string): Span | undefined {
  let found: Span | undefined
  let at = skipBlanks(json, 0) + 1
  for (;;) {
    at = skipBlanks(json, at)
    if (json[at] !== quote) return found
    const keyEnd = skipString(json, at)
    const name: unknown = JSON.parse(json.toString('utf8', at, keyEnd))
    at = skipBlanks(json, keyEnd)
    if (json[at] === colon) at = skipBlanks(json, at + 1)
    const end = skipValue(json, at)
    if (name === key) found = { start: at, end }
    at = skipBlanks(json, end)
    if (json[at] === comma) at++
  }
}

function skipBlanks(json: Buffer, from: number): number {
  let at = from
  while (at < json.length && (json[at] ?? 0) <= 0x20) at++
  return at
}

/** `from` is the opening quote; the result stands behind the closing one. */
function skipString(json: Buffer, from: number): number {
  let at = from + 1
  while (at < json.length && json[at] !== quote) at += json[at] === backslash ? 2 : 1
  return at + 1
}

function skipValue(json: Buffer, from: number): number {
  let depth = 0
  let at = from
  while (at < json.length) {
    const byte = json[at] ?? 0
    if (byte === quote) {
      at = skipString(json, at)
      if (depth === 0) return at
      continue
    }
    if (opening.has(byte)) depth++
    else if (closing.has(byte)) {
      if (depth === 0) return at
      depth--
      if (depth === 0) return at + 1
    } else if (depth === 0 && (byte === comma || byte <= 0x20)) return at
    at++
  }
  return at
}
