// SPDX-License-Identifier: Apache-2.0
// WorkloadEntries as workloads.

import type { Collection, Graph, Read } from '../collection/types.js'
import type { Inputs } from '../kube/inputs.js'
import type { Labels, WorkloadEntryRecord } from '../kube/records.js'
import { NetworkMode, WorkloadStatus, WorkloadType, type Port } from '../wire/messages.js'
import type { Resource } from '../xds/source.js'
import type { Discovery } from './discovery.js'
import type { ImplicitPolicies } from './implicit-policies.js'
import { annotationKeys, labelKeys, labelOf } from './labels.js'
import { formatWorkloadEntryUid } from './names.js'
import type { NetworkGateways } from './network-gateways.js'
import { resolveEntryPorts } from './ports.js'
import type { LabelSet, Profiles } from './profiles.js'
import { isSameResource, toWorkloadResource } from './resource.js'
import { parseLocality, toCanonical, toEndpointAddress, toTunnel } from './workload-fields.js'

interface Reads {
  readonly discovery: Discovery
  readonly profiles: Profiles
  readonly networkGateways: NetworkGateways
  readonly implicit: ImplicitPolicies
}

export function createWorkloadEntryResources(graph: Graph, inputs: Inputs, reads: Reads): Collection<Resource> {
  return graph.derive('workload entries', inputs.WorkloadEntry, (entry, read) => toEntryResource(entry, read, reads), {
    key: (resource) => resource.name,
    equal: isSameResource,
  })
}

/** Of which profile an entry is. */
export function toEntryLabelSet(entry: WorkloadEntryRecord): LabelSet {
  const { cluster, namespace } = entry
  return { kind: 'WorkloadEntry', cluster, namespace, labels: mergeLabels(entry) }
}

/** The labels of the spec with those of the object over them. Undefined when it has none of either kind. */
export function mergeLabels({ labels, spec }: Pick<WorkloadEntryRecord, 'labels' | 'spec'>): Labels | undefined {
  if (spec.labels === undefined || labels === undefined) return spec.labels ?? labels
  return { ...spec.labels, ...labels }
}

function toEntryResource(entry: WorkloadEntryRecord, read: Read, reads: Reads): Resource | undefined {
  if (!reads.discovery.isOurRevision(entry.labels)) return undefined
  const set = toEntryLabelSet(entry)
  const profile = reads.profiles.find(read, set)
  if (profile === undefined) return undefined
  const { cluster, namespace, name, annotations, spec } = entry
  const { labels } = set
  const { services, waypointReference } = profile
  const isElsewhere = spec.network !== '' && spec.network !== profile.network
  const implicit = reads.implicit.namesFor(read, cluster, services, waypointReference)
  const workloadName =
    labelOf(annotations, annotationKeys.autoRegistrationGroup) ?? labelOf(labels, labelKeys.workloadName) ?? name
  return toWorkloadResource(
    {
      uid: formatWorkloadEntryUid(entry),
      name,
      namespace,
      ...toEndpointAddress(spec.address),
      network: isElsewhere ? spec.network : profile.network,
      ...toTunnel(labels, annotations),
      trustDomain: profile.trustDomain,
      serviceAccount: spec.serviceAccount,
      waypoint: profile.waypoint,
      networkGateway: isElsewhere ? reads.networkGateways.select(read, spec.network) : profile.networkGateway,
      node: '',
      ...toCanonical(labels, workloadName),
      workloadType: WorkloadType.POD,
      workloadName,
      applicationTunnel: profile.applicationTunnel,
      services: new Map<string, readonly Port[]>(
        services.map((service) => [service.name, resolveEntryPorts(service.source, service.ports, spec.ports)]),
      ),
      authorizationPolicies: [...profile.policies, ...implicit],
      status: WorkloadStatus.HEALTHY,
      clusterId: cluster,
      locality: parseLocality(spec.locality),
      networkMode: NetworkMode.STANDARD,
      capacity: spec.weight > 0 ? spec.weight : undefined,
    },
    profile.parents,
  )
}
