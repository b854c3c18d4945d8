// SPDX-License-Identifier: Apache-2.0
// Decoded workloads and services as rows that a person reads: addresses as text, names instead of numbers. For whoever answers questions; adds nothing that is
// not in the message.

import { formatIp } from '../base/ip.js'
import type { PortPairRow, ServiceRow, WaypointRow, WorkloadRow } from './inspect.js'
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
} from './messages.js'

/** Finds the service behind a waypoint; undefined in, null out. */
export type WaypointNamer = (gateway: GatewayAddress | undefined) => WaypointRow | null

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
    addresses: service.addresses.map(formatServiceAddress),
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
export function formatServiceAddress(address: NetworkAddress): string {
  const ip = formatIp(address.address)
  return address.length === undefined ? ip : `${ip}/${address.length}`
}

/** The key behind a gateway: `namespace/hostname` or `network/ip`; empty when it names neither. */
export function formatDestination(gateway: GatewayAddress): string {
  if (gateway.hostname !== undefined) return `${gateway.hostname.namespace}/${gateway.hostname.hostname}`
  if (gateway.address !== undefined) return `${gateway.address.network}/${formatIp(gateway.address.address)}`
  return ''
}
