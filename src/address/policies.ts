// SPDX-License-Identifier: Apache-2.0
// Names of the policies that a workload lists: AuthorizationPolicies that select it, then what PeerAuthentications come to.
// Only selectors matter here; what a policy says is for whoever converts it.

import { parseBoolean } from '../base/go-values.js'
import type { Graph, Read } from '../collection/types.js'
import type { Inputs } from '../kube/inputs.js'
import { objectKey, type AuthorizationPolicyRecord, type Labels } from '../kube/records.js'
import type { Discovery } from './discovery.js'
import { isSameRow } from './equal.js'
import { annotationKeys, labelOf } from './labels.js'
import type { Mesh } from './mesh.js'
import type { AddressOptions } from './options.js'
import { selectPeerWinners, toPeerPolicyNames, type PeerPolicy, type PeerWinners } from './peer-authentication.js'
import { isSubset } from './selectors.js'

/** Whose policies: the labels are those that selectors see. */
export interface PolicySubject {
  readonly cluster: string
  readonly namespace: string
  /** Undefined: there are none at all, which is not the same as an empty set. */
  readonly labels: Labels | undefined
}

export interface Policies {
  /** In the order in which a workload lists them, implicit ones aside. */
  namesFor(read: Read, subject: PolicySubject): readonly string[]
  /** The PeerAuthentications that count for it. */
  peersFor(read: Read, subject: PolicySubject): PeerWinners
}

interface Selecting {
  readonly cluster: string
  readonly namespace: string
  readonly name: string
  readonly selector: Labels
}

interface PeerRow extends PeerPolicy {
  readonly cluster: string
}

export function createPolicies(
  graph: Graph,
  inputs: Inputs,
  visible: { readonly discovery: Discovery; readonly mesh: Mesh; readonly options: AddressOptions },
): Policies {
  const { discovery, mesh, options } = visible
  const selecting = graph.derive(
    'selecting policies',
    inputs.AuthorizationPolicy,
    (policy, read): Selecting | undefined => {
      if (!discovery.isOurRevision(policy.labels) || !discovery.isSeen(read, policy)) return undefined
      const { cluster, namespace, name, selector } = policy
      return selector !== undefined && isEnforceable(policy, options.dryRunPolicies)
        ? { cluster, namespace, name, selector }
        : undefined
    },
    { key: ({ cluster, namespace, name }) => objectKey(cluster, namespace, name), equal: isSameRow },
  )
  const peers = graph.derive(
    'peer authentications',
    inputs.PeerAuthentication,
    (peer, read): PeerRow | undefined => {
      if (!discovery.isOurRevision(peer.labels) || !discovery.isSeen(read, peer)) return undefined
      const { cluster, namespace, name, created, selector, mode, portModes } = peer
      return { cluster, namespace, name, created, selector, mode, portModes }
    },
    { key: ({ cluster, namespace, name }) => objectKey(cluster, namespace, name), equal: isSameRow },
  )
  const selectingIn = selecting.index('namespace', (row) => [`${row.cluster}/${row.namespace}`])
  const peersIn = peers.index('namespace', (row) => [`${row.cluster}/${row.namespace}`])

  const scopes = ({ cluster, namespace }: PolicySubject, root: string): readonly string[] =>
    namespace === root ? [`${cluster}/${namespace}`] : [`${cluster}/${namespace}`, `${cluster}/${root}`]

  const peersFor = (read: Read, subject: PolicySubject, root: string): PeerWinners =>
    selectPeerWinners(
      scopes(subject, root).flatMap((scope) => read.many(peersIn, scope)),
      subject,
      root,
    )

  return {
    namesFor(read, subject) {
      const root = mesh.identity(read).rootNamespace
      const names = scopes(subject, root)
        .flatMap((scope) => read.many(selectingIn, scope))
        // Without any labels every selector fits: a policy that was meant for somebody closes rather than opens.
        .filter(({ selector }) => subject.labels === undefined || isSubset(selector, subject.labels))
        .map(({ namespace, name }) => `${namespace}/${name}`)
        .sort()
      return [...names, ...toPeerPolicyNames(peersFor(read, subject, root), root)]
    },
    peersFor: (read, subject) => peersFor(read, subject, mesh.identity(read).rootNamespace),
  }
}

/** Would the policy be converted for workloads at all? */
export function isEnforceable(policy: AuthorizationPolicyRecord, dryRunPolicies: boolean): boolean {
  const isServed = policy.action === 'ALLOW' || policy.action === 'DENY'
  return isServed && !policy.targeted && (dryRunPolicies || !isDryRun(policy))
}

function isDryRun(policy: AuthorizationPolicyRecord): boolean {
  const text = labelOf(policy.annotations, annotationKeys.dryRun)
  if (text === undefined) return false
  try {
    return parseBoolean(text)
  } catch {
    // What is no boolean is not true.
    return false
  }
}
