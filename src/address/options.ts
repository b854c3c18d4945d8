// SPDX-License-Identifier: Apache-2.0
// The settings of the domain, fixed for the life of a process. For main, which fills them from flags and environment. What may change while running is in mesh-config.ts.

export interface AddressOptions {
  /** Id of the cluster whose objects are read; first segment of the names of workloads. */
  readonly clusterId: string
  /** Namespace that this control plane runs in: home of the mesh configuration and of the network label. */
  readonly systemNamespace: string
  /** Revision of this control plane; empty = takes objects of every revision. */
  readonly revision: string
  /** Domain suffix of the host names of Kubernetes Services. */
  readonly domain: string
  /** Workloads list the implicit policies that let their waypoints in. */
  readonly autoAllowWaypointPolicy: boolean
  /** Policies that are only tried out are listed too. */
  readonly dryRunPolicies: boolean
  /** ServiceEntry selectors select Pods. */
  readonly serviceEntrySelectsPods: boolean
  /** Service selectors select WorkloadEntries. */
  readonly serviceSelectsWorkloadEntries: boolean
  /** Addresses in the status of a ServiceEntry are used. */
  readonly ipAutoallocate: boolean
}

export const defaultAddressOptions: AddressOptions = {
  clusterId: 'Kubernetes',
  systemNamespace: 'istio-system',
  revision: '',
  domain: 'cluster.local',
  autoAllowWaypointPolicy: false,
  dryRunPolicies: false,
  serviceEntrySelectsPods: true,
  serviceSelectsWorkloadEntries: true,
  ipAutoallocate: true,
}
