// SPDX-License-Identifier: Apache-2.0
// Endpoints of ServiceEntries as workloads: those it lists, or one for each host that a name server will resolve.
// An entry none of whose hosts is published has none.

import type { Collection, Graph, Read } from '../collection/types.js'
import type { Inputs } from '../kube/inputs.js'
import type { ServiceEntryRecord, WorkloadSpecRecord } from '../kube/records.js'
import { NetworkMode, WorkloadStatus, WorkloadType } from '../wire/messages.js'
import type { Resource } from '../xds/source.js'
import type { Hostnames, MemberService } from './hostnames.js'
import type { ImplicitPolicies } from './implicit-policies.js'
import { formatTrustDomain, type Mesh } from './mesh.js'
import { formatServiceEntryUid, formatServiceName } from './names.js'
import type { NetworkGateways } from './network-gateways.js'
import type { Networks } from './networks.js'
import type { Policies } from './policies.js'
import { resolveEntryPorts } from './ports.js'
import { isSameResource, toWorkloadResource } from './resource.js'
import type { WaypointReferences, WorkloadWaypoint } from './waypoint-reference.js'
import { parseLocality, toCanonical, toEndpointAddress, toTunnel } from './workload-fields.js'

interface Reads {
  readonly mesh: Mesh
  readonly networks: Networks
  readonly networkGateways: NetworkGateways
  readonly hostnames: Hostnames
  readonly policies: Policies
  readonly references: WaypointReferences
  readonly implicit: ImplicitPolicies
}

export function createServiceEntryResources(graph: Graph, inputs: Inputs, reads: Reads): Collection<Resource> {
  return graph.derive(
    'endpoints of ServiceEntries',
    inputs.ServiceEntry,
    (entry, read): readonly Resource[] => {
      const services = reads.hostnames.ofEntry(read, entry.cluster, entry.namespace, entry.name)
      if (services.length === 0) return []
      // Of endpoints with one address the last stays.
      const byUid = new Map<string, Resource>()
      for (const endpoint of selectEndpoints(entry, services)) {
        const resource = toEndpointResource(entry, endpoint, read, reads)
        byUid.set(resource.name, resource)
      }
      return [...byUid.values()]
    },
    { key: (resource) => resource.name, equal: isSameResource },
  )
}

interface Endpoint {
  readonly spec: WorkloadSpecRecord
  readonly services: readonly MemberService[]
  /** It stands for a host that names resolve to: no waypoint is its own. */
  readonly implicit: boolean
}

const resolvedByName: readonly string[] = ['DNS', 'DNS_ROUND_ROBIN', 'DYNAMIC_DNS']

function selectEndpoints(entry: ServiceEntryRecord, services: readonly MemberService[]): readonly Endpoint[] {
  if (entry.endpoints.length > 0) return entry.endpoints.map((spec) => ({ spec, services, implicit: false }))
  if (!resolvedByName.includes(entry.resolution) || entry.workloadSelector !== undefined) return []
  return [...new Set(entry.hosts)].flatMap((host) => {
    const own = services.filter((service) => service.name === formatServiceName(entry.namespace, host))
    return own.length === 0 ? [] : [{ spec: { ...emptySpec, address: host }, services: own, implicit: true }]
  })
}

const emptySpec: WorkloadSpecRecord = {
  address: '',
  ports: {},
  labels: undefined,
  network: '',
  locality: '',
  weight: 0,
  serviceAccount: '',
}

const noWaypoint: WorkloadWaypoint = { outcome: { kind: 'none' }, applicationTunnel: undefined }

function toEndpointResource(entry: ServiceEntryRecord, endpoint: Endpoint, read: Read, reads: Reads): Resource {
  const { cluster, namespace, name, labels, annotations } = entry
  const { spec, services, implicit } = endpoint
  const network = spec.network === '' ? reads.networks.ofCluster(read, cluster) : spec.network
  // Names, tunnel and policies go by the entry's labels, the waypoint by the endpoint's.
  const { outcome, applicationTunnel } = implicit
    ? noWaypoint
    : reads.references.ofWorkload(read, { cluster, namespace, labels: spec.labels })
  const bound = outcome.kind === 'bound' ? outcome.waypoint : undefined
  return toWorkloadResource({
    uid: formatServiceEntryUid(entry, spec.address),
    name,
    namespace,
    ...toEndpointAddress(spec.address),
    network,
    ...toTunnel(labels, annotations),
    trustDomain: formatTrustDomain(reads.mesh.identity(read).trustDomain),
    serviceAccount: spec.serviceAccount,
    waypoint: bound?.address,
    networkGateway: reads.networkGateways.select(read, network),
    node: '',
    ...toCanonical(labels, name),
    workloadType: WorkloadType.POD,
    workloadName: name,
    applicationTunnel,
    services: new Map(
      services.map((service) => [service.name, resolveEntryPorts('ServiceEntry', service.ports, spec.ports)]),
    ),
    authorizationPolicies: [
      ...reads.policies.namesFor(read, { cluster, namespace, labels }),
      ...reads.implicit.namesFor(read, cluster, services, bound?.reference),
    ],
    status: WorkloadStatus.HEALTHY,
    clusterId: cluster,
    locality: parseLocality(spec.locality),
    networkMode: NetworkMode.STANDARD,
    capacity: spec.weight > 0 ? spec.weight : undefined,
  })
}
