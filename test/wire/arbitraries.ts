// SPDX-License-Identifier: Apache-2.0
// Random Workloads and Services for property tests, and the same content in the shape that proto-loader takes. Every field, every presence, any legal text.

import fc from 'fast-check'
import type { GatewayAddress, NetworkAddress, Port, ServiceMessage, WorkloadMessage } from '../../src/wire/messages.js'
import type { Service as ProtoService } from '../../src/wire/generated/istio/workload/Service.js'
import type { Workload as ProtoWorkload } from '../../src/wire/generated/istio/workload/Workload.js'
import type { GatewayAddress as ProtoGateway } from '../../src/wire/generated/istio/workload/GatewayAddress.js'
import type { NetworkAddress as ProtoNetworkAddress } from '../../src/wire/generated/istio/workload/NetworkAddress.js'
import type { Port as ProtoPort } from '../../src/wire/generated/istio/workload/Port.js'

export const text = fc.oneof(
  fc.constant(''),
  fc.string({ unit: 'grapheme-ascii', maxLength: 40 }),
  fc.string({ unit: 'binary', maxLength: 12 }),
  fc.string({ unit: 'grapheme-ascii', minLength: 120, maxLength: 300 }),
)
const uint32 = fc.oneof(fc.constant(0), fc.nat(65535), fc.integer({ min: 0, max: 0xffffffff }))
const enumOf = (most: number): fc.Arbitrary<number> => fc.nat(most)
const ip = fc.oneof(
  fc.uint8Array({ minLength: 4, maxLength: 4 }),
  fc.uint8Array({ minLength: 16, maxLength: 16 }),
  fc.uint8Array({ maxLength: 3 }),
)
const optional = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.option(arbitrary, { nil: undefined })
const few = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T[]> => fc.array(arbitrary, { maxLength: 4 })

const port: fc.Arbitrary<Port> = fc.record({ servicePort: uint32, targetPort: uint32, appProtocol: enumOf(5) })
const networkAddress: fc.Arbitrary<NetworkAddress> = fc.record({
  network: text,
  address: ip,
  length: optional(fc.nat(128)),
})
const hostname = fc.record({ namespace: text, hostname: text })
const gateway: fc.Arbitrary<GatewayAddress> = fc.oneof(
  fc.record({ hostname: fc.constant(undefined), address: networkAddress, hboneMtlsPort: uint32 }),
  fc.record({ hostname, address: fc.constant(undefined), hboneMtlsPort: uint32 }),
  fc.record({ hostname: fc.constant(undefined), address: fc.constant(undefined), hboneMtlsPort: uint32 }),
)

export const workloads: fc.Arbitrary<WorkloadMessage> = fc.record({
  uid: text,
  name: text,
  namespace: text,
  addresses: few(ip),
  hostname: text,
  network: text,
  tunnelProtocol: enumOf(2),
  trustDomain: text,
  serviceAccount: text,
  waypoint: optional(gateway),
  networkGateway: optional(gateway),
  node: text,
  canonicalName: text,
  canonicalRevision: text,
  workloadType: enumOf(3),
  workloadName: text,
  nativeTunnel: fc.boolean(),
  applicationTunnel: optional(fc.record({ protocol: enumOf(1), port: uint32 })),
  // With a slash, as they have: bare digits would be sorted by the language when they are keys of an object.
  services: fc
    .array(fc.tuple(text, few(port)), { maxLength: 5 })
    .map((entries) => new Map(entries.map(([key, ports]) => [`${key}/`, ports]))),
  authorizationPolicies: few(text),
  status: enumOf(1),
  clusterId: text,
  locality: optional(fc.record({ region: text, zone: text, subzone: text })),
  networkMode: enumOf(1),
  capacity: optional(uint32),
})

export const services: fc.Arbitrary<ServiceMessage> = fc.record({
  name: text,
  namespace: text,
  hostname: text,
  addresses: few(networkAddress),
  ports: few(port),
  subjectAltNames: few(text),
  waypoint: optional(gateway),
  loadBalancing: optional(fc.record({ routingPreference: few(enumOf(6)), mode: enumOf(3), healthPolicy: enumOf(1) })),
  ipFamilies: enumOf(3),
  canonical: fc.boolean(),
  ingressUseWaypoint: fc.boolean(),
  weightedWaypoints: few(fc.record({ destination: optional(gateway), weight: uint32 })),
  visibility: enumOf(1),
})

/** A workload as proto-loader takes it: snake_case, defaults left out, the map in byte order of its keys. */
export function toProtoWorkload(w: WorkloadMessage): ProtoWorkload {
  const keys = [...w.services.keys()].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
  return dropDefaults({
    name: w.name,
    namespace: w.namespace,
    addresses: [...w.addresses],
    network: w.network,
    tunnel_protocol: w.tunnelProtocol,
    trust_domain: w.trustDomain,
    service_account: w.serviceAccount,
    waypoint: w.waypoint && toProtoGateway(w.waypoint),
    node: w.node,
    canonical_name: w.canonicalName,
    canonical_revision: w.canonicalRevision,
    workload_type: w.workloadType,
    workload_name: w.workloadName,
    native_tunnel: w.nativeTunnel,
    authorization_policies: [...w.authorizationPolicies],
    status: w.status,
    cluster_id: w.clusterId,
    network_gateway: w.networkGateway && toProtoGateway(w.networkGateway),
    uid: w.uid,
    hostname: w.hostname,
    services: Object.fromEntries(keys.map((key) => [key, { ports: (w.services.get(key) ?? []).map(toProtoPort) }])),
    application_tunnel: w.applicationTunnel && dropDefaults({ ...w.applicationTunnel }),
    locality: w.locality && dropDefaults({ ...w.locality }),
    network_mode: w.networkMode,
    capacity: w.capacity === undefined ? undefined : dropDefaults({ value: w.capacity }),
  })
}

/** A service as proto-loader takes it. */
export function toProtoService(s: ServiceMessage): ProtoService {
  return dropDefaults({
    name: s.name,
    namespace: s.namespace,
    hostname: s.hostname,
    addresses: s.addresses.map(toProtoNetworkAddress),
    ports: s.ports.map(toProtoPort),
    subject_alt_names: [...s.subjectAltNames],
    waypoint: s.waypoint && toProtoGateway(s.waypoint),
    load_balancing:
      s.loadBalancing &&
      dropDefaults({
        routing_preference: [...s.loadBalancing.routingPreference],
        mode: s.loadBalancing.mode,
        health_policy: s.loadBalancing.healthPolicy,
      }),
    ip_families: s.ipFamilies,
    canonical: s.canonical,
    ingress_use_waypoint: s.ingressUseWaypoint,
    weighted_waypoints: s.weightedWaypoints.map(({ destination, weight }) =>
      dropDefaults({ destination: destination && toProtoGateway(destination), weight }),
    ),
    visibility: s.visibility,
  })
}

function toProtoGateway(g: GatewayAddress): ProtoGateway {
  return dropDefaults({
    hostname: g.hostname && dropDefaults({ ...g.hostname }),
    address: g.address && toProtoNetworkAddress(g.address),
    hbone_mtls_port: g.hboneMtlsPort,
  })
}

function toProtoNetworkAddress(a: NetworkAddress): ProtoNetworkAddress {
  const rest = dropDefaults({ network: a.network, address: a.address.length > 0 ? a.address : undefined })
  return a.length === undefined ? rest : { ...rest, length: a.length }
}

function toProtoPort(p: Port): ProtoPort {
  return dropDefaults({
    service_port: p.servicePort,
    target_port: p.targetPort,
    app_protocol: p.appProtocol,
  })
}

function dropDefaults(message: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(message).filter(([, v]) => v !== undefined && v !== '' && v !== 0 && v !== false),
  )
}
