// SPDX-License-Identifier: Apache-2.0
// The single values of a policy's rules as proxies match them. A value that cannot be read is left out, and it is for the caller to say so: what is left of
// the list then matches less. Pure.

import { parseIp, parsePrefix } from '../base/ip.js'
import type { AccountMatch, AddressMatch, StringMatch } from '../wire/authorization-encoder.js'

/** `*`, `*text`, `text*` or the text itself; a leading star is looked at first, and only one star means anything. */
export function parseStringMatch(text: string): StringMatch {
  if (text === '*') return { kind: 'presence' }
  if (text.startsWith('*')) return { kind: 'suffix', text: text.slice(1) }
  if (text.endsWith('*')) return { kind: 'prefix', text: text.slice(0, -1) }
  return { kind: 'exact', text }
}

/** `namespace/account`, or an account of the policy's own namespace. Never a pattern. */
export function parseAccountMatch(text: string, ownNamespace: string): AccountMatch {
  const slash = text.indexOf('/')
  if (slash < 0) return { namespace: ownNamespace, serviceAccount: text }
  return { namespace: text.slice(0, slash), serviceAccount: text.slice(slash + 1) }
}

/** Decimal digits up to 65535; undefined for a named port and anything else. */
export function parsePortMatch(text: string): number | undefined {
  if (!/^[0-9]+$/.test(text)) return undefined
  const port = Number(text)
  return port <= 65_535 ? port : undefined
}

/** An address, or a range whose host bits stay as they are; undefined when it is neither. */
export function parseAddressMatch(text: string): AddressMatch | undefined {
  if (text.includes('/')) return parsePrefix(text)
  const address = parseIp(text)
  return address && { address, length: address.length * 8 }
}
