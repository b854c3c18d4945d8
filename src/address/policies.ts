// SPDX-License-Identifier: Apache-2.0
// Names of the policies that a workload lists: AuthorizationPolicies that select it, then what PeerAuthentications come to.
// Only selectors matter here; what a policy says is policy-conversion.ts, and authorizations.ts makes resources of the same policies by the same questions.

import type { Collection, Graph, Read } from '../collection/types.js'
import type { Inputs } from '../kube/inputs.js'
import { objectKey, type AuthorizationPolicyRecord, type Labels } from '../kube/records.js'
import type { Discovery } from './discovery.js'
import { isSameRow } from './equal.js'
import type { Mesh } from './mesh.js'
import type { AddressOptions } from './options.js'
import { selectPeerWinners, toPeerPolicyNames, type PeerPolicy, type PeerWinners } from './peer-authentication.js'
import { selectRefusal } from './policy-conversion.js'
import { isSubset } from '../kube/selectors.js'

/** Whose policies: the labels are those that selectors see. */
export interface PolicySubject {
  readonly cluster: string
  readonly namespace: string
  /** Undefined: there are none at all, which is not the same as an empty set. */
  readonly labels: Labels | undefined
}

/** One that is seen. */
export interface SeenPeer extends PeerPolicy {
  readonly cluster: string
}

export interface Policies {
  /** Every PeerAuthentication that is seen, whether it counts for anybody or not. */
  readonly peers: Collection<SeenPeer>
  /** False: another revision's, or in a namespace that is not seen. */
  isSeen(read: Read, policy: AuthorizationPolicyRecord): boolean
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

export function createPolicies(
  graph: Graph,
  inputs: Inputs,
  visible: { readonly discovery: Discovery; readonly mesh: Mesh; readonly options: AddressOptions },
): Policies {
  const { discovery, mesh, options } = visible
  const isSeen = (read: Read, policy: Pick<AuthorizationPolicyRecord, 'cluster' | 'namespace' | 'labels'>): boolean =>
    discovery.isOurRevision(policy.labels) && discovery.isSeen(read, policy)
  const selecting = graph.derive(
    'selecting policies',
    inputs.AuthorizationPolicy,
    (policy, read): Selecting | undefined => {
      const { cluster, namespace, name, selector } = policy
      if (selector === undefined || selectRefusal(policy, options.dryRunPolicies) !== undefined) return undefined
      return isSeen(read, policy) ? { cluster, namespace, name, selector } : undefined
    },
    { key: ({ cluster, namespace, name }) => objectKey(cluster, namespace, name), equal: isSameRow },
  )
  const peers = graph.derive(
    'peer authentications',
    inputs.PeerAuthentication,
    (peer, read): SeenPeer | undefined => {
      if (!isSeen(read, peer)) return undefined
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
    peers,
    isSeen,
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
