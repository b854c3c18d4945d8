// SPDX-License-Identifier: Apache-2.0
// Where a resource comes from and why it is as it is, for people. Asks the tables the same questions as the transforms, when somebody wants to know;
// keeps nothing and changes nothing.

import type { Read } from '../collection/types.js'
import { objectKey, type Kind, type Labels, type PodRecord } from '../kube/records.js'
import { decodeAddress, type DecodedAddress } from '../wire/address-decoder.js'
import { decodeEntry } from '../wire/entry.js'
import type { ResourceSource } from '../xds/source.js'
import type { Domain } from './domain.js'
import { annotationKeys, labelOf } from './labels.js'
import { isParentStrict, isPolicyStrict, toPortRules, type PeerPolicy } from './peer-authentication.js'
import { toPodRowKey } from './pods.js'
import type { ServiceWaypoint, WaypointOutcome } from './waypoint-reference.js'
import { mergeLabels } from './workload-entries.js'

/** A Kubernetes object. */
export interface ObjectReference {
  readonly kind: Kind
  readonly cluster: string
  readonly namespace: string
  readonly name: string
}

export interface Explanation {
  readonly name: string
  /** The object that this resource is made of. */
  readonly source: ObjectReference
  readonly address: DecodedAddress
  /** For whatever can have one: which waypoint, or why none. */
  readonly waypoint: WaypointOutcome | undefined
  /** For services: the canary beside it. */
  readonly canary: ServiceWaypoint['canary'] | undefined
  /** For services: objects of the same namespace that claim the host name too and are not published. */
  readonly hidden: readonly ObjectReference[]
  /** All of that, and more, as sentences. */
  readonly why: readonly string[]
}

type Reasons = Omit<Explanation, 'name' | 'address'>

/** Reads the tables as of the last commit; records nothing. */
export const peek: Read = {
  one: (from, key) => from.get(key),
  many: (from, term) => from.lookup(term),
  setting: (from) => from.get(),
}

const noReasons = { waypoint: undefined, canary: undefined, hidden: [] } as const

/** Undefined for a name that nobody has. Costs a few look-ups and one decoding. */
export function createExplainer(domain: Domain, addresses: ResourceSource): (name: string) => Explanation | undefined {
  return (name) => {
    const entry = addresses.get(name)?.entry
    if (entry === undefined) return undefined
    const address = decodeAddress(decodeEntry(entry).body)
    const reasons =
      address.kind === 'service'
        ? explainService(domain, name)
        : explainWorkload(domain, name, address.workload.clusterId)
    return reasons && { name, address, ...reasons }
  }
}

function explainService(domain: Domain, name: string): Reasons | undefined {
  const cluster = domain.options.clusterId
  const hostname = name.slice(name.indexOf('/') + 1)
  const namespace = name.slice(0, name.indexOf('/'))
  const claims = domain.hostnames.claims(peek, cluster, hostname)
  const own = claims.find((claim) => claim.candidate.namespace === namespace && claim.hiddenBy === undefined)
  if (own === undefined) return undefined
  const { source: kind, object } = own.candidate
  const source: ObjectReference = { kind, cluster, namespace, name: object }
  const hidden = claims
    .filter((claim) => claim.hiddenBy === own.candidate)
    .map(({ candidate }): ObjectReference => ({ kind: candidate.source, cluster, namespace, name: candidate.object }))
  const { outcome, canary, ingressUseWaypoint } = selectServiceWaypoint(domain, source)
  const why = [`published by ${formatReference(source)}`]
  for (const loser of hidden) why.push(`${formatReference(loser)} claims ${hostname} too and is not published`)
  if (!own.canonical) why.push(explainNotCanonical(claims, hostname))
  why.push(...formatWaypoint(outcome), ...formatCanary(canary))
  if (ingressUseWaypoint) why.push('ingress traffic goes through the waypoint too')
  const { addresses, loadBalancing } = own.candidate.message
  if (addresses.length === 0) why.push('it has no address of its own')
  if (loadBalancing?.healthPolicy === 1) why.push('unhealthy members take traffic too')
  return { source, waypoint: outcome, canary, hidden, why }
}

function explainNotCanonical(
  claims: readonly { readonly canonical: boolean; readonly candidate: { readonly namespace: string } }[],
  hostname: string,
): string {
  const canonical = claims.find((claim) => claim.canonical)
  return canonical === undefined
    ? `no namespace publishes ${hostname} for all others`
    : `other namespaces find ${hostname} in namespace ${canonical.candidate.namespace}`
}

function selectServiceWaypoint({ inputs, references, visibilities }: Domain, source: ObjectReference): ServiceWaypoint {
  const { kind, cluster, namespace, name } = source
  const key = objectKey(cluster, namespace, name)
  const record = kind === 'Service' ? inputs.Service.get(key) : inputs.ServiceEntry.get(key)
  const subject = { cluster, namespace, labels: record?.labels, annotations: record?.annotations }
  const isPrivate = kind === 'ServiceEntry' && visibilities.ofNamespace(peek, cluster, namespace) === 'NAMESPACE'
  return references.ofService(peek, subject, isPrivate)
}

function explainWorkload(domain: Domain, name: string, cluster: string): Reasons | undefined {
  const { inputs } = domain
  const podKey = toPodRowKey(name)
  const pod = podKey === undefined ? undefined : inputs.Pod.get(podKey)
  if (pod !== undefined) return explainPod(domain, pod)
  const [kind, namespace, object, address] = splitUid(name, cluster)
  const key = objectKey(cluster, namespace, object)
  const source = { cluster, namespace, name: object }
  switch (kind) {
    case 'WorkloadEntry': {
      const entry = inputs.WorkloadEntry.get(key)
      return entry && explainLabelled(domain, { ...source, kind }, mergeLabels(entry), ['entries are always healthy'])
    }
    case 'ServiceEntry': {
      const entry = inputs.ServiceEntry.get(key)
      const endpoint = entry?.endpoints.findLast((item) => item.address === address)
      const labels = { policies: entry?.labels, waypoint: endpoint?.labels }
      return entry && explainEndpoint(domain, { ...source, kind }, labels, endpoint === undefined)
    }
    case 'EndpointSlice':
      return {
        ...noReasons,
        source: { ...source, kind },
        why: [
          `an endpoint of ${formatReference({ ...source, kind })} that is no pod`,
          'endpoints of slices have no waypoint and no policies',
        ],
      }
    default:
      return explainGateway(domain, name)
  }
}

/** `cluster/group/kind/namespace/name/rest`; the rest may hold slashes. */
function splitUid(
  uid: string,
  cluster: string,
): readonly [kind: string, namespace: string, name: string, rest: string] {
  const [, kind = '', namespace = '', name = '', ...rest] = uid.slice(cluster.length + 1).split('/')
  return [kind, namespace, name, rest.join('/')]
}

function explainGateway(domain: Domain, name: string): Reasons | undefined {
  const [gateway, ...others] = domain.networkGateways.byUid(peek, name)
  if (gateway === undefined) return undefined
  const source = {
    kind: 'Gateway',
    cluster: domain.options.clusterId,
    namespace: gateway.namespace,
    name: gateway.name,
  } as const
  const why = [`the way into network ${gateway.network}, from ${formatReference(source)}`]
  for (const other of others) why.push(`Gateway ${other.namespace}/${other.name} describes the same way`)
  return { ...noReasons, source, why }
}

function explainPod(domain: Domain, pod: PodRecord): Reasons {
  const { cluster, namespace, name } = pod
  const why: string[] = []
  if (pod.deleting) why.push('unhealthy: the pod is being deleted')
  else if (!pod.ready) why.push('unhealthy: the pod is not Ready')
  if (labelOf(pod.annotations, annotationKeys.redirection) === 'enabled')
    why.push(`HBONE: annotation ${annotationKeys.redirection} says that its traffic is captured`)
  for (const { service, ports } of domain.sliceTargets.targetsOf(peek, pod))
    why.push(`an EndpointSlice names ${ports === undefined ? 'the pod' : "the pod's address"} for ${service}`)
  return explainLabelled(domain, { kind: 'Pod', cluster, namespace, name }, pod.labels, why)
}

function explainLabelled(
  domain: Domain,
  source: ObjectReference & { readonly kind: 'Pod' | 'WorkloadEntry' },
  labels: Labels | undefined,
  facts: readonly string[],
): Reasons {
  const subject = { ...source, labels }
  const { outcome } = domain.references.ofWorkload(peek, subject)
  const services = domain.profiles.find(peek, subject)?.services ?? []
  return {
    source,
    waypoint: outcome,
    canary: undefined,
    hidden: [],
    why: [
      `from ${formatReference(source)}`,
      ...facts,
      ...services.map((service) => `the selector of ${service.source} ${service.namespace}/${service.object} fits`),
      ...formatWaypoint(outcome),
      ...explainPolicies(domain, source, labels),
    ],
  }
}

function explainEndpoint(
  domain: Domain,
  source: ObjectReference,
  labels: { readonly policies: Labels | undefined; readonly waypoint: Labels | undefined },
  implicit: boolean,
): Reasons {
  const { outcome } = domain.references.ofWorkload(peek, { ...source, labels: labels.waypoint })
  const waypoint: WaypointOutcome = implicit ? { kind: 'none' } : outcome
  return {
    source,
    waypoint,
    canary: undefined,
    hidden: [],
    why: [
      implicit
        ? `stands for a host of ${formatReference(source)} that has no endpoints of its own`
        : `an endpoint of ${formatReference(source)}`,
      ...formatWaypoint(waypoint),
      ...explainPolicies(domain, source, labels.policies),
    ],
  }
}

function explainPolicies(domain: Domain, source: ObjectReference, labels: Labels | undefined): readonly string[] {
  const { cluster, namespace } = source
  const subject = { cluster, namespace, labels }
  const why = domain.policies
    .namesFor(peek, subject)
    .filter((name) => domain.inputs.AuthorizationPolicy.get(`${cluster}/${name}`) !== undefined)
    .map((name) =>
      labels === undefined
        ? `policy ${name}: without any labels every policy with a selector is listed`
        : `policy ${name}: its selector fits`,
    )
  const winners = domain.policies.peersFor(peek, subject)
  const parentStrict = isParentStrict(winners)
  const decisive = [winners.workload, winners.namespace, winners.mesh].find(
    (peer) => peer !== undefined && peer.mode !== 'UNSET',
  )
  const ports = winners.workload && toPortRules(winners.workload, parentStrict)
  if (isPolicyStrict(winners.workload, parentStrict) && decisive !== undefined)
    why.push(`peers need an identity: ${formatPeer(decisive)} is STRICT`)
  if (winners.workload !== undefined && ports !== undefined)
    why.push(
      ports.kind === 'exempt'
        ? `${formatPeer(winners.workload)} exempts port ${ports.ports.join(', ')}`
        : `${formatPeer(winners.workload)} makes port ${ports.ports.join(', ')} STRICT`,
    )
  return why
}

function formatPeer({ namespace, name }: PeerPolicy): string {
  return `PeerAuthentication ${namespace}/${name}`
}

function formatReference({ kind, namespace, name }: ObjectReference): string {
  return `${kind} ${namespace}/${name}`
}

const refusals = {
  WaypointIsNotReady: 'it does not exist or has no address yet',
  AttachmentDenied: 'its allowedRoutes do not let this namespace attach',
  UnsupportedTrafficType: 'it does not take this kind of traffic (label istio.io/waypoint-for)',
  CrossNamespaceWaypointForbidden: 'the service is visible in its own namespace only, and the waypoint is in another',
  CanarySameAsPrimary: 'it is the primary itself',
  CanaryInvalidWeight: 'its weight is no whole number from 0 to 100',
} as const

function formatWaypoint(outcome: WaypointOutcome): readonly string[] {
  switch (outcome.kind) {
    case 'none':
      return []
    case 'refused':
      return [`waypoint ${outcome.reference} is not used, ${outcome.reason}: ${refusals[outcome.reason]}`]
    case 'bound': {
      const by = outcome.inherited ? 'by the label of its namespace' : 'by its own label'
      const seen = outcome.waypoint.address === undefined ? ', which has no address that can be used' : ''
      return [`waypoint ${outcome.waypoint.reference} ${by}${seen}`]
    }
  }
}

function formatCanary(canary: ServiceWaypoint['canary']): readonly string[] {
  switch (canary.kind) {
    case 'none':
      return []
    case 'refused':
      return [`canary waypoint ${canary.reference} is not used, ${canary.reason}: ${refusals[canary.reason]}`]
    case 'bound':
      return [`canary waypoint ${canary.waypoint.reference} takes ${canary.weight} percent`]
  }
}
