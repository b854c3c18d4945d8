// SPDX-License-Identifier: Apache-2.0
// All tables of the domain in the order in which they are computed: each reads only what stands above it. For store.ts, which serves the result,
// and explain.ts, which asks the same tables for reasons.

import type { Collection, Graph } from '../collection/types.js'
import type { Inputs } from '../kube/inputs.js'
import type { Resource } from '../xds/source.js'
import { createAddressOwners, type AddressOwners } from './address-owners.js'
import { createAuthorizations, createDoubts, type DoubtfulPolicy } from './authorizations.js'
import { createDiscovery, type Discovery } from './discovery.js'
import { createSliceResources } from './endpoint-slices.js'
import { createHostnames, type Hostnames } from './hostnames.js'
import { createImplicitPolicies, noImplicitPolicies } from './implicit-policies.js'
import type { ResourceTables } from './lookup.js'
import { createMesh, type Mesh } from './mesh.js'
import { createNetworkGateways, type NetworkGateways } from './network-gateways.js'
import { createNetworks, type Networks } from './networks.js'
import type { AddressOptions } from './options.js'
import { createPodResources, toPodLabelSet } from './pods.js'
import { createPolicies, type Policies } from './policies.js'
import { createProfiles, formatLabelSetKey, type LabelSet, type Profiles } from './profiles.js'
import { createServiceEntryResources } from './service-entry-endpoints.js'
import { createServiceEntryCandidates } from './service-entries.js'
import { createServiceCandidates } from './services.js'
import { createSliceTargets, type SliceTargets } from './slice-targets.js'
import { createVisibilities, type Visibilities } from './visibility.js'
import { createWaypointReferences, type WaypointReferences } from './waypoint-reference.js'
import { createWaypoints, type Waypoints } from './waypoints.js'
import { createWorkloadEntryResources, toEntryLabelSet } from './workload-entries.js'

export interface Domain {
  readonly options: AddressOptions
  readonly inputs: Inputs
  readonly mesh: Mesh
  readonly discovery: Discovery
  readonly networks: Networks
  readonly networkGateways: NetworkGateways
  readonly waypoints: Waypoints
  readonly references: WaypointReferences
  readonly visibilities: Visibilities
  readonly hostnames: Hostnames
  readonly policies: Policies
  readonly owners: AddressOwners
  readonly sliceTargets: SliceTargets
  readonly profiles: Profiles
  readonly resources: ResourceTables
  /** Policies, filed under their names. */
  readonly authorizations: Collection<Resource>
  readonly doubts: Collection<DoubtfulPolicy>
}

export function createDomain(graph: Graph, inputs: Inputs, options: AddressOptions): Domain {
  const mesh = createMesh(graph, inputs, options)
  const discovery = createDiscovery(graph, inputs, mesh, options)
  const networks = createNetworks(graph, inputs, options)
  const networkGateways = createNetworkGateways(graph, inputs, discovery, mesh)
  const waypoints = createWaypoints(graph, inputs, discovery, networks)
  const references = createWaypointReferences(inputs, waypoints)
  const implicit = options.autoAllowWaypointPolicy
    ? createImplicitPolicies(graph, inputs, waypoints, mesh)
    : noImplicitPolicies
  const visibilities = createVisibilities(graph, inputs, mesh)

  const common = { inputs, options, mesh, discovery, networks, networkGateways, references, implicit }
  const candidates = graph.union(
    'candidates',
    createServiceCandidates(graph, common),
    createServiceEntryCandidates(graph, { ...common, visibilities }),
  )
  const hostnames = createHostnames(graph, candidates, options.autoAllowWaypointPolicy)
  const policies = createPolicies(graph, inputs, { discovery, mesh, options })
  const owners = createAddressOwners(inputs, discovery)
  const sliceTargets = createSliceTargets(graph, inputs, { discovery, owners, options })

  const pick = (set: LabelSet): readonly [string, LabelSet] => [formatLabelSetKey(set), set]
  const sets = graph.union(
    'label sets',
    graph.distinct('label sets of pods', inputs.Pod, (pod) => pick(toPodLabelSet(pod))),
    graph.distinct('label sets of entries', inputs.WorkloadEntry, (entry) => pick(toEntryLabelSet(entry))),
  )
  const profiles = createProfiles(graph, sets, { ...common, hostnames, policies })

  const reads = { ...common, hostnames, policies, owners, sliceTargets, profiles }
  const resources: ResourceTables = {
    pods: createPodResources(graph, inputs, reads),
    workloads: [
      createWorkloadEntryResources(graph, inputs, reads),
      createServiceEntryResources(graph, inputs, reads),
      createSliceResources(graph, inputs, reads),
      networkGateways.resources,
    ],
    services: hostnames.resources,
    createdOf: (service) => hostnames.createdOf(options.clusterId, service),
  }
  const authorizations = createAuthorizations(graph, inputs, { mesh, options, policies, implicit })
  const doubts = createDoubts(graph, inputs, { mesh, options, policies })
  return { ...reads, waypoints, visibilities, resources, authorizations, doubts }
}
