// SPDX-License-Identifier: Apache-2.0
// A decoded Address as proto3 JSON: camelCase, defaults left out, enums by name (as a number where this version knows no name). For people: addressctl and /debug/ambientz.
// Never read back.

import * as names from './messages.js'
import type { DecodedAddress } from './address-decoder.js'
import type { GatewayAddress, NetworkAddress, Port, ServiceMessage, WorkloadMessage } from './messages.js'
import { formatIp } from '../base/ip.js'

/** How IP bytes are shown: as text, as base64 of that text (what istiod's debug page does), or as base64 of the bytes (what proto3 JSON asks for). */
export type IpForm = 'text' | 'base64OfText' | 'bytes'

export interface AddressJsonOptions {
  readonly ip: IpForm
}

type Json = Record<string, unknown>

/** The message inside the Address, a Workload or a Service, as a JSON object; members in the order of their field numbers. */
export function toAddressJson(decoded: DecodedAddress, options: AddressJsonOptions): Record<string, unknown> {
  return decoded.kind === 'workload'
    ? toWorkloadJson(decoded.workload, options.ip)
    : toServiceJson(decoded.service, options.ip)
}

function toWorkloadJson(workload: WorkloadMessage, form: IpForm): Json {
  const { applicationTunnel, locality } = workload
  return withoutDefaults({
    name: workload.name,
    namespace: workload.namespace,
    addresses: workload.addresses.map((address) => toIpText(address, form)),
    network: workload.network,
    tunnelProtocol: toEnumName(names.TunnelProtocol, workload.tunnelProtocol),
    trustDomain: workload.trustDomain,
    serviceAccount: workload.serviceAccount,
    waypoint: toGatewayJson(workload.waypoint, form),
    node: workload.node,
    canonicalName: workload.canonicalName,
    canonicalRevision: workload.canonicalRevision,
    workloadType: toEnumName(names.WorkloadType, workload.workloadType),
    workloadName: workload.workloadName,
    nativeTunnel: workload.nativeTunnel,
    authorizationPolicies: workload.authorizationPolicies,
    status: toEnumName(names.WorkloadStatus, workload.status),
    clusterId: workload.clusterId,
    networkGateway: toGatewayJson(workload.networkGateway, form),
    uid: workload.uid,
    hostname: workload.hostname,
    services: toServicesJson(workload.services),
    applicationTunnel:
      applicationTunnel &&
      withoutDefaults({
        protocol: toEnumName(names.ApplicationProtocol, applicationTunnel.protocol),
        port: applicationTunnel.port,
      }),
    locality: locality && withoutDefaults({ ...locality }),
    networkMode: toEnumName(names.NetworkMode, workload.networkMode),
    capacity: present(workload.capacity),
  })
}

function toServiceJson(service: ServiceMessage, form: IpForm): Json {
  const { loadBalancing } = service
  return withoutDefaults({
    name: service.name,
    namespace: service.namespace,
    hostname: service.hostname,
    addresses: service.addresses.map((address) => toNetworkAddressJson(address, form)),
    ports: service.ports.map(toPortJson),
    subjectAltNames: service.subjectAltNames,
    waypoint: toGatewayJson(service.waypoint, form),
    loadBalancing:
      loadBalancing &&
      withoutDefaults({
        routingPreference: loadBalancing.routingPreference.map((scope) => toName(names.Scope, scope)),
        mode: toEnumName(names.LoadBalancingMode, loadBalancing.mode),
        healthPolicy: toEnumName(names.HealthPolicy, loadBalancing.healthPolicy),
      }),
    ipFamilies: toEnumName(names.IpFamilies, service.ipFamilies),
    canonical: service.canonical,
    ingressUseWaypoint: service.ingressUseWaypoint,
    weightedWaypoints: service.weightedWaypoints.map(({ destination, weight }) =>
      withoutDefaults({ destination: toGatewayJson(destination, form), weight }),
    ),
    visibility: toEnumName(names.Visibility, service.visibility),
  })
}

function toServicesJson(services: WorkloadMessage['services']): Json | undefined {
  if (services.size === 0) return undefined
  return Object.fromEntries(
    [...services].map(([key, ports]) => [key, withoutDefaults({ ports: ports.map(toPortJson) })]),
  )
}

function toPortJson(port: Port): Json {
  return withoutDefaults({
    servicePort: port.servicePort,
    targetPort: port.targetPort,
    appProtocol: toEnumName(names.AppProtocol, port.appProtocol),
  })
}

function toGatewayJson(gateway: GatewayAddress | undefined, form: IpForm): Json | undefined {
  if (gateway === undefined) return undefined
  return withoutDefaults({
    hostname: gateway.hostname && withoutDefaults({ ...gateway.hostname }),
    address: gateway.address && toNetworkAddressJson(gateway.address, form),
    hboneMtlsPort: gateway.hboneMtlsPort,
  })
}

function toNetworkAddressJson(address: NetworkAddress, form: IpForm): Json {
  return withoutDefaults({
    network: address.network,
    address: toIpText(address.address, form),
    length: present(address.length),
  })
}

/** Bytes that are no address are always shown as base64. */
function toIpText(bytes: Uint8Array, form: IpForm): string {
  const isIp = bytes.length === 4 || bytes.length === 16
  if (form === 'bytes' || !isIp) return Buffer.from(bytes).toString('base64')
  const text = formatIp(bytes)
  return form === 'text' ? text : Buffer.from(text).toString('base64')
}

/** The name of an enum value; undefined for 0, which is the default. */
function toEnumName(values: Readonly<Record<string, number>>, value: number): string | number | undefined {
  return value === 0 ? undefined : toName(values, value)
}

function toName(values: Readonly<Record<string, number>>, value: number): string | number {
  for (const [name, number] of Object.entries(values)) if (number === value) return name
  return value
}

/** A value that is shown even when it is 0, because its presence says something. */
class Present {
  constructor(readonly value: number) {}
}

function present(value: number | undefined): Present | undefined {
  return value === undefined ? undefined : new Present(value)
}

function withoutDefaults(members: Json): Json {
  const json: Json = {}
  for (const [key, value] of Object.entries(members)) {
    if (value instanceof Present) json[key] = value.value
    else if (!isDefault(value)) json[key] = value
  }
  return json
}

function isDefault(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0
  return value === undefined || value === '' || value === 0 || value === false
}
