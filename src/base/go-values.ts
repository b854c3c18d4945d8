// SPDX-License-Identifier: Apache-2.0
// Durations, booleans and integers as Go programs write them on command lines and in environments. Strict: nothing around a value, no guessing.

import { InvalidInput } from './errors.js'

/** Longest duration that Go knows, in milliseconds; istiod prints it where it means "never". */
export const LONGEST_DURATION_MS = 9_223_372_036_854.775

const unitMs: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  '\u00b5s': 1e-3,
  '\u03bcs': 1e-3,
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
}

const part = /([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)/y

/**
 * Reads a duration such as `20ms`, `1m30s`, `1.5h`, `-2s` or a bare `0`. Gives milliseconds, fractions included.
 * Throws InvalidInput when the text is anything else: a number without a unit, spaces, an unknown unit, more than 292 years.
 */
export function parseDuration(text: string): number {
  const signed = /^[+-]/.test(text) ? text.slice(1) : text
  if (signed === '0') return 0
  let total = 0
  part.lastIndex = 0
  while (part.lastIndex < signed.length) {
    const match = part.exec(signed)
    if (match === null) throw notADuration(text)
    total += Number(match[1]) * (unitMs[match[2] ?? ''] ?? Number.NaN)
  }
  if (signed === '' || !Number.isFinite(total)) throw notADuration(text)
  // A double has 53 bits where Go has 63: the longest duration itself must still be read.
  if (total > LONGEST_DURATION_MS + 1) throw notADuration(text)
  return text.startsWith('-') && total > 0 ? -total : total
}

function notADuration(text: string): InvalidInput {
  return new InvalidInput(`"${text}" is not a duration; write it like 20ms, 10s or 1m30s`)
}

const booleans: Readonly<Record<string, boolean>> = {
  '1': true,
  t: true,
  T: true,
  true: true,
  TRUE: true,
  True: true,
  '0': false,
  f: false,
  F: false,
  false: false,
  FALSE: false,
  False: false,
}

/** Reads `1 t T true TRUE True` and `0 f F false FALSE False`. Throws InvalidInput for every other spelling. */
export function parseBoolean(text: string): boolean {
  const value = Object.hasOwn(booleans, text) ? booleans[text] : undefined
  if (value === undefined) throw new InvalidInput(`"${text}" is not a boolean; write true or false`)
  return value
}

/** Reads a decimal integer with an optional sign. Throws InvalidInput for anything else, and for what a double cannot hold exactly. */
export function parseInteger(text: string): number {
  const value = /^[+-]?[0-9]+$/.test(text) ? Number(text) : Number.NaN
  if (!Number.isSafeInteger(value)) throw new InvalidInput(`"${text}" is not a whole number`)
  return value === 0 ? 0 : value
}
