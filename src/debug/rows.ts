// SPDX-License-Identifier: Apache-2.0
// Workloads and services as rows that a person reads: addresses as text, names instead of numbers, waypoints by the name of their service.
// For answers and lists. Decodes what is served and adds nothing that is not in it.

import { formatIp } from '../base/ip.js'
import { decodeAddress, type DecodedAddress } from '../wire/address-decoder.js'
import { decodeEntry } from '../wire/entry.js'
import type { MembershipRow, PortPairRow, ServiceRow, WaypointRow, WorkloadRow } from '../wire/inspect.js'
import {
  NetworkMode,
  TunnelProtocol,
  WorkloadStatus,
  WorkloadType,
  type GatewayAddress,
  type NetworkAddress,
  type Port,
  type ServiceMessage,
  type WorkloadMessage,
} from '../wire/messages.js'
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

/** A row without the whole resource; its services without their addresses. */
export function toWorkloadRow(workload: WorkloadMessage, nameWaypoint: WaypointNamer): WorkloadRow {
  return {
    uid: workload.uid,
    namespace: workload.namespace,
    name: workload.name,
    cluster: workload.clusterId,
    network: workload.network,
    addresses: workload.addresses.map(formatIp),
    hostname: workload.hostname,
    node: workload.node,
    serviceAccount: workload.serviceAccount,
    ownerType: workload.workloadName === '' ? '' : (ownerTypes[workload.workloadType] ?? ''),
    ownerName: workload.workloadName,
    protocol: protocols[workload.tunnelProtocol] ?? String(workload.tunnelProtocol),
    hostNetwork: workload.networkMode === NetworkMode.HOST_NETWORK,
    healthy: workload.status === WorkloadStatus.HEALTHY,
    waypoint: nameWaypoint(workload.waypoint),
    services: [...workload.services].map(([service, ports]) => ({
      service,
      addresses: [],
      ports: ports.map(toPortPair),
    })),
    policies: workload.authorizationPolicies,
    resource: null,
  }
}

/** The same memberships, with the addresses that the services have now. */
export function toMembershipRows(row: WorkloadRow, source: ResourceSource): readonly MembershipRow[] {
  return row.services.map((membership) => {
    const resource = source.get(membership.service)
    const decoded = resource === undefined ? undefined : decodeResource(resource)
    if (decoded?.kind !== 'service') return membership
    return { ...membership, addresses: decoded.service.addresses.map(formatAddress) }
  })
}

/** A row with its members counted; `members` itself stays empty. */
export function toServiceRow(
  service: ServiceMessage,
  members: readonly WorkloadMessage[],
  nameWaypoint: WaypointNamer,
): ServiceRow {
  return {
    namespace: service.namespace,
    name: service.name,
    hostname: service.hostname,
    addresses: service.addresses.map(formatAddress),
    ports: service.ports.map(toPortPair),
    waypoint: nameWaypoint(service.waypoint),
    healthyMembers: members.filter((member) => member.status === WorkloadStatus.HEALTHY).length,
    membersTotal: members.length,
    members: [],
    resource: null,
  }
}

const protocols: Readonly<Record<number, string>> = {
  [TunnelProtocol.NONE]: 'TCP',
  [TunnelProtocol.HBONE]: 'HBONE',
  [TunnelProtocol.LEGACY_ISTIO_MTLS]: 'LEGACY_ISTIO_MTLS',
}

const ownerTypes: Readonly<Record<number, string>> = {
  [WorkloadType.DEPLOYMENT]: 'deployment',
  [WorkloadType.CRONJOB]: 'cronjob',
  [WorkloadType.POD]: 'pod',
  [WorkloadType.JOB]: 'job',
}

function toPortPair(port: Port): PortPairRow {
  return { port: port.servicePort, targetPort: port.targetPort }
}

/** `ip` or `ip/length`; the network is in the keys. */
function formatAddress(address: NetworkAddress): string {
  const ip = formatIp(address.address)
  return address.length === undefined ? ip : `${ip}/${address.length}`
}

/** Finds the service behind a waypoint; undefined in, null out. */
export type WaypointNamer = (gateway: GatewayAddress | undefined) => WaypointRow | null

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

function formatDestination(gateway: GatewayAddress): string {
  if (gateway.hostname !== undefined) return `${gateway.hostname.namespace}/${gateway.hostname.hostname}`
  if (gateway.address !== undefined) return `${gateway.address.network}/${formatIp(gateway.address.address)}`
  return ''
}
