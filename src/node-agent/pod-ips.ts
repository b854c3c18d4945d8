// SPDX-License-Identifier: Apache-2.0
// Addresses of pods as everything here compares them: canonical text, IPv4-mapped ones as IPv4, each once, in the order given. Pure.

import { formatIp, parseIp } from '../base/ip.js'

const mapped = '::ffff:'

/** What is no address is left out. */
export function toCanonicalIps(texts: readonly string[]): readonly string[] {
  const out = new Set<string>()
  for (const text of texts) {
    const bytes = parseIp(text)
    if (bytes === undefined) continue
    const ip = formatIp(bytes)
    out.add(ip.startsWith(mapped) && ip.includes('.') ? ip.slice(mapped.length) : ip)
  }
  return [...out]
}

/** The same addresses in any order. Both canonical. */
export function isSameIps(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((ip) => b.includes(ip))
}
