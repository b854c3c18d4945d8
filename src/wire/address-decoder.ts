// SPDX-License-Identifier: Apache-2.0
// Bytes of `istio.workload.Address` to Workload or Service, for those who ask: addressctl, the node, debug pages, tests. Strict about wire types, lengths and UTF-8;
// fields that it does not know are passed over, enum values that it does not know stay numbers.

import {
  readApplicationTunnel,
  readGatewayAddress,
  readLoadBalancing,
  readLocality,
  readNetworkAddress,
  readPort,
  readUint32Value,
  readWeightedWaypoint,
} from './address-parts.js'
import type { NetworkAddress, Port, ServiceMessage, WeightedWaypoint, WorkloadMessage } from './messages.js'
import { Reader } from './reader.js'

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
        addresses.push(new Uint8Array(reader.bytes()))
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
