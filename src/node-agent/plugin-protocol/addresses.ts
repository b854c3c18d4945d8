// SPDX-License-Identifier: Apache-2.0
// Addresses of pods as plugins write them, made canonical.

import { formatIp, parseIp } from '../../base/ip.js'

/** Canonical text, IPv4-mapped ones as IPv4; undefined when it is no plain address. */
export function formatPodIp(text: string): string | undefined {
  if (text.includes('%')) return undefined
  const bytes = parseIp(text)
  if (bytes === undefined) return undefined
  const printed = formatIp(bytes)
  return printed.startsWith('::ffff:') && printed.includes('.') ? printed.slice(7) : printed
}
