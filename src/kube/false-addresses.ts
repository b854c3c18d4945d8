// SPDX-License-Identifier: Apache-2.0
// Which texts of a row stand where an address is due and are none. For those who tell people; the readers of rows pass over such texts in silence.
// Runs for every row that comes: a row without fault costs no more than reading its addresses.

import { isIp, parsePrefix } from '../base/ip.js'
import { shortenText } from '../base/short-text.js'
import type { Kind, RecordByKind, WorkloadSpecRecord } from './records.js'

/** Told of every text and what it must be. */
type Check = (field: string, texts: readonly string[], isFine: (text: string) => boolean) => void
type Checks = { readonly [K in Kind]?: (record: RecordByKind[K], check: Check) => void }

const isAddressOrRange = (text: string): boolean => isIp(text) || parsePrefix(text) !== undefined
/** A socket, or what can be a host name: not all digits and dots, which is an address misspelt. */
const isReachable = (text: string): boolean =>
  isIp(text) ||
  text === '' ||
  text.startsWith('unix://') ||
  (/^(\*\.)?[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?\.?$/.test(text) && !/^[0-9.]+$/.test(text))

const checks: Checks = {
  Pod: ({ ips }, check) => check('status.podIPs', ips, isIp),
  Service: ({ clusterIps }, check) => check('spec.clusterIPs', clusterIps, isIp),
  EndpointSlice({ addressType, endpoints }, check) {
    if (addressType === 'FQDN') return
    for (const { addresses } of endpoints) check('endpoints.addresses', addresses, isIp)
  },
  Gateway({ addresses }, check) {
    for (const { type, value } of addresses) if (type === 'IPAddress') check('status.addresses', [value], isIp)
  },
  WorkloadEntry: ({ spec }, check) => checkEndpoint('spec.address', spec, check),
  ServiceEntry({ addresses, endpoints, statusAddresses }, check) {
    check('spec.addresses', addresses, isAddressOrRange)
    for (const endpoint of endpoints) checkEndpoint('spec.endpoints.address', endpoint, check)
    for (const { value } of statusAddresses) check('status.addresses', [value], isIp)
  },
}

function checkEndpoint(field: string, { address }: WorkloadSpecRecord, check: Check): void {
  check(field, [address], isReachable)
}

const most = 10

/** One clause for each of them, at most ten; undefined when all is well. */
export function findFalseAddresses<K extends Kind>(kind: K, record: RecordByKind[K]): string | undefined {
  const found: string[] = []
  checks[kind]?.(record, (field, texts, isFine) => {
    for (const text of texts) {
      if (isFine(text) || found.length > most) continue
      const clause = `${field} has ${JSON.stringify(shortenText(text, 100))}, which is no address`
      found.push(found.length === most ? 'and so on' : clause)
    }
  })
  return found.length === 0 ? undefined : found.join('; ')
}
