// SPDX-License-Identifier: Apache-2.0
// What every ServiceEntry has to do with allocated addresses: which it has, which it should have, which others it names itself. Rows of the graph for
// ip-allocation.ts. Who has an address that another has too, and who of them has to give it up, is decided here.

import type { Domain } from '../address/domain.js'
import { isAllocatable } from '../address/service-entries.js'
import { formatIp, parseIp } from '../base/ip.js'
import type { Collection, Graph, Index } from '../collection/types.js'
import { isSameRecord } from '../kube/inputs.js'
import { objectKey, type ServiceEntryRecord } from '../kube/records.js'

export interface HostAddress {
  readonly value: string
  readonly host: string
}

export interface AddressClaim {
  readonly key: string
  readonly namespace: string
  readonly name: string
  readonly uid: string
  /** Seconds since the epoch. */
  readonly created: number
  /** It is seen and of our revision: its addresses are ours to give and take. */
  readonly isOurs: boolean
  /** Hosts that are to have addresses, each once, in order; none when the entry may not have any. */
  readonly hosts: readonly string[]
  /** What its status says. */
  readonly allocated: readonly HostAddress[]
  /** Single addresses of its spec, canonical. */
  readonly own: readonly string[]
}

export interface AddressClaims {
  readonly rows: Collection<AddressClaim>
  /** Keys of the entries that must give up what they were allocated because of one of the addresses of `claim`; the entry itself may be among them. */
  losersOf(claim: AddressClaim): readonly string[]
  /** Does an entry other than that under `key` have or name the address? */
  isOthers(key: string, address: string): boolean
}

export function createAddressClaims(graph: Graph, domain: Domain): AddressClaims {
  const { inputs, discovery } = domain
  const rows = graph.derive<ServiceEntryRecord, AddressClaim>(
    'address claims',
    inputs.ServiceEntry,
    (entry, read): AddressClaim => {
      const { cluster, namespace, name, uid, created } = entry
      return {
        key: objectKey(cluster, namespace, name),
        namespace,
        name,
        uid,
        created,
        isOurs: discovery.isOurRevision(entry.labels) && discovery.isSeen(read, entry),
        hosts: selectHosts(entry),
        allocated: entry.statusAddresses,
        own: entry.addresses.flatMap((text) => formatCanonical(text) ?? []),
      }
    },
    { key: (claim) => claim.key, equal: isSameRecord },
  )
  const byAddress = rows.index('address', selectAddresses)
  return {
    rows,
    losersOf: (claim) => selectLosers(byAddress, claim),
    isOthers: (key, address) =>
      byAddress.lookup(formatCanonical(address) ?? address).some((claim) => claim.key !== key),
  }
}

/** The hosts of an entry that addresses are allocated for. A wildcard has one only where names are resolved as they come. */
export function selectHosts(entry: ServiceEntryRecord): readonly string[] {
  if (!isAllocatable(entry)) return []
  const isDynamic = entry.resolution === 'DYNAMIC_DNS'
  return [...new Set(entry.hosts)].filter((host) => isDynamic || !host.startsWith('*'))
}

function formatCanonical(text: string): string | undefined {
  const bytes = parseIp(text)
  return bytes && formatIp(bytes)
}

function selectAddresses(claim: AddressClaim): readonly string[] {
  const allocated = claim.allocated.map(({ value }) => formatCanonical(value) ?? value)
  return [...new Set([...allocated, ...claim.own])]
}

/** Whoever names an address in its spec keeps it; else the oldest of those that it was allocated to does. */
function selectLosers(byAddress: Index<AddressClaim>, claim: AddressClaim): readonly string[] {
  const losers = new Set<string>()
  for (const address of selectAddresses(claim)) {
    const owners = byAddress.lookup(address)
    if (owners.length < 2) continue
    const isNamed = owners.some(({ own }) => own.includes(address))
    const allocated = owners.filter(({ own }) => !own.includes(address)).sort(compareAge)
    for (const loser of isNamed ? allocated : allocated.slice(1)) losers.add(loser.key)
  }
  return [...losers]
}

/** The older first; of the same second the lower name. */
export function compareAge(a: AddressClaim, b: AddressClaim): number {
  if (a.created !== b.created) return a.created - b.created
  return a.key < b.key ? -1 : 1
}
