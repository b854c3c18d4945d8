// SPDX-License-Identifier: Apache-2.0
// The domain as its users see it: resources by type for xds, explanations for people. Made once by main over a graph and its inputs;
// computes nothing itself and holds nothing but what the tables hold.

import type { Logger } from '../base/log.js'
import type { Change, Collection, Graph } from '../collection/types.js'
import type { Inputs } from '../kube/inputs.js'
import { ADDRESS_TYPE, AUTHORIZATION_TYPE, WORKLOAD_TYPE } from '../wire/messages.js'
import type { Resource, ResourceChange, ResourceSource, ResourceStore } from '../xds/source.js'
import { createAuthorizationSource } from './authorizations.js'
import { createDomain, type Domain } from './domain.js'
import { createExplainer, peek, type Explanation } from './explain.js'
import { createPolicyExplainer, type PolicyExplanation } from './explain-policy.js'
import { AddressSource } from './lookup.js'
import type { AddressOptions } from './options.js'
import { WorkloadSource } from './workload-type.js'

export interface AddressStore {
  readonly store: ResourceStore
  /** Where a resource comes from and why it is as it is; undefined when nobody has that name. As of the last commit. */
  explain(name: string): Explanation | undefined
  /** The same for a policy, `namespace/name`, also for one that no proxy is told of. */
  explainPolicy(name: string): PolicyExplanation | undefined
  /** The tables behind it, for whoever derives more from them. */
  readonly domain: Domain
}

export interface AddressStoreParts {
  readonly graph: Graph
  readonly inputs: Inputs
  readonly options: AddressOptions
  readonly log: Logger
}

type Listener = (changes: ReadonlyMap<string, readonly ResourceChange[]>) => void

/** Adds the tables of the domain to the graph. Nothing is published before its first commit. */
export function createAddressStore({ graph, inputs, options, log }: AddressStoreParts): AddressStore {
  const domain = createDomain(graph, inputs, options)
  const { pods, workloads, services } = domain.resources
  const addresses = new AddressSource(domain.resources)
  const legacy = new WorkloadSource(addresses)
  const authorizations = createAuthorizationSource(domain.authorizations)
  const sources = new Map<string, ResourceSource>([
    [ADDRESS_TYPE, addresses],
    [WORKLOAD_TYPE, legacy],
    [AUTHORIZATION_TYPE, authorizations],
  ])
  const listeners: Listener[] = []
  graph.onCommit(domain.doubts, (changes) => {
    for (const { now } of changes)
      if (now !== undefined)
        log.warn({ policy: now.policy, why: now.why.join('; ') }, 'a policy does other than it says at ztunnel')
  })
  const takeAddresses = followChanges(graph, [pods, ...workloads, services])
  const takePolicies = followChanges(graph, [domain.authorizations])
  // One telling for all types: what names a policy and the policy itself change together.
  graph.afterCommit(() => {
    const changed = takeAddresses()
    const byType = new Map<string, readonly ResourceChange[]>([
      [AUTHORIZATION_TYPE, takePolicies()],
      [ADDRESS_TYPE, changed],
      [WORKLOAD_TYPE, legacy.toChanges(changed)],
    ])
    for (const [typeUrl, changes] of byType) if (changes.length === 0) byType.delete(typeUrl)
    if (byType.size === 0) return
    const counts = { addresses: changed.length, policies: byType.get(AUTHORIZATION_TYPE)?.length ?? 0 }
    log.debug({ ...counts, resources: addresses.size + authorizations.size }, 'resources changed')
    for (const listener of listeners) listener(byType)
  })
  return {
    store: {
      source: (typeUrl) => sources.get(typeUrl),
      onCommit: (listener) => {
        listeners.push(listener)
      },
    },
    explain: createExplainer(domain, addresses),
    explainPolicy: createPolicyExplainer(domain, peek),
    domain,
  }
}

/** Gathers the changes of these tables over a commit; gives them once. */
function followChanges(graph: Graph, tables: readonly Collection<Resource>[]): () => readonly ResourceChange[] {
  let pending: ResourceChange[] = []
  const gather = (changes: readonly Change<Resource>[]): void => {
    for (const { old: before, now: after } of changes) {
      const name = (after ?? before)?.name
      if (name !== undefined) pending.push({ name, before, after })
    }
  }
  for (const table of tables) graph.onCommit(table, gather)
  return () => {
    const changes = pending
    if (changes.length > 0) pending = []
    return changes
  }
}
