// SPDX-License-Identifier: Apache-2.0
// The tables and the rhythm of their commits: nothing before the first one, which waits for every input; from then on one commit a burst of changes.
// For serve.ts. Opens nothing and reads nothing.

import type { Registry } from 'prom-client'
import { defaultMeshConfig } from '../kube/mesh-config.js'
import { meshKey } from '../address/mesh.js'
import { createAddressStore, type AddressStore } from '../address/store.js'
import type { Clock } from '../base/clock.js'
import { createDebounce } from '../base/debounce.js'
import { formatError } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import { createGraph } from '../collection/graph.js'
import type { Graph } from '../collection/types.js'
import { createInputs, type Inputs } from '../kube/inputs.js'
import { ADDRESS_TYPE } from '../wire/messages.js'
import type { ResourceChange } from '../xds/source.js'
import { observeInputs } from './observed-inputs.js'
import { ServerMetrics } from './server-metrics.js'
import type { Settings } from './settings-table.js'

export interface ServedGraphOptions {
  readonly settings: Settings
  readonly clock: Clock
  readonly log: Logger
  readonly registry: Registry
  readonly version: string
}

export interface ServedGraph {
  readonly graph: Graph
  /** The tables themselves. */
  readonly inputs: Inputs
  /** The same tables for a feed: what it changes is noticed and counted. */
  readonly feedInputs: Inputs
  readonly address: AddressStore
  /** Of the mesh configuration in force. */
  readonly trustDomain: string
  /** Changes wait for their commit. */
  readonly isPending: boolean
  /** Commits so far. */
  readonly commits: number
  /** The first commit; from now on changes commit by themselves. */
  start(): void
  /** Commits what is pending, now. */
  flush(): void
  /** No more commits. */
  stop(): void
}

export function createServedGraph(options: ServedGraphOptions): ServedGraph {
  const { settings, clock, log, registry, version } = options
  const graph = createGraph({
    onFailure: ({ collection, key, error }) =>
      log.warn(
        { table: collection, key, error: formatError(error) },
        'a row could not be derived; its last good state stays',
      ),
  })
  const inputs = createInputs(graph)
  const address = createAddressStore({
    graph,
    inputs,
    options: {
      clusterId: settings.clusterId,
      systemNamespace: settings.systemNamespace,
      revision: settings.revision,
      domain: settings.domain,
      autoAllowWaypointPolicy: settings.autoAllowWaypointPolicy,
      dryRunPolicies: settings.dryRunPolicies,
      serviceEntrySelectsPods: settings.serviceEntrySelectsPods,
      serviceSelectsWorkloadEntries: settings.serviceSelectsWorkloadEntries,
      ipAutoallocate: settings.ipAutoallocate,
    },
    log: log.child({ scope: 'address' }),
  })
  let services = 0
  let isServedChanged = false
  address.store.onCommit((changes) => {
    isServedChanged = true
    services += countServices(changes.get(ADDRESS_TYPE) ?? [])
  })
  const metrics = new ServerMetrics({ registry, clock, version, services: () => services })

  let started = false
  let commits = 0
  const commit = (waitedMs: number): void => {
    const before = clock.monotonic()
    isServedChanged = false
    graph.commit()
    commits++
    metrics.countCommit(waitedMs, clock.monotonic() - before, isServedChanged)
  }
  const debounce = createDebounce({
    clock,
    quietMs: settings.debounceAfterMs,
    maxMs: settings.debounceMaxMs,
    run: commit,
  })
  const touch = (): void => {
    if (started) debounce.touch()
  }
  graph.onDirty(touch)
  return {
    graph,
    inputs,
    feedInputs: observeInputs(inputs, (kind, verb, rows) => {
      metrics.countInput(kind, verb, rows)
      // The graph wakes at the first change of a burst only; quiet is measured from the last.
      if (debounce.pending) touch()
    }),
    address,
    get trustDomain() {
      return address.domain.mesh.rows.get(meshKey)?.trustDomain ?? defaultMeshConfig.trustDomain
    },
    get isPending() {
      return debounce.pending
    },
    get commits() {
      return commits
    },
    start() {
      started = true
      commit(0)
    },
    flush: () => debounce.flush(),
    stop: () => debounce.stop(),
  }
}

/** By how many the number of services grew. A service is named `namespace/hostname`, a workload has more parts. */
function countServices(changes: readonly ResourceChange[]): number {
  let grown = 0
  for (const { name, before, after } of changes) {
    if (name.indexOf('/') !== name.lastIndexOf('/')) continue
    if (before === undefined) grown++
    else if (after === undefined) grown--
  }
  return grown
}
