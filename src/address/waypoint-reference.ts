// SPDX-License-Identifier: Apache-2.0
// Which waypoint an object uses, or why it uses none: its own label before its namespace's, no falling back when the own one fails.
// For services (with canary and ingress) and for workloads. Writes nothing; explain.ts and status writers read the same outcomes.

import type { Read } from '../collection/types.js'
import type { Inputs } from '../kube/inputs.js'
import { clusterKey, type Labels, type NamespaceRecord } from '../kube/records.js'
import type { ApplicationTunnel, WeightedWaypoint } from '../wire/messages.js'
import { annotationKeys, labelKeys, labelOf } from './labels.js'
import { isAttachmentAllowed, isTrafficTaken, type Waypoint, type Waypoints } from './waypoints.js'
import { parseBoolean, parseInteger } from '../base/go-values.js'

export type RefusalReason =
  | 'WaypointIsNotReady'
  | 'AttachmentDenied'
  | 'UnsupportedTrafficType'
  | 'CrossNamespaceWaypointForbidden'
  | 'CanarySameAsPrimary'
  | 'CanaryInvalidWeight'

export type WaypointOutcome =
  | { readonly kind: 'none' }
  | { readonly kind: 'bound'; readonly waypoint: Waypoint; readonly inherited: boolean }
  /** `reference` is the `namespace/name` that was asked for. */
  | { readonly kind: 'refused'; readonly reason: RefusalReason; readonly reference: string }

/** What is asked about: an object's labels where they count, and the annotations of services. */
export interface WaypointSubject {
  readonly cluster: string
  readonly namespace: string
  readonly labels: Labels | undefined
  readonly annotations?: Labels | undefined
}

export interface ServiceWaypoint {
  readonly outcome: WaypointOutcome
  /** `weight` is the canary's share in percent. */
  readonly canary: (WaypointOutcome & { readonly kind: 'none' | 'refused' }) | CanaryBound
  readonly ingressUseWaypoint: boolean
}

interface CanaryBound {
  readonly kind: 'bound'
  readonly waypoint: Waypoint
  readonly weight: number
}

export interface WorkloadWaypoint {
  readonly outcome: WaypointOutcome
  /** Set for the pods of a waypoint that says how traffic enters them. */
  readonly applicationTunnel: ApplicationTunnel | undefined
}

export interface WaypointReferences {
  /** `sameNamespaceOnly`: the service is visible in its namespace only, and so must its waypoint be. */
  ofService(read: Read, service: WaypointSubject, sameNamespaceOnly: boolean): ServiceWaypoint
  ofWorkload(read: Read, workload: WaypointSubject): WorkloadWaypoint
}

const none = { kind: 'none' } as const
const noServiceWaypoint: ServiceWaypoint = { outcome: none, canary: none, ingressUseWaypoint: false }
const noWorkloadWaypoint: WorkloadWaypoint = { outcome: none, applicationTunnel: undefined }
const managedBy: readonly (string | undefined)[] = ['istio.io-mesh-controller', 'istio.io-eastwest-controller']

export function createWaypointReferences(inputs: Inputs, waypoints: Waypoints): WaypointReferences {
  const namespaceOf = (read: Read, { cluster, namespace }: WaypointSubject): NamespaceRecord | undefined =>
    read.one(inputs.Namespace, clusterKey(cluster, namespace))

  /** The waypoint of a reference, as far as existence and permission go. */
  const resolve = (read: Read, subject: WaypointSubject, reference: Reference): WaypointOutcome => {
    const text = `${reference.namespace}/${reference.name}`
    const waypoint = waypoints.find(read, subject.cluster, reference.namespace, reference.name)
    if (waypoint === undefined) return { kind: 'refused', reason: 'WaypointIsNotReady', reference: text }
    if (!isAttachmentAllowed(waypoint, subject.namespace, namespaceOf(read, subject)?.labels))
      return { kind: 'refused', reason: 'AttachmentDenied', reference: text }
    return { kind: 'bound', waypoint, inherited: reference.inherited }
  }

  const selectPrimary = (read: Read, subject: WaypointSubject): WaypointOutcome => {
    const own = labelOf(subject.labels, labelKeys.useWaypoint)
    const labels = own === undefined ? namespaceOf(read, subject)?.labels : subject.labels
    const name = own ?? labelOf(labels, labelKeys.useWaypoint)
    if (name === undefined || name === 'none') return none
    const namespace = labelOf(labels, labelKeys.useWaypointNamespace) ?? subject.namespace
    return resolve(read, subject, { namespace, name, inherited: own === undefined })
  }

  const selectCanary = (
    read: Read,
    subject: WaypointSubject,
    primary: WaypointOutcome & { kind: 'bound' },
  ): ServiceWaypoint['canary'] => {
    const ofNamespace = primary.inherited ? namespaceOf(read, subject) : undefined
    const own = labelOf(subject.labels, labelKeys.canary)
    const labels = own === undefined ? ofNamespace?.labels : subject.labels
    const name = labelOf(labels, labelKeys.canary) ?? ''
    if (name === '' || name === 'none') return none
    const namespace = labelOf(labels, labelKeys.canaryNamespace) ?? subject.namespace
    const reference = `${namespace}/${name}`
    if (reference === primary.waypoint.reference) return { kind: 'refused', reason: 'CanarySameAsPrimary', reference }
    const weight = parseWeight(
      labelOf(subject.annotations, annotationKeys.canaryWeight) ??
        labelOf(ofNamespace?.annotations, annotationKeys.canaryWeight),
    )
    if (weight === undefined) return { kind: 'refused', reason: 'CanaryInvalidWeight', reference }
    const outcome = resolve(read, subject, { namespace, name, inherited: primary.inherited })
    if (outcome.kind !== 'bound') return outcome
    if (!isTrafficTaken(outcome.waypoint, 'service'))
      return { kind: 'refused', reason: 'UnsupportedTrafficType', reference }
    return { kind: 'bound', waypoint: outcome.waypoint, weight }
  }

  return {
    ofService(read, service, sameNamespaceOnly) {
      if (managedBy.includes(labelOf(service.labels, labelKeys.managed))) return noServiceWaypoint
      const outcome = selectPrimary(read, service)
      if (outcome.kind === 'none') return noServiceWaypoint
      const refused =
        outcome.kind === 'refused' ? outcome : refuseForService(outcome.waypoint, service, sameNamespaceOnly)
      if (refused !== undefined || outcome.kind === 'refused')
        return { ...noServiceWaypoint, outcome: refused ?? outcome }
      const ingress =
        labelOf(service.labels, labelKeys.ingressUseWaypoint) ??
        labelOf(namespaceOf(read, service)?.labels, labelKeys.ingressUseWaypoint)
      return { outcome, canary: selectCanary(read, service, outcome), ingressUseWaypoint: isTrue(ingress) }
    },
    ofWorkload(read, workload) {
      const gateway = labelOf(workload.labels, labelKeys.gatewayName) ?? ''
      const instanceOf =
        gateway === '' ? undefined : waypoints.find(read, workload.cluster, workload.namespace, gateway)
      if (instanceOf !== undefined) return { outcome: none, applicationTunnel: instanceOf.inbound }
      const outcome = selectPrimary(read, workload)
      if (outcome.kind !== 'bound' || isTrafficTaken(outcome.waypoint, 'workload'))
        return { outcome, applicationTunnel: undefined }
      if (outcome.inherited) return noWorkloadWaypoint
      const { reference } = outcome.waypoint
      return {
        outcome: { kind: 'refused', reason: 'UnsupportedTrafficType', reference },
        applicationTunnel: undefined,
      }
    },
  }
}

interface Reference {
  readonly namespace: string
  readonly name: string
  readonly inherited: boolean
}

function refuseForService(
  waypoint: Waypoint,
  service: WaypointSubject,
  sameNamespaceOnly: boolean,
): (WaypointOutcome & { kind: 'refused' }) | undefined {
  const { reference } = waypoint
  if (!isTrafficTaken(waypoint, 'service')) return { kind: 'refused', reason: 'UnsupportedTrafficType', reference }
  if (sameNamespaceOnly && waypoint.namespace !== service.namespace)
    return { kind: 'refused', reason: 'CrossNamespaceWaypointForbidden', reference }
  return undefined
}

/** Primary and canary with their shares; empty without a canary that is bound, or when one of the two has no usable address. */
export function toWeightedWaypoints({ outcome, canary }: ServiceWaypoint): readonly WeightedWaypoint[] {
  if (outcome.kind !== 'bound' || canary.kind !== 'bound') return []
  const [primary, second] = [outcome.waypoint.address, canary.waypoint.address]
  // A proxy rejects the whole service for the sake of one entry that leads nowhere.
  if (primary === undefined || second === undefined) return []
  return [
    { destination: primary, weight: 100 - canary.weight },
    { destination: second, weight: canary.weight },
  ]
}

/** 0 to 100; absent is 0; undefined when it is no such number. */
function parseWeight(text: string | undefined): number | undefined {
  if (text === undefined) return 0
  try {
    const weight = parseInteger(text)
    return weight >= 0 && weight <= 100 ? weight : undefined
  } catch {
    // Not a number: the caller names the object in a refusal of its own.
    return undefined
  }
}

function isTrue(text: string | undefined): boolean {
  if (text === undefined) return false
  try {
    return parseBoolean(text)
  } catch {
    // What is no boolean is not true; the label still counts as being there.
    return false
  }
}
