// SPDX-License-Identifier: Apache-2.0
// The types that settings can have: text, names, switches, durations, numbers and addresses to listen on.

import { InvalidInput } from './errors.js'
import { LONGEST_DURATION_MS, parseBoolean, parseDuration, parseInteger } from './go-values.js'
import { parseListenAddress, type ListenAddress } from './listen.js'
import type { ValueType } from './settings.js'

/** Any text. */
export function textValue(label: string): ValueType<string> {
  return { label, parse: (text) => text }
}

/** A text that must not be empty. */
export function nameValue(label: string): ValueType<string> {
  return {
    label,
    parse(text) {
      if (text === '') throw new InvalidInput('must not be empty')
      return text
    },
  }
}

/** `--name` alone means true. */
export const booleanValue: ValueType<boolean> = { label: 'BOOLEAN', parse: parseBoolean, isSwitch: true }

/** Milliseconds, not negative. */
export const durationValue: ValueType<number> = {
  label: 'DURATION',
  parse(text) {
    const value = parseDuration(text)
    if (value < 0) throw new InvalidInput(`"${text}" is negative`)
    return value
  },
}

/** Milliseconds, more than zero; Infinity for the longest duration that Go can write. */
export const periodValue: ValueType<number> = {
  label: 'DURATION',
  parse(text) {
    const value = parseDuration(text)
    if (value <= 0) throw new InvalidInput(`"${text}" must be more than zero`)
    return value >= LONGEST_DURATION_MS - 1 ? Number.POSITIVE_INFINITY : value
  },
}

/** A whole number from `least` to `most`. */
export function integerValue(least: number, most: number = Number.MAX_SAFE_INTEGER): ValueType<number> {
  return {
    label: 'NUMBER',
    parse(text) {
      const value = parseInteger(text)
      if (value < least || value > most) {
        const range = most === Number.MAX_SAFE_INTEGER ? `at least ${least}` : `from ${least} to ${most}`
        throw new InvalidInput(`"${text}" is out of range; it must be ${range}`)
      }
      return value
    },
  }
}

/** An address to listen on; undefined when empty. */
export const listenValue: ValueType<ListenAddress | undefined> = { label: 'ADDRESS', parse: parseListenAddress }
