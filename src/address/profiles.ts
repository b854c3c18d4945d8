// SPDX-License-Identifier: Apache-2.0
// What workloads of one namespace with the same labels have in common: services, policies, waypoint, network. One row a label set, so that
// selectors are matched once a deployment and not once a pod, and a change that alters none of it re-runs no pod.

import type { Collection, Graph, Read } from '../collection/types.js'
import type { Labels } from '../kube/records.js'
import type { ApplicationTunnel, GatewayAddress } from '../wire/messages.js'
import type { Discovery } from './discovery.js'
import { isSameRow } from './equal.js'
import type { Hostnames, MemberService } from './hostnames.js'
import { formatTrustDomain, type Mesh } from './mesh.js'
import type { NetworkGateways } from './network-gateways.js'
import type { Networks } from './networks.js'
import type { AddressOptions } from './options.js'
import type { Policies } from './policies.js'
import type { WaypointReferences } from './waypoint-reference.js'

/** Pods and entries are selected under different settings. */
export type ProfileKind = 'Pod' | 'WorkloadEntry'

/** Whose profile. */
export interface LabelSet {
  readonly kind: ProfileKind
  readonly cluster: string
  readonly namespace: string
  readonly labels: Labels | undefined
}

export interface Profile {
  readonly key: string
  /** Network of the cluster. */
  readonly network: string
  /** As written on the wire. */
  readonly trustDomain: string
  /** By name. */
  readonly services: readonly MemberService[]
  /** Names of the services, in the same order. */
  readonly parents: readonly string[]
  readonly policies: readonly string[]
  readonly waypoint: GatewayAddress | undefined
  /** `namespace/name` of that waypoint. */
  readonly waypointReference: string | undefined
  readonly applicationTunnel: ApplicationTunnel | undefined
  /** The way to the cluster's network. */
  readonly networkGateway: GatewayAddress | undefined
}

export interface Profiles {
  /** Undefined: objects of that namespace are not seen. */
  find(read: Read, set: LabelSet): Profile | undefined
}

interface Reads {
  readonly options: AddressOptions
  readonly discovery: Discovery
  readonly mesh: Mesh
  readonly networks: Networks
  readonly networkGateways: NetworkGateways
  readonly hostnames: Hostnames
  readonly policies: Policies
  readonly references: WaypointReferences
}

export function createProfiles(graph: Graph, sets: Collection<LabelSet>, reads: Reads): Profiles {
  const { discovery, mesh, networks, networkGateways, hostnames, policies, references } = reads
  const isSelecting = toSelectionRule(reads.options)
  const profiles = graph.derive(
    'profiles',
    sets,
    (set, read): Profile | undefined => {
      if (!discovery.isSeen(read, set)) return undefined
      const { kind, cluster, namespace, labels } = set
      const network = networks.ofCluster(read, cluster)
      const services = hostnames
        .selecting(read, cluster, namespace, labels)
        .filter((service) => isSelecting(kind, service))
      const { outcome, applicationTunnel } = references.ofWorkload(read, set)
      const bound = outcome.kind === 'bound' ? outcome.waypoint : undefined
      return {
        key: formatLabelSetKey(set),
        network,
        trustDomain: formatTrustDomain(mesh.identity(read).trustDomain),
        services,
        parents: services.map((service) => service.name),
        policies: policies.namesFor(read, set),
        waypoint: bound?.address,
        waypointReference: bound?.reference,
        applicationTunnel,
        networkGateway: networkGateways.select(read, network),
      }
    },
    { key: (row) => row.key, equal: isSameRow },
  )
  return { find: (read, set) => read.one(profiles, formatLabelSetKey(set)) }
}

/** Does this kind of service select that kind of workload at all? */
function toSelectionRule(options: AddressOptions): (kind: ProfileKind, service: MemberService) => boolean {
  return (kind, { source }) =>
    kind === 'Pod'
      ? source === 'Service' || options.serviceEntrySelectsPods
      : source === 'ServiceEntry' || options.serviceSelectsWorkloadEntries
}

/** Stands for having no labels, which an empty set is not. */
const noLabels: Labels = Object.freeze({})

/** A place where a label set occurs, with the key of its profile there. */
interface KnownKey {
  readonly kind: ProfileKind
  readonly cluster: string
  readonly key: string
}

/** By labels and namespace: pods of one label set share one labels object, and so one key. */
const known = new WeakMap<Labels, Map<string, KnownKey[]>>()

/** Equal for equal sets, whatever object holds the labels. */
export function formatLabelSetKey({ kind, cluster, namespace, labels }: LabelSet): string {
  const holder = labels ?? noLabels
  let places = known.get(holder)
  if (places === undefined) known.set(holder, (places = new Map<string, KnownKey[]>()))
  const here = places.get(namespace) ?? []
  for (const place of here) if (place.kind === kind && place.cluster === cluster) return place.key
  const key = `${kind}/${cluster}/${namespace}/${labels === undefined ? 'none' : 'set'}${formatLabels(labels)}`
  places.set(namespace, [...here, { kind, cluster, key }])
  return key
}

function formatLabels(labels: Labels | undefined): string {
  let text = ''
  for (const [key, value] of Object.entries(labels ?? {}).sort(([a], [b]) => (a < b ? -1 : 1)))
    text += `\0${key}\0${value}`
  return text
}
