// SPDX-License-Identifier: Apache-2.0
// Where values start and end in JSON text: for files that hold several, and for the line of each item of a list. Finds brackets and strings
// only; whether the text is JSON is for JSON.parse to say.

/** From the first character of a value to the one after its last. */
export type Span = readonly [start: number, end: number]

const quote = 0x22
const backslash = 0x5c
const openBrace = 0x7b
const closeBrace = 0x7d
const openBracket = 0x5b
const closeBracket = 0x5d

/** Offset after the string that starts at `start` (at its quote). */
function skipString(text: string, start: number): number {
  for (let i = start + 1; i < text.length; i++) {
    const c = text.charCodeAt(i)
    if (c === backslash) i++
    else if (c === quote) return i + 1
  }
  return text.length
}

/** Offset after the bracketed value that starts at `start`; the end of the text when it never closes. */
function skipBrackets(text: string, start: number): number {
  let depth = 0
  for (let i = start; i < text.length; i++) {
    const c = text.charCodeAt(i)
    if (c === quote) i = skipString(text, i) - 1
    else if (c === openBrace || c === openBracket) depth++
    else if (c === closeBrace || c === closeBracket) {
      depth--
      if (depth === 0) return i + 1
    }
  }
  return text.length
}

/** The objects of a text that holds one after another. Anything between them that is not white space becomes a span of its own. */
export function splitJsonValues(text: string): readonly Span[] {
  const out: Span[] = []
  let i = 0
  for (;;) {
    while (i < text.length && text.charCodeAt(i) <= 0x20) i++
    if (i >= text.length) return out
    const end = text.charCodeAt(i) === openBrace ? skipBrackets(text, i) : text.length
    out.push([i, end])
    i = end
  }
}

/** Where each object of the field `items` starts, for an object in [start, end). Right for JSON only. */
export function splitJsonItems(text: string, start: number, end: number): readonly number[] {
  let i = start + 1
  while (i < end) {
    const c = text.charCodeAt(i)
    if (c === quote) {
      const after = skipString(text, i)
      const isItems = text.slice(i, after) === '"items"'
      const opened = isItems ? text.slice(after, end).match(/^\s*:\s*\[/)?.[0].length : undefined
      if (opened !== undefined) return itemStarts(text, after + opened, end)
      i = after
    } else if (c === openBrace || c === openBracket) i = skipBrackets(text, i)
    else i++
  }
  return []
}

function itemStarts(text: string, from: number, end: number): readonly number[] {
  const out: number[] = []
  let i = from
  while (i < end) {
    const c = text.charCodeAt(i)
    if (c === closeBracket) return out
    if (c <= 0x20 || c === 0x2c) {
      i++
      continue
    }
    out.push(i)
    if (c === quote) i = skipString(text, i)
    else if (c === openBrace || c === openBracket) i = skipBrackets(text, i)
    else while (i < end && ![0x2c, closeBracket].includes(text.charCodeAt(i))) i++
  }
  return out
}
