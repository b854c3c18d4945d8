// SPDX-License-Identifier: Apache-2.0
// Kubernetes Services as candidates for publication.

import { isSameRow } from './equal.js'
import { parseIp } from '../base/ip.js'
import type { Collection, Graph } from '../collection/types.js'
import type { Inputs } from '../kube/inputs.js'
import { clusterKey, type ServiceRecord } from '../kube/records.js'
import { IpFamilies, Visibility, type NetworkAddress } from '../wire/messages.js'
import { formatCandidateKey, type Candidate } from './candidate.js'
import type { Discovery } from './discovery.js'
import { isEmptyLabels } from './labels.js'
import { toServiceLoadBalancing } from './load-balancing.js'
import { formatServiceHostname } from './names.js'
import type { Networks } from './networks.js'
import type { AddressOptions } from './options.js'
import { toMemberPorts, toServicePortNames, toServicePorts } from './ports.js'
import { toWeightedWaypoints, type WaypointReferences } from './waypoint-reference.js'

interface Reads {
  readonly inputs: Inputs
  readonly options: AddressOptions
  readonly discovery: Discovery
  readonly networks: Networks
  readonly references: WaypointReferences
}

export function createServiceCandidates(graph: Graph, reads: Reads): Collection<Candidate> {
  const { inputs, options, discovery, networks, references } = reads
  return graph.derive(
    'candidates of Services',
    inputs.Service,
    (service, read): Candidate | undefined => {
      if (service.type === 'ExternalName' || !discovery.isSeen(read, service)) return undefined
      const { cluster, namespace, name } = service
      const addresses = toAddresses(service, networks.ofCluster(read, cluster))
      if (addresses === undefined) return undefined
      const hostname = formatServiceHostname(name, namespace, options.domain)
      const waypoint = references.ofService(read, service, false)
      const bound = waypoint.outcome.kind === 'bound' ? waypoint.outcome.waypoint : undefined
      const inherited = read.one(inputs.Namespace, clusterKey(cluster, namespace))?.annotations
      const ports = toServicePorts(service.ports)
      return {
        cluster,
        namespace,
        hostname,
        source: 'Service',
        object: name,
        created: service.created,
        selector: isEmptyLabels(service.selector) ? undefined : service.selector,
        ports: toMemberPorts(ports, toServicePortNames(service.ports)),
        waypoint: bound?.reference,
        message: {
          name,
          namespace,
          hostname,
          addresses,
          ports,
          subjectAltNames: [],
          waypoint: bound?.address,
          loadBalancing: toServiceLoadBalancing(service, inherited),
          ipFamilies: toIpFamilies(service.ipFamilies),
          canonical: false,
          ingressUseWaypoint: waypoint.ingressUseWaypoint,
          weightedWaypoints: toWeightedWaypoints(waypoint),
          visibility: Visibility.PUBLIC,
        },
      }
    },
    { key: formatCandidateKey, equal: isSameRow },
  )
}

/** Undefined when one of them is no IP address: then the Service is not published. */
function toAddresses(service: ServiceRecord, network: string): readonly NetworkAddress[] | undefined {
  const out: NetworkAddress[] = []
  for (const text of service.clusterIps) {
    const address = parseIp(text)
    if (address === undefined) return undefined
    out.push({ network, address })
  }
  return out
}

function toIpFamilies(families: readonly string[]): number {
  switch (families.length) {
    case 1:
      return families[0] === 'IPv4' ? IpFamilies.IPV4_ONLY : IpFamilies.IPV6_ONLY
    case 2:
      return IpFamilies.DUAL
    default:
      return IpFamilies.AUTOMATIC
  }
}
