// SPDX-License-Identifier: Apache-2.0
// What is served, decoded for rows that a person reads: members, memberships with their addresses, waypoints by the name of their service.
// For answers and lists. Adds nothing that is not served.

import { decodeAddress, type DecodedAddress } from '../wire/address-decoder.js'
import { decodeEntry } from '../wire/entry.js'
import { formatDestination, formatServiceAddress, type WaypointNamer } from '../wire/inspect-rows.js'
import type { MembershipRow, WaypointRow, WorkloadRow } from '../wire/inspect.js'
import type { WorkloadMessage } from '../wire/messages.js'
import type { Resource, ResourceSource } from '../xds/source.js'
import { isServiceName } from './directory.js'

/** What is served as this resource; undefined when it is never written. */
export function decodeResource(resource: Resource): DecodedAddress | undefined {
  return resource.entry === undefined ? undefined : decodeAddress(decodeEntry(resource.entry).body)
}

/** The workload of a resource, undefined when it is none. */
export function decodeMember(resource: Resource): WorkloadMessage | undefined {
  const decoded = decodeResource(resource)
  return decoded?.kind === 'workload' ? decoded.workload : undefined
}

/** The same memberships, with the addresses that the services have now. */
export function toMembershipRows(row: WorkloadRow, source: ResourceSource): readonly MembershipRow[] {
  return row.services.map((membership) => {
    const resource = source.get(membership.service)
    const decoded = resource === undefined ? undefined : decodeResource(resource)
    if (decoded?.kind !== 'service') return membership
    return { ...membership, addresses: decoded.service.addresses.map(formatServiceAddress) }
  })
}

/** Asks the source once a waypoint. For one answer or one list, no longer: it remembers what it saw. */
export function createWaypointNamer(source: ResourceSource): WaypointNamer {
  const seen = new Map<string, WaypointRow>()
  return (gateway) => {
    if (gateway === undefined) return null
    const key = formatDestination(gateway)
    const known = seen.get(key)
    if (known !== undefined) return known
    const service = source.get(key) ?? source.lookup(key).find((resource) => isServiceName(resource.name))
    const decoded = service === undefined ? undefined : decodeResource(service)
    const row = { key, name: decoded?.kind === 'service' ? decoded.service.name : '' }
    seen.set(key, row)
    return row
  }
}
