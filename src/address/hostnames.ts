// SPDX-License-Identifier: Apache-2.0
// Who gets a host name: one winner a namespace, and of the winners of all namespaces the one that strangers find (canonical).
// What comes out are the published services, as resources and as what their members need of them.

import { isSameRow } from './equal.js'
import type { Collection, Graph, Index, Read } from '../collection/types.js'
import type { Labels } from '../kube/records.js'
import { Visibility } from '../wire/messages.js'
import type { Resource } from '../xds/source.js'
import type { Candidate } from './candidate.js'
import { formatServiceName } from './names.js'
import type { MemberPort, PortSource } from './ports.js'
import { isSameResource, toServiceResource } from './resource.js'
import { isSubset } from '../kube/selectors.js'

export interface PublishedService {
  readonly candidate: Candidate
  readonly canonical: boolean
}

/** A published service as its members see it: nothing of its addresses, waypoint or balancing, so that those change without them. */
export interface MemberService {
  /** `namespace/hostname`. */
  readonly name: string
  readonly cluster: string
  readonly namespace: string
  readonly source: PortSource
  readonly object: string
  readonly selector: Labels | undefined
  readonly ports: readonly MemberPort[]
  /** `namespace/name` of its waypoint, where implicit policies depend on it; else always undefined. */
  readonly waypoint: string | undefined
}

export interface Hostnames {
  readonly resources: Collection<Resource>
  /** By candidate's cluster and service name. */
  find(read: Read, cluster: string, name: string): MemberService | undefined
  /** The published hosts of one ServiceEntry. */
  ofEntry(read: Read, cluster: string, namespace: string, name: string): readonly MemberService[]
  /** Published services of the namespace whose selector holds for these labels, by name. */
  selecting(read: Read, cluster: string, namespace: string, labels: Labels | undefined): readonly MemberService[]
  /** Creation of the object behind a published service, seconds since the epoch; 0 when there is none. Outside of transforms only. */
  createdOf(cluster: string, name: string): number
  /** Every claim on a host name of a cluster, and what became of it. */
  claims(read: Read, cluster: string, hostname: string): readonly Claim[]
}

/** `hiddenBy`: the object of the same namespace that has the name instead. */
export interface Claim {
  readonly candidate: Candidate
  readonly canonical: boolean
  readonly hiddenBy: Candidate | undefined
}

/** `withWaypoints`: members are told the waypoint of their services. */
export function createHostnames(graph: Graph, candidates: Collection<Candidate>, withWaypoints: boolean): Hostnames {
  const hostnames = graph.distinct('hostnames', candidates, (row) => {
    const key = formatHostKey(row.cluster, row.hostname)
    return [key, key]
  })
  const byHostname = candidates.index('hostname', (row) => [formatHostKey(row.cluster, row.hostname)])
  const published = graph.derive(
    'published services',
    hostnames,
    (key, read): readonly PublishedService[] => selectPublished(read.many(byHostname, key)),
    {
      key: ({ candidate }) => formatServiceKey(candidate.cluster, toName(candidate)),
      equal: (a, b) => a.canonical === b.canonical && isSameRow(a.candidate, b.candidate),
    },
  )
  const resources = graph.derive(
    'service resources',
    published,
    ({ candidate, canonical }) => toServiceResource({ ...candidate.message, canonical }),
    { key: (resource) => resource.name, equal: isSameResource },
  )
  const members = graph.derive(
    'services as members see them',
    published,
    ({ candidate }): MemberService => ({
      name: toName(candidate),
      cluster: candidate.cluster,
      namespace: candidate.namespace,
      source: candidate.source,
      object: candidate.object,
      selector: candidate.selector,
      ports: candidate.ports,
      waypoint: withWaypoints ? candidate.waypoint : undefined,
    }),
    { key: (row) => formatServiceKey(row.cluster, row.name), equal: isSameRow },
  )
  const byEntry = members.index('entry', (row) =>
    row.source === 'ServiceEntry' ? [`${row.cluster}/${row.namespace}/${row.object}`] : [],
  )
  const bySelector = members.index('selector', toSelectorTerms)
  return {
    resources,
    find: (read, cluster, name) => read.one(members, formatServiceKey(cluster, name)),
    ofEntry: (read, cluster, namespace, name) => read.many(byEntry, `${cluster}/${namespace}/${name}`),
    selecting: (read, cluster, namespace, labels) => selectServices(read, bySelector, { cluster, namespace, labels }),
    createdOf: (cluster, name) => published.get(formatServiceKey(cluster, name))?.candidate.created ?? 0,
    claims: (read, cluster, hostname) => judgeClaims(read.many(byHostname, formatHostKey(cluster, hostname))),
  }
}

function formatHostKey(cluster: string, hostname: string): string {
  return `${cluster}/${hostname}`
}

function formatServiceKey(cluster: string, name: string): string {
  return `${cluster}/${name}`
}

function toName(candidate: Candidate): string {
  return formatServiceName(candidate.namespace, candidate.hostname)
}

function selectPublished(candidates: readonly Candidate[]): readonly PublishedService[] {
  return judgeClaims(candidates)
    .filter(({ hiddenBy }) => hiddenBy === undefined)
    .map(({ candidate, canonical }) => ({ candidate, canonical }))
}

/** Judges all claims on one host name. Pure, and the same whatever their order. */
export function judgeClaims(candidates: readonly Candidate[]): readonly Claim[] {
  const winners = new Map<string, Candidate>()
  for (const candidate of candidates) {
    const rival = winners.get(candidate.namespace)
    if (rival === undefined || isBefore(candidate, rival, (c) => c.object)) winners.set(candidate.namespace, candidate)
  }
  let canonical: Candidate | undefined
  for (const winner of winners.values()) {
    if (winner.message.visibility === Visibility.NAMESPACE) continue
    if (canonical === undefined || isBefore(winner, canonical, (c) => c.namespace)) canonical = winner
  }
  return candidates.map((candidate) => {
    const winner = winners.get(candidate.namespace)
    return {
      candidate,
      canonical: candidate === canonical,
      hiddenBy: winner === candidate ? undefined : winner,
    }
  })
}

/** A Kubernetes Service before any entry, then the older, then by name. */
function isBefore(a: Candidate, b: Candidate, name: (candidate: Candidate) => string): boolean {
  if (a.source !== b.source) return a.source === 'Service'
  return a.created !== b.created ? a.created < b.created : name(a) < name(b)
}

/** Filed under one pair of the selector, the last by key: a workload that has not that pair need not look at it. */
function toSelectorTerms({ cluster, namespace, selector }: MemberService): readonly string[] {
  let last: string | undefined
  for (const key in selector) if (last === undefined || key > last) last = key
  return last === undefined || selector === undefined
    ? []
    : [formatPairTerm(cluster, namespace, last, selector[last] ?? '')]
}

function formatPairTerm(cluster: string, namespace: string, key: string, value: string): string {
  return `${cluster}/${namespace}/${key}=${value}`
}

function selectServices(
  read: Read,
  bySelector: Index<MemberService>,
  workload: { readonly cluster: string; readonly namespace: string; readonly labels: Labels | undefined },
): readonly MemberService[] {
  const { cluster, namespace, labels } = workload
  const found: MemberService[] = []
  for (const key in labels)
    for (const service of read.many(bySelector, formatPairTerm(cluster, namespace, key, labels[key] ?? '')))
      if (service.selector !== undefined && isSubset(service.selector, labels)) found.push(service)
  return found.sort((a, b) => (a.name < b.name ? -1 : 1))
}
