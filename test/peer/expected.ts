// SPDX-License-Identifier: Apache-2.0
// What a ztunnel that was told everything must hold, in the words of its own dump: made of the bytes that are served. Follows none of its history.

import { formatIp } from '../../src/base/ip.js'
import { decodeAddress } from '../../src/wire/address-decoder.js'
import { toAuthorizationJson } from '../../src/wire/authorization-json.js'
import { decodeEntry } from '../../src/wire/entry.js'
import {
  ADDRESS_TYPE,
  AUTHORIZATION_TYPE,
  type GatewayAddress,
  type Port,
  type ServiceMessage,
  type WorkloadMessage,
} from '../../src/wire/messages.js'
import type { Resource, ResourceStore } from '../../src/xds/source.js'
import { toHeld, type Held } from './ztunnel.js'

const scopes = ['Region', 'Zone', 'Subzone', 'Node', 'Cluster', 'Network']
const modes = ['Standard', 'Strict', 'Failover', 'Passthrough']
const families = [undefined, 'IPv4', 'IPv6', 'Dual']
const types = ['deployment', 'cronjob', 'pod', 'job']

/** Of a client on `node` that asks on demand and has asked for nothing: only the workloads of its node; undefined: of a client that has everything. */
export function toExpected(store: ResourceStore, node?: string): Held {
  const addresses = [...(store.source(ADDRESS_TYPE)?.all() ?? [])].map((resource) => decodeAddress(bodyOf(resource)))
  const workloads = addresses
    .flatMap((decoded) => (decoded.kind === 'workload' ? [decoded.workload] : []))
    .filter((workload) => node === undefined || workload.node === node)
  const services =
    node === undefined ? addresses.flatMap((decoded) => (decoded.kind === 'service' ? [decoded.service] : [])) : []
  const policies = [...(store.source(AUTHORIZATION_TYPE)?.all() ?? [])].map((resource) => toPolicy(bodyOf(resource)))
  const known = new Set(services.map(toKey))
  const staged: Record<string, Record<string, unknown>> = {}
  for (const workload of workloads) {
    for (const [key, ports] of workload.services) {
      if (!known.has(key)) (staged[key] ??= {})[workload.uid] = toEndpoint(workload, ports)
    }
  }
  return toHeld({
    workloads: workloads.map(toWorkload),
    services: services.map((service) => toService(service, workloads)),
    policies,
    stagedServices: staged,
  })
}

function bodyOf({ name, entry }: Resource): Uint8Array {
  if (entry === undefined) throw new Error(`${name} has no bytes`)
  return decodeEntry(entry).body
}

const toKey = ({ namespace, hostname }: { namespace: string; hostname: string }): string => `${namespace}/${hostname}`

/** Without the members that say nothing. */
function compact(value: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(value).filter(
      ([, member]) =>
        member !== undefined && member !== '' && member !== false && !(Array.isArray(member) && member.length === 0),
    ),
  )
}

function toGateway(gateway: GatewayAddress | undefined): unknown {
  if (gateway === undefined) return undefined
  const { hostname, address, hboneMtlsPort } = gateway
  const destination =
    hostname === undefined ? address && `${address.network}/${formatIp(address.address)}` : toKey(hostname)
  return { destination, hboneMtlsPort }
}

function toWorkload(workload: WorkloadMessage): unknown {
  const { applicationTunnel: tunnel, locality } = workload
  return {
    workloadIps: workload.addresses.map(formatIp),
    name: workload.name,
    namespace: workload.namespace,
    protocol: workload.tunnelProtocol === 1 ? 'HBONE' : 'TCP',
    networkMode: workload.networkMode === 1 ? 'HostNetwork' : 'Standard',
    status: toStatus(workload),
    clusterId: workload.clusterId || 'Kubernetes',
    capacity: workload.capacity ?? 1,
    ...compact({
      uid: workload.uid,
      waypoint: toGateway(workload.waypoint),
      networkGateway: toGateway(workload.networkGateway),
      trustDomain: workload.trustDomain || 'cluster.local',
      serviceAccount: workload.serviceAccount || 'default',
      network: workload.network,
      workloadName: workload.workloadName,
      workloadType: types[workload.workloadType],
      canonicalName: workload.canonicalName,
      canonicalRevision: workload.canonicalRevision,
      hostname: workload.hostname,
      node: workload.node,
      nativeTunnel: workload.nativeTunnel,
      applicationTunnel: tunnel && {
        protocol: tunnel.protocol === 1 ? 'PROXY' : 'NONE',
        port: tunnel.port === 0 ? null : tunnel.port,
      },
      authorizationPolicies: workload.authorizationPolicies,
      locality: locality && Object.values(locality).some((part) => part !== '') ? { ...locality } : undefined,
      services: [...workload.services.keys()],
    }),
  }
}

const toStatus = ({ status }: WorkloadMessage): string => (status === 1 ? 'Unhealthy' : 'Healthy')

const toPorts = (ports: readonly Port[]): unknown =>
  Object.fromEntries(ports.map(({ servicePort, targetPort }) => [String(servicePort), targetPort]))

function toEndpoint(workload: WorkloadMessage, ports: readonly Port[]): unknown {
  return { workloadUid: workload.uid, port: toPorts(ports), status: toStatus(workload) }
}

function toService(service: ServiceMessage, workloads: readonly WorkloadMessage[]): unknown {
  const { loadBalancing } = service
  const takesAll = loadBalancing?.healthPolicy === 1
  const endpoints = workloads.flatMap((workload) => {
    const ports = workload.services.get(toKey(service))
    if (ports === undefined || (workload.status === 1 && !takesAll)) return []
    return [[workload.uid, toEndpoint(workload, ports)] as const]
  })
  const isHost = (address: Uint8Array, length: number | undefined): boolean =>
    length === undefined || length === address.length * 8
  return {
    name: service.name,
    namespace: service.namespace,
    hostname: service.hostname,
    vips: service.addresses
      .filter(({ address, length }) => isHost(address, length))
      .map(({ network, address }) => `${network}/${formatIp(address)}`),
    ports: toPorts(service.ports),
    endpoints: Object.fromEntries(endpoints),
    subjectAltNames: service.subjectAltNames,
    canonical: service.canonical,
    visibility: service.visibility === 1 ? 'Namespace' : 'Public',
    ...compact({
      cidrVips: service.addresses
        .filter(({ address, length }) => !isHost(address, length))
        .map(({ network, address, length }) => ({ network, cidr: `${formatIp(address)}/${length}` })),
      waypoint: toGateway(service.waypoint),
      weightedWaypoints: service.weightedWaypoints.map(({ destination, weight }) => ({
        destination: toGateway(destination),
        weight,
      })),
      loadBalancer: loadBalancing && {
        routingPreferences: loadBalancing.routingPreference.map((scope) => scopes[scope - 1]),
        mode: modes[loadBalancing.mode],
        healthPolicy: takesAll ? 'AllowAll' : 'OnlyHealthy',
      },
      ipFamilies: families[service.ipFamilies],
    }),
  }
}

const scopeNames: Readonly<Record<string, string>> = { NAMESPACE: 'Namespace', WORKLOAD_SELECTOR: 'WorkloadSelector' }

function toPolicy(bytes: Uint8Array): unknown {
  const policy: any = toAuthorizationJson(bytes, { ip: 'text' })
  const clauses = (group: any): unknown =>
    (group.rules ?? []).map((rule: any) => (rule.matches ?? []).map((match: any) => toMatch(match)))
  return {
    name: policy.name ?? '',
    namespace: policy.namespace ?? '',
    scope: scopeNames[policy.scope ?? ''] ?? 'Global',
    action: policy.action === 'DENY' ? 'Deny' : 'Allow',
    rules: (policy.groups ?? []).map(clauses),
    dryRun: policy.dryRun ?? false,
  }
}

function toMatch(match: Readonly<Record<string, readonly any[]>>): unknown {
  return Object.fromEntries(
    Object.entries(match).map(([key, values]) => [
      key,
      values.map((value) => (/serviceAccounts$/i.test(key) ? toAccount(value) : toValue(value))),
    ]),
  )
}

function toAccount({ namespace = '', serviceAccount = '' }): unknown {
  return { namespace, serviceAccount }
}

function toValue(value: any): unknown {
  if (typeof value === 'number') return value
  if ('address' in value) return `${value.address}/${value.length ?? 0}`
  if ('presence' in value) return { Presence: [] }
  return Object.fromEntries(
    Object.entries(value).map(([kind, text]) => [kind.charAt(0).toUpperCase() + kind.slice(1), text]),
  )
}
