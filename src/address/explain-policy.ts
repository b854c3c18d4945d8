// SPDX-License-Identifier: Apache-2.0
// Where a policy comes from and what becomes of it, for people; also of one that no proxy is told of. Asks the tables when somebody wants to know.

import type { Read } from '../collection/types.js'
import { objectKey, type AuthorizationPolicyRecord } from '../kube/records.js'
import type { Domain } from './domain.js'
import { parseImplicitName } from './implicit-policies.js'
import { formatStaticStrictName, isParentStrict, parseConvertedName, toPortRules } from './peer-authentication.js'
import { toPolicyOutcome } from './policy-conversion.js'
import { formatDoubts, formatRefusal } from './policy-sentences.js'

export interface PolicyExplanation {
  readonly namespace: string
  readonly name: string
  readonly action: string
  /** As on the wire. */
  readonly scope: 'GLOBAL' | 'NAMESPACE' | 'WORKLOAD_SELECTOR'
  /** Proxies are told of it. */
  readonly isSent: boolean
  /** Sentences, one a line. */
  readonly why: readonly string[]
}

type PolicyExplainer = (name: string) => PolicyExplanation | undefined

/** Of `namespace/name`; undefined when there is no such policy. */
export function createPolicyExplainer(domain: Domain, read: Read): PolicyExplainer {
  const cluster = domain.options.clusterId
  return (key) => {
    const slash = key.indexOf('/')
    const namespace = key.slice(0, Math.max(slash, 0))
    const name = key.slice(slash + 1)
    const written = domain.inputs.AuthorizationPolicy.get(objectKey(cluster, namespace, name))
    if (written !== undefined) return explainWritten(domain, read, written)
    if (domain.authorizations.get(key) === undefined) return undefined
    const made = { namespace, name, scope: 'WORKLOAD_SELECTOR', isSent: true } as const
    if (key === formatStaticStrictName(domain.mesh.identity(read).rootNamespace))
      return {
        ...made,
        action: 'DENY',
        why: [
          'turns away peers without identity; there while any PeerAuthentication is',
          'listed by workloads that are STRICT',
        ],
      }
    const waypoint = parseImplicitName(namespace, name)
    if (waypoint !== undefined)
      return {
        ...made,
        action: 'ALLOW',
        why: [`lets in waypoint ${namespace}/${waypoint}, under the accounts of its pods`],
      }
    return { ...made, action: 'DENY', why: explainConverted(domain, read, namespace, parseConvertedName(name) ?? name) }
  }
}

function explainWritten(domain: Domain, read: Read, policy: AuthorizationPolicyRecord): PolicyExplanation {
  const { namespace, name, action } = policy
  const { rootNamespace } = domain.mesh.identity(read)
  const scope = policy.hasSelector ? 'WORKLOAD_SELECTOR' : namespace === rootNamespace ? 'GLOBAL' : 'NAMESPACE'
  const about = { namespace, name, action, scope } as const
  const from = `from AuthorizationPolicy ${namespace}/${name}`
  if (!domain.policies.isSeen(read, policy))
    return { ...about, isSent: false, why: [from, 'not sent: another revision, or a namespace that is not seen'] }
  const outcome = toPolicyOutcome(policy, { rootNamespace, dryRunPolicies: domain.options.dryRunPolicies })
  if (outcome.kind === 'refused') return { ...about, isSent: false, why: [from, formatRefusal(outcome.reason, policy)] }
  const trial = outcome.message.dryRun ? ['only tried out: what it would do is logged and not done'] : []
  const bare = (policy.rules ?? []).length > 0 ? [] : [formatBare(action)]
  return { ...about, isSent: true, why: [from, ...trial, ...bare, ...formatDoubts(outcome, policy)] }
}

function formatBare(action: string): string {
  return action === 'DENY' ? 'it has no rules: it denies nothing' : 'it has no rules: it lets nobody in'
}

function explainConverted(domain: Domain, read: Read, namespace: string, name: string): readonly string[] {
  const cluster = domain.options.clusterId
  const from = `from the ports of PeerAuthentication ${namespace}/${name}`
  const peer = domain.policies.peers.get(objectKey(cluster, namespace, name))
  const parents = domain.policies.peersFor(read, { cluster, namespace, labels: undefined })
  const rules = peer && toPortRules(peer, isParentStrict(parents))
  if (rules === undefined) return [from]
  const ports = rules.ports.join(', ')
  return [
    from,
    rules.kind === 'exempt'
      ? `turns away peers without identity on every port but ${ports}`
      : `turns away peers without identity on port ${ports}`,
  ]
}
