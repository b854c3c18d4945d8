// SPDX-License-Identifier: Apache-2.0
// Workload and Service to the bytes of `istio.workload.Address`: the same bytes for the same content in every process, as the version is their hash.
// By hand because it runs once per changed resource and must be deterministic (map order, defaults, presence). Fields go out in descending order, see writer.ts.

import type { GatewayAddress, NetworkAddress, Port, ServiceMessage, WorkloadMessage } from './messages.js'
import { BackwardWriter, compareUtf8 } from './writer.js'

const writer = new BackwardWriter()

/** The bytes of an Address that holds this workload. */
export function encodeWorkloadAddress(workload: WorkloadMessage): Uint8Array {
  writer.reset()
  writeWorkloadAddress(writer, workload)
  return writer.copy()
}

/** The bytes of an Address that holds this service. */
export function encodeServiceAddress(service: ServiceMessage): Uint8Array {
  writer.reset()
  writeServiceAddress(writer, service)
  return writer.copy()
}

// A tag is the field number times 8 plus the wire type: 0 varint, 2 length-delimited.
const varintOf = (field: number): number => field * 8
const bytesOf = (field: number): number => field * 8 + 2

const WORKLOAD = bytesOf(1)
const SERVICE = bytesOf(2)

const W = {
  name: bytesOf(1),
  namespace: bytesOf(2),
  addresses: bytesOf(3),
  network: bytesOf(4),
  tunnelProtocol: varintOf(5),
  trustDomain: bytesOf(6),
  serviceAccount: bytesOf(7),
  waypoint: bytesOf(8),
  node: bytesOf(9),
  canonicalName: bytesOf(10),
  canonicalRevision: bytesOf(11),
  workloadType: varintOf(12),
  workloadName: bytesOf(13),
  nativeTunnel: varintOf(14),
  authorizationPolicies: bytesOf(16),
  status: varintOf(17),
  clusterId: bytesOf(18),
  networkGateway: bytesOf(19),
  uid: bytesOf(20),
  hostname: bytesOf(21),
  services: bytesOf(22),
  applicationTunnel: bytesOf(23),
  locality: bytesOf(24),
  networkMode: varintOf(25),
  capacity: bytesOf(27),
} as const

/** Writes the Address of a workload in front of what the writer holds. */
export function writeWorkloadAddress(w: BackwardWriter, workload: WorkloadMessage): void {
  const start = w.mark()
  if (workload.capacity !== undefined) {
    const mark = w.mark()
    w.uint32Field(varintOf(1), workload.capacity)
    w.close(W.capacity, mark)
  }
  w.enumField(W.networkMode, workload.networkMode)
  if (workload.locality !== undefined) {
    const mark = w.mark()
    w.stringField(bytesOf(3), workload.locality.subzone)
    w.stringField(bytesOf(2), workload.locality.zone)
    w.stringField(bytesOf(1), workload.locality.region)
    w.close(W.locality, mark)
  }
  if (workload.applicationTunnel !== undefined) {
    const mark = w.mark()
    w.uint32Field(varintOf(2), workload.applicationTunnel.port)
    w.enumField(varintOf(1), workload.applicationTunnel.protocol)
    w.close(W.applicationTunnel, mark)
  }
  writeServices(w, workload.services)
  w.stringField(W.hostname, workload.hostname)
  w.stringField(W.uid, workload.uid)
  writeGatewayAddress(w, W.networkGateway, workload.networkGateway)
  w.stringField(W.clusterId, workload.clusterId)
  w.enumField(W.status, workload.status)
  writeStrings(w, W.authorizationPolicies, workload.authorizationPolicies)
  w.boolField(W.nativeTunnel, workload.nativeTunnel)
  w.stringField(W.workloadName, workload.workloadName)
  w.enumField(W.workloadType, workload.workloadType)
  w.stringField(W.canonicalRevision, workload.canonicalRevision)
  w.stringField(W.canonicalName, workload.canonicalName)
  w.stringField(W.node, workload.node)
  writeGatewayAddress(w, W.waypoint, workload.waypoint)
  w.stringField(W.serviceAccount, workload.serviceAccount)
  w.stringField(W.trustDomain, workload.trustDomain)
  w.enumField(W.tunnelProtocol, workload.tunnelProtocol)
  w.stringField(W.network, workload.network)
  for (let i = workload.addresses.length - 1; i >= 0; i--) {
    const address = workload.addresses[i]
    if (address !== undefined) w.bytesElement(W.addresses, address)
  }
  w.stringField(W.namespace, workload.namespace)
  w.stringField(W.name, workload.name)
  w.close(WORKLOAD, start)
}

/** Writes the Address of a service in front of what the writer holds. */
export function writeServiceAddress(w: BackwardWriter, service: ServiceMessage): void {
  const start = w.mark()
  w.enumField(varintOf(14), service.visibility)
  for (let i = service.weightedWaypoints.length - 1; i >= 0; i--) {
    const weighted = service.weightedWaypoints[i]
    if (weighted === undefined) continue
    const mark = w.mark()
    w.uint32Field(varintOf(2), weighted.weight)
    writeGatewayAddress(w, bytesOf(1), weighted.destination)
    w.close(bytesOf(13), mark)
  }
  w.boolField(varintOf(12), service.ingressUseWaypoint)
  w.boolField(varintOf(11), service.canonical)
  w.enumField(varintOf(9), service.ipFamilies)
  if (service.loadBalancing !== undefined) {
    const { routingPreference, mode, healthPolicy } = service.loadBalancing
    const mark = w.mark()
    w.enumField(varintOf(3), healthPolicy)
    w.enumField(varintOf(2), mode)
    if (routingPreference.length > 0) {
      const packed = w.mark()
      for (let i = routingPreference.length - 1; i >= 0; i--) w.enumValue(routingPreference[i] ?? 0)
      w.close(bytesOf(1), packed)
    }
    w.close(bytesOf(8), mark)
  }
  writeGatewayAddress(w, bytesOf(7), service.waypoint)
  writeStrings(w, bytesOf(6), service.subjectAltNames)
  writePorts(w, bytesOf(5), service.ports)
  for (let i = service.addresses.length - 1; i >= 0; i--) writeNetworkAddress(w, bytesOf(4), service.addresses[i])
  w.stringField(bytesOf(3), service.hostname)
  w.stringField(bytesOf(2), service.namespace)
  w.stringField(bytesOf(1), service.name)
  w.close(SERVICE, start)
}

function writeServices(w: BackwardWriter, services: WorkloadMessage['services']): void {
  if (services.size === 0) return
  if (services.size === 1) {
    for (const [key, ports] of services) writeService(w, key, ports)
    return
  }
  const keys = [...services.keys()].sort(compareUtf8)
  for (let i = keys.length - 1; i >= 0; i--) {
    const key = keys[i]
    if (key !== undefined) writeService(w, key, services.get(key) ?? [])
  }
}

/** One map entry: key and value are there even when empty. */
function writeService(w: BackwardWriter, key: string, ports: readonly Port[]): void {
  const mark = w.mark()
  writePorts(w, bytesOf(1), ports)
  w.close(bytesOf(2), mark)
  w.stringElement(bytesOf(1), key)
  w.close(W.services, mark)
}

function writePorts(w: BackwardWriter, tag: number, ports: readonly Port[]): void {
  for (let i = ports.length - 1; i >= 0; i--) {
    const port = ports[i]
    if (port === undefined) continue
    const mark = w.mark()
    w.enumField(varintOf(3), port.appProtocol)
    w.uint32Field(varintOf(2), port.targetPort)
    w.uint32Field(varintOf(1), port.servicePort)
    w.close(tag, mark)
  }
}

function writeGatewayAddress(w: BackwardWriter, tag: number, gateway: GatewayAddress | undefined): void {
  if (gateway === undefined) return
  const mark = w.mark()
  w.uint32Field(varintOf(3), gateway.hboneMtlsPort)
  writeNetworkAddress(w, bytesOf(2), gateway.address)
  if (gateway.hostname !== undefined) {
    const inner = w.mark()
    w.stringField(bytesOf(2), gateway.hostname.hostname)
    w.stringField(bytesOf(1), gateway.hostname.namespace)
    w.close(bytesOf(1), inner)
  }
  w.close(tag, mark)
}

function writeNetworkAddress(w: BackwardWriter, tag: number, address: NetworkAddress | undefined): void {
  if (address === undefined) return
  const mark = w.mark()
  if (address.length !== undefined) {
    w.varint(address.length)
    w.varint(varintOf(3))
  }
  w.bytesField(bytesOf(2), address.address)
  w.stringField(bytesOf(1), address.network)
  w.close(tag, mark)
}

function writeStrings(w: BackwardWriter, tag: number, texts: readonly string[]): void {
  for (let i = texts.length - 1; i >= 0; i--) w.stringElement(tag, texts[i] ?? '')
}
