// SPDX-License-Identifier: Apache-2.0
// Which texts of a row stand where an address is due and are none. For those who tell people; the readers of rows pass over such texts in silence.
// Runs for every row that comes: a row without fault costs no more than reading its addresses.

import { parseIp, parsePrefix } from '../base/ip.js'
import { shortenText } from '../base/short-text.js'
import type { Kind, RecordByKind, WorkloadSpecRecord } from './records.js'

type Selections = { readonly [K in Kind]?: (record: RecordByKind[K]) => Iterable<string> }

const isAddress = (text: string): boolean => parseIp(text) !== undefined
const isAddressOrRange = (text: string): boolean => isAddress(text) || parsePrefix(text) !== undefined
/** A socket, or what can be a host name: not all digits and dots, which is an address misspelt. */
const isReachable = (text: string): boolean =>
  isAddress(text) ||
  text === '' ||
  text.startsWith('unix://') ||
  (/^(\*\.)?[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?\.?$/.test(text) && !/^[0-9.]+$/.test(text))

const selections: Selections = {
  Pod: ({ ips }) => select('status.podIPs', ips, isAddress),
  Service: ({ clusterIps }) => select('spec.clusterIPs', clusterIps, isAddress),
  EndpointSlice: function* ({ addressType, endpoints }) {
    if (addressType === 'FQDN') return
    for (const { addresses } of endpoints) yield* select('endpoints.addresses', addresses, isAddress)
  },
  Gateway: function* ({ addresses }) {
    for (const { type, value } of addresses) {
      if (type === 'IPAddress') yield* select('status.addresses', [value], isAddress)
    }
  },
  WorkloadEntry: ({ spec }) => selectEndpoint('spec.address', spec),
  ServiceEntry: function* ({ addresses, endpoints, statusAddresses }) {
    yield* select('spec.addresses', addresses, isAddressOrRange)
    for (const endpoint of endpoints) yield* selectEndpoint('spec.endpoints.address', endpoint)
    for (const { value } of statusAddresses) yield* select('status.addresses', [value], isAddress)
  },
}

function* select(field: string, texts: readonly string[], isFine: (text: string) => boolean): Iterable<string> {
  for (const text of texts) {
    if (!isFine(text)) yield `${field} has ${JSON.stringify(shortenText(text, 100))}, which is no address`
  }
}

function selectEndpoint(field: string, { address }: WorkloadSpecRecord): Iterable<string> {
  return select(field, [address], isReachable)
}

/** One clause for each of them, at most ten; undefined when all is well. */
export function findFalseAddresses<K extends Kind>(kind: K, record: RecordByKind[K]): string | undefined {
  const all = selections[kind]
  if (all === undefined) return undefined
  let found: string[] | undefined
  for (const clause of all(record)) {
    found ??= []
    if (found.length === 10) return [...found, 'and so on'].join('; ')
    found.push(clause)
  }
  return found?.join('; ')
}
