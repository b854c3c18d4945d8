// SPDX-License-Identifier: Apache-2.0
// What AuthorizationPolicies are told: whether ztunnel enforces them as written, or which waypoints take them. Each policy is for one of the two and
// hears of the other no more. PeerAuthentications are told nothing.

import type { Domain } from '../address/domain.js'
import { toPolicyOutcome, type PolicyOutcome } from '../address/policy-conversion.js'
import type { Graph, Read } from '../collection/types.js'
import { clusterKey, objectKey, type AuthorizationPolicyRecord, type PolicyTargetRecord } from '../kube/records.js'
import {
  statusWriteOptions,
  toCondition,
  toStatusWrite,
  type Reporter,
  type StatusWrite,
  type StatusWrites,
} from './conditions.js'

const ztunnel: Reporter = {
  kind: 'AuthorizationPolicy',
  manager: 'istio-ambient-ztunnel-policy',
  types: ['ZtunnelAccepted'],
}
const waypoint: Reporter = {
  kind: 'AuthorizationPolicy',
  manager: 'istio-ambient-waypoint-policy',
  types: ['WaypointAccepted'],
}

/** The controller of the classes that waypoints are made of. */
const meshController = 'istio.io/mesh-controller'

interface Verdict {
  readonly status: 'True' | 'False'
  readonly reason: string
  readonly message: string
}

export function createPolicyWrites(graph: Graph, domain: Domain): StatusWrites {
  const { inputs, discovery } = domain
  return graph.derive(
    'status of AuthorizationPolicies',
    inputs.AuthorizationPolicy,
    (policy, read): readonly StatusWrite[] => {
      if (!discovery.isOurRevision(policy.labels) || !discovery.isSeen(read, policy)) return []
      const write = (reporter: Reporter, verdict: Verdict | undefined): StatusWrite | undefined =>
        toStatusWrite(policy, reporter, [verdict && toPolicyCondition(policy, reporter, verdict)])
      const isForWaypoints = policy.targets.length > 0
      const writes = [
        write(ztunnel, isForWaypoints ? undefined : judgeForZtunnel(domain, read, policy)),
        write(waypoint, isForWaypoints ? judgeForWaypoints(domain, read, policy) : undefined),
      ]
      return writes.filter((row) => row !== undefined)
    },
    statusWriteOptions,
  )
}

function toPolicyCondition(policy: AuthorizationPolicyRecord, { types }: Reporter, verdict: Verdict) {
  const condition = toCondition(types[0] ?? '', verdict.status, verdict.reason, verdict.message)
  return { ...condition, observedGeneration: policy.generation }
}

function judgeForZtunnel(domain: Domain, read: Read, policy: AuthorizationPolicyRecord): Verdict {
  const { rootNamespace } = domain.mesh.identity(read)
  const outcome = toPolicyOutcome(policy, { rootNamespace, dryRunPolicies: domain.options.dryRunPolicies })
  if (outcome.kind === 'refused') {
    const message =
      outcome.reason === 'dryRun'
        ? 'not sent: it is only tried out, and AMBIENT_ENABLE_DRY_RUN_AUTHORIZATION_POLICY is off'
        : `not sent: ztunnel knows no action ${policy.action}, only ALLOW and DENY`
    return { status: 'False', reason: 'UnsupportedValue', message }
  }
  if (outcome.unsupported.length > 0)
    return { status: 'True', reason: 'UnsupportedValue', message: formatUnsupported(policy, outcome) }
  return { status: 'True', reason: 'Accepted', message: formatAccepted(outcome) }
}

type Sent = PolicyOutcome & { readonly kind: 'sent' }

function formatUnsupported(policy: AuthorizationPolicyRecord, { unsupported, effective }: Sent): string {
  const start = `ztunnel does not look into requests and cannot judge ${unsupported.join(', ')}`
  if (policy.action !== 'DENY')
    return `${start}: rules that allow by them are left out, so less is allowed than was asked for`
  return effective
    ? `${start}: it denies without looking at them, so more is denied than was asked for`
    : `${start}: no rule is left that can be enforced, so nothing is denied; a policy for a waypoint could`
}

function formatAccepted({ unattached, unreadable, effective, message }: Sent): string {
  if (unattached)
    return 'sent, and without effect: its selector has no labels, so no workload has it; leave the selector out to mean all'
  if (unreadable.length === 0) return 'enforced by ztunnel'
  const values = [...new Set(unreadable.map(({ attribute, value }) => `${attribute} ${JSON.stringify(value)}`))].sort()
  const rest = effective || message.groups.length === 0 ? 'enforced by ztunnel' : 'sent, and without effect'
  return `${rest}; left out because they cannot be read: ${values.join(', ')}`
}

function judgeForWaypoints(domain: Domain, read: Read, policy: AuthorizationPolicyRecord): Verdict {
  const verdicts = policy.targets.map((target) => judgeTarget(domain, read, { policy, target }))
  const [only] = verdicts
  if (only !== undefined && verdicts.length === 1) return only
  const bound = verdicts.filter(({ status }) => status === 'True')
  const message = verdicts.map((verdict) => verdict.message).join('; ')
  if (bound.length === verdicts.length) return { status: 'True', reason: 'Accepted', message }
  return bound.length > 0
    ? { status: 'True', reason: 'PartiallyInvalid', message }
    : { status: 'False', reason: 'Invalid', message }
}

function judgeTarget(
  domain: Domain,
  read: Read,
  { policy, target }: { readonly policy: AuthorizationPolicyRecord; readonly target: PolicyTargetRecord },
): Verdict {
  const { cluster, namespace } = policy
  switch (`${target.group}/${target.kind}`) {
    case 'gateway.networking.k8s.io/GatewayClass':
      return judgeClass(domain, read, { policy, name: target.name })
    case 'gateway.networking.k8s.io/Gateway':
      return domain.waypoints.find(read, cluster, namespace, target.name) === undefined
        ? toNotFound(`no waypoint ${namespace}/${target.name} is ready`)
        : toAccepted(`taken by waypoint ${namespace}/${target.name}`)
    case '/Service':
    case 'networking.istio.io/ServiceEntry':
      return judgeService(domain, read, { policy, target })
    default:
      return toInvalid(
        `no policy can be attached to a ${target.kind}${target.group === '' ? '' : ` of ${target.group}`}`,
      )
  }
}

function judgeClass(
  { inputs, mesh }: Domain,
  read: Read,
  { policy, name }: { readonly policy: AuthorizationPolicyRecord; readonly name: string },
): Verdict {
  const { rootNamespace } = mesh.identity(read)
  if (policy.namespace !== rootNamespace)
    return toInvalid(`only policies of namespace ${rootNamespace} can be attached to GatewayClass ${name}`)
  const found = read.one(inputs.GatewayClass, clusterKey(policy.cluster, name))
  if (found === undefined) return toNotFound(`there is no GatewayClass ${name}`)
  return found.controller === meshController
    ? toAccepted(`taken by every waypoint of GatewayClass ${name}`)
    : toInvalid(`GatewayClass ${name} is not of waypoints; its controller is not ${meshController}`)
}

function judgeService(
  { inputs, references, visibilities }: Domain,
  read: Read,
  { policy, target }: { readonly policy: AuthorizationPolicyRecord; readonly target: PolicyTargetRecord },
): Verdict {
  const { cluster, namespace } = policy
  const { kind, name } = target
  const key = objectKey(cluster, namespace, name)
  const isEntry = kind === 'ServiceEntry'
  const found = isEntry ? read.one(inputs.ServiceEntry, key) : read.one(inputs.Service, key)
  if (found === undefined) return toNotFound(`there is no ${kind} ${namespace}/${name}`)
  const isPrivate = isEntry && visibilities.ofNamespace(read, cluster, namespace) === 'NAMESPACE'
  const { outcome } = references.ofService(read, found, isPrivate)
  if (outcome.kind === 'bound')
    return toAccepted(`taken by waypoint ${outcome.waypoint.reference} for ${kind} ${namespace}/${name}`)
  const message = `${kind} ${namespace}/${name} is bound to no waypoint that could take it`
  return { status: 'False', reason: 'AncestorNotBound', message }
}

function toAccepted(message: string): Verdict {
  return { status: 'True', reason: 'Accepted', message }
}

function toNotFound(message: string): Verdict {
  return { status: 'False', reason: 'TargetNotFound', message }
}

function toInvalid(message: string): Verdict {
  return { status: 'False', reason: 'Invalid', message }
}
