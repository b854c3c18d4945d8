// SPDX-License-Identifier: Apache-2.0
// ServiceEntries as candidates for publication: one for each host. Their endpoints are service-entry-endpoints.ts.

import { isSameRow } from './equal.js'
import { maskPrefix, parseIp, parsePrefix } from '../base/ip.js'
import type { Collection, Graph } from '../collection/types.js'
import type { Inputs } from '../kube/inputs.js'
import { clusterKey, type ServiceEntryRecord } from '../kube/records.js'
import { IpFamilies, Visibility, type NetworkAddress } from '../wire/messages.js'
import { formatCandidateKey, type Candidate } from './candidate.js'
import type { Discovery } from './discovery.js'
import { isEmptyLabels, labelKeys, labelOf } from './labels.js'
import { toEntryLoadBalancing } from './load-balancing.js'
import type { Networks } from './networks.js'
import type { AddressOptions } from './options.js'
import { toEntryPorts, toMemberPorts } from './ports.js'
import type { Visibilities } from './visibility.js'
import { toWeightedWaypoints, type WaypointReferences } from './waypoint-reference.js'

interface Reads {
  readonly inputs: Inputs
  readonly options: AddressOptions
  readonly discovery: Discovery
  readonly networks: Networks
  readonly references: WaypointReferences
  readonly visibilities: Visibilities
}

export function createServiceEntryCandidates(graph: Graph, reads: Reads): Collection<Candidate> {
  const { inputs, options, discovery, networks, references, visibilities } = reads
  return graph.derive(
    'candidates of ServiceEntries',
    inputs.ServiceEntry,
    (entry, read): readonly Candidate[] | undefined => {
      if (!discovery.isOurRevision(entry.labels) || !discovery.isSeen(read, entry)) return undefined
      const { cluster, namespace, name, resolution } = entry
      const visibility = visibilities.ofNamespace(read, cluster, namespace)
      const network = networks.ofCluster(read, cluster)
      const written = parseEntryAddresses(entry.addresses, network)
      if (visibility === 'NONE' || written === undefined) return undefined
      const isPrivate = visibility === 'NAMESPACE'
      const waypoint = references.ofService(read, entry, isPrivate)
      const bound = waypoint.outcome.kind === 'bound' ? waypoint.outcome.waypoint : undefined
      const inherited = read.one(inputs.Namespace, clusterKey(cluster, namespace))?.annotations
      const ports = toEntryPorts(entry.ports)
      const names = entry.ports.map((port) => ({ number: port.number, name: port.name, targetName: '' }))
      const shared = {
        cluster,
        namespace,
        source: 'ServiceEntry' as const,
        object: name,
        created: entry.created,
        selector: isEmptyLabels(entry.workloadSelector) ? undefined : entry.workloadSelector,
        ports: toMemberPorts(ports, names),
        waypoint: bound?.reference,
      }
      const message = {
        name,
        namespace,
        ports,
        subjectAltNames: entry.subjectAltNames,
        waypoint: bound?.address,
        loadBalancing: toEntryLoadBalancing(resolution, entry.annotations, inherited),
        ipFamilies: IpFamilies.AUTOMATIC,
        canonical: false,
        ingressUseWaypoint: waypoint.ingressUseWaypoint,
        weightedWaypoints: toWeightedWaypoints(waypoint),
        visibility: isPrivate ? Visibility.NAMESPACE : Visibility.PUBLIC,
      }
      const isAllocated = options.ipAutoallocate && isAllocatable(entry)
      return [...new Set(entry.hosts)].map((hostname) => ({
        ...shared,
        hostname,
        message: {
          ...message,
          hostname,
          addresses: isAllocated ? selectAllocated(entry, hostname, network) : written,
        },
      }))
    },
    { key: formatCandidateKey, equal: isSameRow },
  )
}

/** Addresses and ranges as written; undefined when one of them is neither: then nothing of the entry is published. */
export function parseEntryAddresses(texts: readonly string[], network: string): readonly NetworkAddress[] | undefined {
  const out: NetworkAddress[] = []
  for (const text of texts) {
    const address = parseIp(text)
    const prefix = address === undefined ? parsePrefix(text) : undefined
    if (address !== undefined) out.push({ network, address })
    else if (prefix === undefined) return undefined
    else if (prefix.length === prefix.address.length * 8) out.push({ network, address: prefix.address })
    else out.push({ network, address: maskPrefix(prefix), length: prefix.length })
  }
  return out
}

/** May the addresses of its status be used? */
export function isAllocatable(entry: ServiceEntryRecord): boolean {
  const optedOut = labelOf(entry.labels, labelKeys.autoAllocate)?.toLowerCase() === 'false'
  return entry.resolution !== 'NONE' && !optedOut && entry.addresses.length === 0
}

/** Those of one host, in the order of the status. A host with a wildcard has none, unless names are resolved as they come. */
function selectAllocated(entry: ServiceEntryRecord, hostname: string, network: string): readonly NetworkAddress[] {
  if (hostname.startsWith('*') && entry.resolution !== 'DYNAMIC_DNS') return []
  return entry.statusAddresses.flatMap(({ host, value }) => {
    const address = host === hostname ? parseIp(value) : undefined
    return address === undefined ? [] : [{ network, address }]
  })
}
