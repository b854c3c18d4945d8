// SPDX-License-Identifier: Apache-2.0
// The small messages inside Workload and Service from bytes, for the decoder beside this file. A field that comes twice counts as it came last.

import type {
  ApplicationTunnel,
  GatewayAddress,
  LoadBalancing,
  Locality,
  NamespacedHostname,
  NetworkAddress,
  Port,
  WeightedWaypoint,
} from './messages.js'
import { BYTES } from './reader.js'
import type { Reader } from './reader.js'

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

export function readPort(reader: Reader): Port {
  const port: Mutable<Port> = { servicePort: 0, targetPort: 0, appProtocol: 0 }
  while (reader.next()) {
    if (reader.field === 1) port.servicePort = reader.uint32()
    else if (reader.field === 2) port.targetPort = reader.uint32()
    else if (reader.field === 3) port.appProtocol = reader.int32()
    else reader.skip()
  }
  return port
}

/** Of several members of the oneof the last one counts. */
export function readGatewayAddress(reader: Reader): GatewayAddress {
  const gateway: Mutable<GatewayAddress> = { hostname: undefined, address: undefined, hboneMtlsPort: 0 }
  while (reader.next()) {
    if (reader.field === 1) {
      gateway.hostname = readNamespacedHostname(reader.message('GatewayAddress.hostname'))
      gateway.address = undefined
    } else if (reader.field === 2) {
      gateway.address = readNetworkAddress(reader.message('GatewayAddress.address'))
      gateway.hostname = undefined
    } else if (reader.field === 3) gateway.hboneMtlsPort = reader.uint32()
    else reader.skip()
  }
  return gateway
}

function readNamespacedHostname(reader: Reader): NamespacedHostname {
  const hostname: Mutable<NamespacedHostname> = { namespace: '', hostname: '' }
  while (reader.next()) {
    if (reader.field === 1) hostname.namespace = reader.string()
    else if (reader.field === 2) hostname.hostname = reader.string()
    else reader.skip()
  }
  return hostname
}

export function readNetworkAddress(reader: Reader): NetworkAddress {
  const address: Mutable<NetworkAddress> = { network: '', address: new Uint8Array(0), length: undefined }
  while (reader.next()) {
    if (reader.field === 1) address.network = reader.string()
    else if (reader.field === 2) address.address = new Uint8Array(reader.bytes())
    else if (reader.field === 3) address.length = reader.uint32()
    else reader.skip()
  }
  return address
}

export function readWeightedWaypoint(reader: Reader): WeightedWaypoint {
  const weighted: Mutable<WeightedWaypoint> = { destination: undefined, weight: 0 }
  while (reader.next()) {
    if (reader.field === 1) weighted.destination = readGatewayAddress(reader.message('WeightedWaypoint.destination'))
    else if (reader.field === 2) weighted.weight = reader.uint32()
    else reader.skip()
  }
  return weighted
}

/** Scopes come packed or one by one: a parser takes both. */
export function readLoadBalancing(reader: Reader): LoadBalancing {
  const routingPreference: number[] = []
  const balancing: Mutable<LoadBalancing> = { routingPreference, mode: 0, healthPolicy: 0 }
  while (reader.next()) {
    if (reader.field === 1 && reader.wireType === BYTES) {
      const packed = reader.message('LoadBalancing.routing_preference')
      while (!packed.done) routingPreference.push(packed.varint() | 0)
    } else if (reader.field === 1) routingPreference.push(reader.int32())
    else if (reader.field === 2) balancing.mode = reader.int32()
    else if (reader.field === 3) balancing.healthPolicy = reader.int32()
    else reader.skip()
  }
  return balancing
}

export function readLocality(reader: Reader): Locality {
  const locality: Mutable<Locality> = { region: '', zone: '', subzone: '' }
  while (reader.next()) {
    if (reader.field === 1) locality.region = reader.string()
    else if (reader.field === 2) locality.zone = reader.string()
    else if (reader.field === 3) locality.subzone = reader.string()
    else reader.skip()
  }
  return locality
}

export function readApplicationTunnel(reader: Reader): ApplicationTunnel {
  const tunnel: Mutable<ApplicationTunnel> = { protocol: 0, port: 0 }
  while (reader.next()) {
    if (reader.field === 1) tunnel.protocol = reader.int32()
    else if (reader.field === 2) tunnel.port = reader.uint32()
    else reader.skip()
  }
  return tunnel
}

export function readUint32Value(reader: Reader): number {
  let value = 0
  while (reader.next()) {
    if (reader.field === 1) value = reader.uint32()
    else reader.skip()
  }
  return value
}
