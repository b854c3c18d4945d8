// SPDX-License-Identifier: Apache-2.0
// Bytes of `istio.workload.Address` to Workload or Service, for those who ask: addressctl, the node, debug pages, tests. Strict about wire types, lengths and UTF-8;
// fields that it does not know are passed over, enum values that it does not know stay numbers.

import type {
  ApplicationTunnel,
  GatewayAddress,
  LoadBalancing,
  Locality,
  NamespacedHostname,
  NetworkAddress,
  Port,
  ServiceMessage,
  WeightedWaypoint,
  WorkloadMessage,
} from './messages.js'
import { BYTES, Reader } from './reader.js'

export type DecodedAddress =
  | { readonly kind: 'workload'; readonly workload: WorkloadMessage }
  | { readonly kind: 'service'; readonly service: ServiceMessage }

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

/** Reads an Address. Throws ProtocolError on bytes that are none or hold neither a workload nor a service. Bytes in the result are copies. */
export function decodeAddress(bytes: Uint8Array): DecodedAddress {
  const reader = new Reader(bytes, 'Address')
  let decoded: DecodedAddress | undefined
  while (reader.next()) {
    if (reader.field === 1) decoded = { kind: 'workload', workload: readWorkload(reader.message('Workload')) }
    else if (reader.field === 2) decoded = { kind: 'service', service: readService(reader.message('Service')) }
    else reader.skip()
  }
  if (decoded === undefined) throw reader.failure('holds neither a workload nor a service')
  return decoded
}

/** Reads a bare Workload, the body of the type Workload. Throws ProtocolError on bytes that are none. */
export function decodeWorkload(bytes: Uint8Array): WorkloadMessage {
  return readWorkload(new Reader(bytes, 'Workload'))
}

function readWorkload(reader: Reader): WorkloadMessage {
  const addresses: Uint8Array[] = []
  const authorizationPolicies: string[] = []
  const services = new Map<string, readonly Port[]>()
  const workload: Mutable<WorkloadMessage> = {
    uid: '',
    name: '',
    namespace: '',
    addresses,
    hostname: '',
    network: '',
    tunnelProtocol: 0,
    trustDomain: '',
    serviceAccount: '',
    waypoint: undefined,
    networkGateway: undefined,
    node: '',
    canonicalName: '',
    canonicalRevision: '',
    workloadType: 0,
    workloadName: '',
    nativeTunnel: false,
    applicationTunnel: undefined,
    services,
    authorizationPolicies,
    status: 0,
    clusterId: '',
    locality: undefined,
    networkMode: 0,
    capacity: undefined,
  }
  while (reader.next()) {
    switch (reader.field) {
      case 1:
        workload.name = reader.string()
        break
      case 2:
        workload.namespace = reader.string()
        break
      case 3:
        addresses.push(Uint8Array.from(reader.bytes()))
        break
      case 4:
        workload.network = reader.string()
        break
      case 5:
        workload.tunnelProtocol = reader.int32()
        break
      case 6:
        workload.trustDomain = reader.string()
        break
      case 7:
        workload.serviceAccount = reader.string()
        break
      case 8:
        workload.waypoint = readGatewayAddress(reader.message('Workload.waypoint'))
        break
      case 9:
        workload.node = reader.string()
        break
      case 10:
        workload.canonicalName = reader.string()
        break
      case 11:
        workload.canonicalRevision = reader.string()
        break
      case 12:
        workload.workloadType = reader.int32()
        break
      case 13:
        workload.workloadName = reader.string()
        break
      case 14:
        workload.nativeTunnel = reader.bool()
        break
      case 16:
        authorizationPolicies.push(reader.string())
        break
      case 17:
        workload.status = reader.int32()
        break
      case 18:
        workload.clusterId = reader.string()
        break
      case 19:
        workload.networkGateway = readGatewayAddress(reader.message('Workload.network_gateway'))
        break
      case 20:
        workload.uid = reader.string()
        break
      case 21:
        workload.hostname = reader.string()
        break
      case 22: {
        const [key, ports] = readServicesEntry(reader.message('Workload.services'))
        services.set(key, ports)
        break
      }
      case 23:
        workload.applicationTunnel = readApplicationTunnel(reader.message('Workload.application_tunnel'))
        break
      case 24:
        workload.locality = readLocality(reader.message('Workload.locality'))
        break
      case 25:
        workload.networkMode = reader.int32()
        break
      case 27:
        workload.capacity = readUint32Value(reader.message('Workload.capacity'))
        break
      default:
        reader.skip()
    }
  }
  return workload
}

function readService(reader: Reader): ServiceMessage {
  const addresses: NetworkAddress[] = []
  const ports: Port[] = []
  const subjectAltNames: string[] = []
  const weightedWaypoints: WeightedWaypoint[] = []
  const service: Mutable<ServiceMessage> = {
    name: '',
    namespace: '',
    hostname: '',
    addresses,
    ports,
    subjectAltNames,
    waypoint: undefined,
    loadBalancing: undefined,
    ipFamilies: 0,
    canonical: false,
    ingressUseWaypoint: false,
    weightedWaypoints,
    visibility: 0,
  }
  while (reader.next()) {
    switch (reader.field) {
      case 1:
        service.name = reader.string()
        break
      case 2:
        service.namespace = reader.string()
        break
      case 3:
        service.hostname = reader.string()
        break
      case 4:
        addresses.push(readNetworkAddress(reader.message('Service.addresses')))
        break
      case 5:
        ports.push(readPort(reader.message('Service.ports')))
        break
      case 6:
        subjectAltNames.push(reader.string())
        break
      case 7:
        service.waypoint = readGatewayAddress(reader.message('Service.waypoint'))
        break
      case 8:
        service.loadBalancing = readLoadBalancing(reader.message('Service.load_balancing'))
        break
      case 9:
        service.ipFamilies = reader.int32()
        break
      case 11:
        service.canonical = reader.bool()
        break
      case 12:
        service.ingressUseWaypoint = reader.bool()
        break
      case 13:
        weightedWaypoints.push(readWeightedWaypoint(reader.message('Service.weighted_waypoints')))
        break
      case 14:
        service.visibility = reader.int32()
        break
      default:
        reader.skip()
    }
  }
  return service
}

function readServicesEntry(reader: Reader): [key: string, ports: Port[]] {
  let key = ''
  const ports: Port[] = []
  while (reader.next()) {
    if (reader.field === 1) key = reader.string()
    else if (reader.field === 2) {
      const list = reader.message('PortList')
      while (list.next()) {
        if (list.field === 1) ports.push(readPort(list.message('PortList.ports')))
        else list.skip()
      }
    } else reader.skip()
  }
  return [key, ports]
}

function readPort(reader: Reader): Port {
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
function readGatewayAddress(reader: Reader): GatewayAddress {
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

function readNetworkAddress(reader: Reader): NetworkAddress {
  const address: Mutable<NetworkAddress> = { network: '', address: new Uint8Array(0), length: undefined }
  while (reader.next()) {
    if (reader.field === 1) address.network = reader.string()
    else if (reader.field === 2) address.address = Uint8Array.from(reader.bytes())
    else if (reader.field === 3) address.length = reader.uint32()
    else reader.skip()
  }
  return address
}

function readWeightedWaypoint(reader: Reader): WeightedWaypoint {
  const weighted: Mutable<WeightedWaypoint> = { destination: undefined, weight: 0 }
  while (reader.next()) {
    if (reader.field === 1) weighted.destination = readGatewayAddress(reader.message('WeightedWaypoint.destination'))
    else if (reader.field === 2) weighted.weight = reader.uint32()
    else reader.skip()
  }
  return weighted
}

/** Scopes come packed or one by one: a parser takes both. */
function readLoadBalancing(reader: Reader): LoadBalancing {
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

function readLocality(reader: Reader): Locality {
  const locality: Mutable<Locality> = { region: '', zone: '', subzone: '' }
  while (reader.next()) {
    if (reader.field === 1) locality.region = reader.string()
    else if (reader.field === 2) locality.zone = reader.string()
    else if (reader.field === 3) locality.subzone = reader.string()
    else reader.skip()
  }
  return locality
}

function readApplicationTunnel(reader: Reader): ApplicationTunnel {
  const tunnel: Mutable<ApplicationTunnel> = { protocol: 0, port: 0 }
  while (reader.next()) {
    if (reader.field === 1) tunnel.protocol = reader.int32()
    else if (reader.field === 2) tunnel.port = reader.uint32()
    else reader.skip()
  }
  return tunnel
}

function readUint32Value(reader: Reader): number {
  let value = 0
  while (reader.next()) {
    if (reader.field === 1) value = reader.uint32()
    else reader.skip()
  }
  return value
}
