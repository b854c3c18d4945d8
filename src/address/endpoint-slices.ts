// SPDX-License-Identifier: Apache-2.0
// Endpoints of EndpointSlices that are no pods, as workloads: the API server, or what somebody wrote by hand behind a Service without selector.

import { parseIp } from '../base/ip.js'
import type { Collection, Graph, Read } from '../collection/types.js'
import type { Inputs } from '../kube/inputs.js'
import type { EndpointRecord, EndpointSliceRecord } from '../kube/records.js'
import { NetworkMode, TunnelProtocol, WorkloadStatus, WorkloadType, type WorkloadMessage } from '../wire/messages.js'
import type { Resource } from '../xds/source.js'
import type { AddressOwners } from './address-owners.js'
import type { Discovery } from './discovery.js'
import type { Hostnames } from './hostnames.js'
import { formatTrustDomain, type Mesh } from './mesh.js'
import { formatSliceUid } from './names.js'
import type { Networks } from './networks.js'
import type { AddressOptions } from './options.js'
import { resolveSlicePorts } from './ports.js'
import { isSameResource, toWorkloadResource } from './resource.js'
import { toServiceOfSlice } from './slice-targets.js'

interface Reads {
  readonly options: AddressOptions
  readonly discovery: Discovery
  readonly owners: AddressOwners
  readonly mesh: Mesh
  readonly networks: Networks
  readonly hostnames: Hostnames
}

export function createSliceResources(graph: Graph, inputs: Inputs, reads: Reads): Collection<Resource> {
  return graph.derive(
    'endpoints of slices',
    inputs.EndpointSlice,
    (slice, read): readonly Resource[] => {
      const all = selectEndpoints(slice)
      if (all.length === 0 || !reads.discovery.isSeen(read, slice)) return []
      // Where a pod of the mesh has the address, the pod is the endpoint.
      const endpoints = all.filter(({ texts }) => reads.owners.adopterOf(read, slice.cluster, texts) === undefined)
      const shared = toSharedFields(slice, read, reads)
      if (shared === undefined) return []
      return endpoints.map(({ first, addresses, ready }) =>
        toWorkloadResource({
          ...shared,
          uid: formatSliceUid(slice, first),
          addresses,
          status: ready ? WorkloadStatus.HEALTHY : WorkloadStatus.UNHEALTHY,
        }),
      )
    },
    { key: (resource) => resource.name, equal: isSameResource },
  )
}

interface SliceEndpoint {
  /** As written: it names the workload. */
  readonly first: string
  readonly texts: readonly string[]
  readonly addresses: readonly Uint8Array[]
  readonly ready: boolean
}

function selectEndpoints(slice: EndpointSliceRecord): readonly SliceEndpoint[] {
  if (slice.addressType !== 'IPv4' && slice.addressType !== 'IPv6') return []
  const seen = new Set<string>()
  return slice.endpoints.flatMap((endpoint) => {
    const [first] = endpoint.addresses
    if (endpoint.target?.kind === 'Pod' || first === undefined || seen.has(first)) return []
    seen.add(first)
    const addresses = parseAddresses(endpoint)
    return addresses === undefined ? [] : [{ first, texts: endpoint.addresses, addresses, ready: endpoint.ready }]
  })
}

/** Undefined when one of them is none. */
function parseAddresses(endpoint: EndpointRecord): readonly Uint8Array[] | undefined {
  const out: Uint8Array[] = []
  for (const text of endpoint.addresses) {
    const ip = parseIp(text)
    if (ip === undefined) return undefined
    out.push(ip)
  }
  return out
}

/** What all endpoints of a slice have in common; undefined when its Service is not published. */
function toSharedFields(
  slice: EndpointSliceRecord,
  read: Read,
  reads: Reads,
): Omit<WorkloadMessage, 'uid' | 'addresses' | 'status'> | undefined {
  const { cluster, namespace, name } = slice
  const serviceName = toServiceOfSlice(slice, reads.options.domain)
  const service = serviceName === undefined ? undefined : reads.hostnames.find(read, cluster, serviceName)
  if (service?.source !== 'Service') return undefined
  return {
    name,
    namespace,
    hostname: '',
    network: reads.networks.ofCluster(read, cluster),
    tunnelProtocol: TunnelProtocol.NONE,
    trustDomain: formatTrustDomain(reads.mesh.identity(read).trustDomain),
    serviceAccount: '',
    waypoint: undefined,
    networkGateway: undefined,
    node: '',
    canonicalName: '',
    canonicalRevision: '',
    workloadType: WorkloadType.DEPLOYMENT,
    workloadName: '',
    nativeTunnel: false,
    applicationTunnel: undefined,
    services: new Map([[service.name, resolveSlicePorts(service.ports, slice.ports)]]),
    authorizationPolicies: [],
    clusterId: cluster,
    locality: undefined,
    networkMode: NetworkMode.HOST_NETWORK,
    capacity: undefined,
  }
}
