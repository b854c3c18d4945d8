// SPDX-License-Identifier: Apache-2.0
// What Services, ServiceEntries and WorkloadEntries are told of their waypoints, and ServiceEntries of who sees them. Type, status and reason are an
// interface; the sentences are for people. Pods are told nothing, and neither is an object that publishes nothing.

import type { Domain } from '../address/domain.js'
import { annotationKeys, labelKeys, labelOf } from '../address/labels.js'
import { formatServiceHostname, formatServiceName } from '../address/names.js'
import type { RefusalReason, ServiceWaypoint, WaypointOutcome } from '../address/waypoint-reference.js'
import { mergeLabels } from '../address/workload-entries.js'
import type { Graph, Read } from '../collection/types.js'
import {
  clusterKey,
  type ConditionRecord,
  type ServiceEntryRecord,
  type ServiceRecord,
  type WorkloadEntryRecord,
} from '../kube/records.js'
import { resourceTypes } from '../kube/resources.js'
import { statusWriteOptions, toCondition, toStatusWrite, type Reporter, type StatusWrites } from './conditions.js'

const boundType = 'istio.io/WaypointBound'
const missingType = 'istio.io/WaypointMissing'
const visibleType = 'istio.io/VisibilityApplied'

function toReporter(kind: 'Service' | 'ServiceEntry' | 'WorkloadEntry', manager: Reporter['manager']): Reporter {
  return { kind, manager, types: resourceTypes[kind].conditions }
}

const ofService = toReporter('Service', 'istio-ambient-service')
const ofServiceEntry = toReporter('ServiceEntry', 'istio-ambient-service')
const ofWorkloadEntry = toReporter('WorkloadEntry', 'istio-ambient-workloadentry')

export function createServiceWrites(graph: Graph, domain: Domain): StatusWrites {
  const { inputs, hostnames, options, references } = domain
  return graph.derive(
    'status of Services',
    inputs.Service,
    (service, read) => {
      const { cluster, namespace, name } = service
      const hostname = formatServiceHostname(name, namespace, options.domain)
      const published = hostnames.find(read, cluster, formatServiceName(namespace, hostname))
      if (published?.source !== 'Service' || published.object !== name) return undefined
      const waypoint = references.ofService(read, service, false)
      return toStatusWrite(service, ofService, [toServiceBound(waypoint, isIngressSaid(domain, read, service))])
    },
    statusWriteOptions,
  )
}

export function createServiceEntryWrites(graph: Graph, domain: Domain): StatusWrites {
  const { inputs, hostnames, references, visibilities } = domain
  return graph.derive(
    'status of ServiceEntries',
    inputs.ServiceEntry,
    (entry, read) => {
      const { cluster, namespace, name } = entry
      const published = hostnames.ofEntry(read, cluster, namespace, name)
      if (published.length === 0) return undefined
      const visibility = visibilities.ofNamespace(read, cluster, namespace)
      const isPrivate = visibility === 'NAMESPACE'
      const waypoint = references.ofService(read, entry, isPrivate)
      const hosts = published.map((host) => host.name.slice(namespace.length + 1))
      return toStatusWrite(entry, ofServiceEntry, [
        toServiceBound(waypoint, isIngressSaid(domain, read, entry)),
        waypoint.outcome.kind === 'bound' ? undefined : toMissing(entry, hosts),
        visibility === undefined ? undefined : toVisible(isPrivate),
      ])
    },
    statusWriteOptions,
  )
}

export function createWorkloadEntryWrites(graph: Graph, domain: Domain): StatusWrites {
  const { inputs, discovery, references } = domain
  return graph.derive(
    'status of WorkloadEntries',
    inputs.WorkloadEntry,
    (entry, read) => {
      if (!discovery.isOurRevision(entry.labels) || !discovery.isSeen(read, entry)) return undefined
      return toStatusWrite(entry, ofWorkloadEntry, [
        toWorkloadBound(references.ofWorkload(read, toSubject(entry)).outcome),
      ])
    },
    statusWriteOptions,
  )
}

function toSubject(entry: WorkloadEntryRecord) {
  const { cluster, namespace } = entry
  return { cluster, namespace, labels: mergeLabels(entry) }
}

/** Does a label say whether ingress traffic goes through the waypoint, whatever it says? */
function isIngressSaid(domain: Domain, read: Read, of: ServiceRecord | ServiceEntryRecord): boolean {
  if (labelOf(of.labels, labelKeys.ingressUseWaypoint) !== undefined) return true
  const ofNamespace = read.one(domain.inputs.Namespace, clusterKey(of.cluster, of.namespace))
  return labelOf(ofNamespace?.labels, labelKeys.ingressUseWaypoint) !== undefined
}

const refusals: Readonly<Record<RefusalReason, string>> = {
  WaypointIsNotReady: 'it does not exist or has no address yet',
  AttachmentDenied: 'its allowedRoutes do not let this namespace attach',
  UnsupportedTrafficType: `it does not take this kind of traffic; its label ${labelKeys.waypointFor} says which it takes`,
  CrossNamespaceWaypointForbidden: 'it is in another namespace, and this service is visible in its own alone',
  CanarySameAsPrimary: 'it is the primary waypoint itself',
  CanaryInvalidWeight: `annotation ${annotationKeys.canaryWeight} is no whole number from 0 to 100`,
}

function toRefused({ reason, reference }: WaypointOutcome & { kind: 'refused' }): ConditionRecord {
  return toCondition(boundType, 'False', reason, `waypoint ${reference} is not used: ${refusals[reason]}`)
}

function toWorkloadBound(outcome: WaypointOutcome): ConditionRecord | undefined {
  if (outcome.kind === 'none') return undefined
  if (outcome.kind === 'refused') return toRefused(outcome)
  return toCondition(
    boundType,
    'True',
    'WaypointAccepted',
    `traffic goes through waypoint ${outcome.waypoint.reference}`,
  )
}

function toServiceBound(waypoint: ServiceWaypoint, isIngressMentioned: boolean): ConditionRecord | undefined {
  const { outcome, canary, ingressUseWaypoint } = waypoint
  const bare = toWorkloadBound(outcome)
  if (bare === undefined || outcome.kind !== 'bound') return bare
  const parts = [bare.message]
  if (isIngressMentioned) parts.push(`ingress traffic ${ingressUseWaypoint ? 'does so too' : 'goes past it'}`)
  if (canary.kind === 'refused')
    parts.push(`canary waypoint ${canary.reference} is not attached: ${refusals[canary.reason]}`)
  return { ...bare, message: parts.join('; ') }
}

/** Why an entry without a bound waypoint needs one; undefined when it does not. */
function toMissing(entry: ServiceEntryRecord, hosts: readonly string[]): ConditionRecord | undefined {
  const strategy = labelOf(entry.annotations, 'istio.io/connect-strategy')
  if (strategy?.toUpperCase() === 'RACE_FIRST_TCP_CONNECT') {
    const message = 'connections are raced by waypoints alone, and none is bound'
    return toCondition(missingType, 'True', 'NoWaypointForRacingConnectStrategy', message)
  }
  const wildcards = hosts.filter((host) => host.startsWith('*')).sort()
  if (wildcards.length === 0) return undefined
  const message = `a waypoint has to tell which host of ${wildcards.join(', ')} is meant, and none is bound`
  return toCondition(missingType, 'True', 'NoWaypointForWildcardService', message)
}

function toVisible(isPrivate: boolean): ConditionRecord {
  return isPrivate
    ? toCondition(visibleType, 'True', 'Namespace', 'the mesh configuration shows it to its own namespace alone')
    : toCondition(visibleType, 'True', 'Public', 'the mesh configuration shows it to every namespace')
}
