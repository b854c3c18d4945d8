// SPDX-License-Identifier: Apache-2.0
// Policies as resources: what AuthorizationPolicies, PeerAuthentications and waypoints come to for proxies of connections. One row a policy, filed under its
// name. Whatever a workload lists is here in the same commit: both ask policies.ts and peer-authentication.ts the same questions.

import type { Collection, Graph } from '../collection/types.js'
import type { Inputs } from '../kube/inputs.js'
import { AUTHORIZATION_TYPE } from '../wire/messages.js'
import type { Resource, ResourceSource } from '../xds/source.js'
import { isSameRow } from './equal.js'
import type { ImplicitPolicies } from './implicit-policies.js'
import type { Mesh } from './mesh.js'
import type { AddressOptions } from './options.js'
import { isParentStrict, toConvertedMessage, toStaticStrictMessage } from './peer-authentication.js'
import { toPolicyOutcome } from './policy-conversion.js'
import { formatDoubts, formatRefusal } from './policy-sentences.js'
import type { Policies } from './policies.js'
import { isSameResource, toPolicyResource } from './resource.js'

interface Reads {
  readonly mesh: Mesh
  readonly options: AddressOptions
  readonly policies: Policies
  readonly implicit: ImplicitPolicies
}

export function createAuthorizations(graph: Graph, inputs: Inputs, reads: Reads): Collection<Resource> {
  const { mesh, options, policies, implicit } = reads
  const byName = { key: (resource: Resource): string => resource.name, equal: isSameResource }
  const written = graph.derive(
    'authorization policies',
    inputs.AuthorizationPolicy,
    (policy, read): Resource | undefined => {
      if (!policies.isSeen(read, policy)) return undefined
      const { rootNamespace } = mesh.identity(read)
      const outcome = toPolicyOutcome(policy, { rootNamespace, dryRunPolicies: options.dryRunPolicies })
      return outcome.kind === 'sent' ? toPolicyResource(outcome.message) : undefined
    },
    byName,
  )
  const converted = graph.derive(
    'converted peer authentications',
    policies.peers,
    (peer, read): Resource | undefined => {
      const { cluster, namespace } = peer
      const parents = policies.peersFor(read, { cluster, namespace, labels: undefined })
      const message = toConvertedMessage(peer, isParentStrict(parents), mesh.identity(read).rootNamespace)
      return message && toPolicyResource(message)
    },
    byName,
  )
  // Whoever is strict lists it, and only a PeerAuthentication makes anybody strict.
  const anyPeer = graph.distinct('any peer authentication', policies.peers, () => ['any', 'any'])
  const staticStrict = graph.derive(
    'static policies',
    anyPeer,
    (_, read) => toPolicyResource(toStaticStrictMessage(mesh.identity(read).rootNamespace)),
    byName,
  )
  const made = implicit.resources === undefined ? [] : [implicit.resources]
  return graph.union('authorizations', written, converted, staticStrict, ...made)
}

/** A policy that does other than it says. */
export interface DoubtfulPolicy {
  /** `namespace/name`. */
  readonly policy: string
  readonly why: readonly string[]
}

/** Policies that do other than they say at proxies of connections, for the log: nothing must fail open in silence. Those for waypoints are none of them. */
export function createDoubts(graph: Graph, inputs: Inputs, reads: Omit<Reads, 'implicit'>): Collection<DoubtfulPolicy> {
  const { mesh, options, policies } = reads
  return graph.derive(
    'doubtful policies',
    inputs.AuthorizationPolicy,
    (policy, read): DoubtfulPolicy | undefined => {
      if (!policies.isSeen(read, policy)) return undefined
      const { rootNamespace } = mesh.identity(read)
      const outcome = toPolicyOutcome(policy, { rootNamespace, dryRunPolicies: options.dryRunPolicies })
      if (outcome.kind === 'refused' && outcome.reason === 'targeted') return undefined
      const why = outcome.kind === 'refused' ? [formatRefusal(outcome.reason, policy)] : formatDoubts(outcome, policy)
      return why.length === 0 ? undefined : { policy: `${policy.namespace}/${policy.name}`, why }
    },
    { key: (row) => row.policy, equal: isSameRow },
  )
}

/** Policies by name; they have no other keys, no members and no node. */
export function createAuthorizationSource(rows: Collection<Resource>): ResourceSource {
  const nothing: readonly Resource[] = Object.freeze([])
  return {
    typeUrl: AUTHORIZATION_TYPE,
    get size() {
      return rows.size
    },
    get: (name) => rows.get(name),
    all: () => rows.values(),
    lookup(key) {
      const found = rows.get(key)
      return found === undefined ? nothing : [found]
    },
    members: () => nothing,
    local: () => nothing,
  }
}
