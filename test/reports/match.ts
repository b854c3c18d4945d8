// SPDX-License-Identifier: Apache-2.0
// Partial matching of what is there against what a case expects. A mismatch is a path and a sentence; none is an empty list.

import { isDeepStrictEqual } from 'node:util'
import { isRecord } from './cases.js'

/** Differences between `actual` and the partial `expected`; empty when it matches. */
export function mismatches(actual: unknown, expected: unknown, at = '$'): string[] {
  if (expected === null)
    return isDefault(actual) && !Array.isArray(actual) ? [] : [`${at}: expected nothing, found ${show(actual)}`]
  if (Array.isArray(expected)) return listMismatches(actual, expected, at)
  if (isRecord(expected)) return recordMismatches(actual, expected, at)
  if (isDeepStrictEqual(actual, expected)) return []
  if (isDefault(actual) && isDefault(expected)) return []
  if (isDefault(actual) && typeof expected === 'string' && firstEnums.has(expected)) return []
  return [`${at}: expected ${show(expected)}, found ${show(actual)}`]
}

// Names of value 0 of every enum in the served messages: a case may name them where the field is unset.
const firstEnums = new Set([
  'HEALTHY',
  'DEPLOYMENT',
  'NONE',
  'STANDARD',
  'AUTOMATIC',
  'UNKNOWN',
  'ONLY_HEALTHY',
  'UNSPECIFIED_MODE',
  'UNSPECIFIED_SCOPE',
  'PUBLIC',
  'GLOBAL',
  'ALLOW',
])

function isDefault(value: unknown): boolean {
  return (
    value === undefined ||
    value === null ||
    value === '' ||
    value === 0 ||
    value === false ||
    (Array.isArray(value) && value.length === 0)
  )
}

function listMismatches(actual: unknown, expected: readonly unknown[], at: string): string[] {
  const list = actual === undefined || actual === null ? [] : actual
  if (!Array.isArray(list)) return [`${at}: expected a list, found ${show(actual)}`]
  if (list.length !== expected.length) return [`${at}: expected ${show(expected)}, found ${show(list)}`]
  return expected.flatMap((item, i) => mismatches(list[i], item, `${at}[${i}]`))
}

function recordMismatches(actual: unknown, expected: Record<string, unknown>, at: string): string[] {
  if ('$not' in expected) {
    return mismatches(actual, expected['$not'], at).length > 0 ? [] : [`${at}: must not be ${show(expected['$not'])}`]
  }
  if ('$set' in expected) return setMismatches(actual, expected['$set'] as unknown[], at, true)
  if ('$has' in expected) {
    if (isRecord(actual)) return mismatches(actual, expected['$has'], at)
    return setMismatches(actual, expected['$has'] as unknown[], at, false)
  }
  if ('$keys' in expected) {
    const keys = Object.keys(isRecord(actual) ? actual : {})
    return setMismatches(keys, expected['$keys'] as unknown[], `${at} (keys)`, true)
  }
  if ('atLeast' in expected || 'atMost' in expected) {
    const n = Number(actual ?? 0)
    const { atLeast = -Infinity, atMost = Infinity } = expected as { atLeast?: number; atMost?: number }
    return n >= atLeast && n <= atMost ? [] : [`${at}: expected ${show(expected)}, found ${n}`]
  }
  if (actual !== undefined && actual !== null && !isRecord(actual))
    return [`${at}: expected an object, found ${show(actual)}`]
  if (
    !isRecord(actual) &&
    Object.keys(expected).length > 0 &&
    !Object.values(expected).every((v) => v === null || isDefault(v))
  ) {
    return [`${at}: expected ${show(expected)}, found ${show(actual)}`]
  }
  const found = isRecord(actual) ? actual : {}
  return Object.entries(expected).flatMap(([key, item]) => mismatches(found[key], item, `${at}.${key}`))
}

/** Any order; `exact`: nothing else may be there. Each actual item is used once. */
function setMismatches(actual: unknown, expected: readonly unknown[], at: string, exact: boolean): string[] {
  const list = actual === undefined || actual === null ? [] : actual
  if (!Array.isArray(list)) return [`${at}: expected a list, found ${show(actual)}`]
  const left = [...(list as unknown[])]
  const missing: unknown[] = []
  for (const item of expected) {
    const i = left.findIndex((candidate) => mismatches(candidate, item).length === 0)
    if (i < 0) missing.push(item)
    else left.splice(i, 1)
  }
  const out: string[] = []
  if (missing.length > 0) out.push(`${at}: lacks ${show(missing)} among ${show(list)}`)
  if (exact && left.length > 0) out.push(`${at}: has ${show(left)} beyond ${show(expected)}`)
  return out
}

/** Exactly these texts in any order, each as often as named. */
export function sameTexts(actual: readonly string[], expected: readonly string[], at: string): string[] {
  return setMismatches(actual, expected, at, true)
}

function show(value: unknown): string {
  const text = value === undefined ? 'nothing' : JSON.stringify(value)
  return text.length > 600 ? `${text.slice(0, 600)}…` : text
}
