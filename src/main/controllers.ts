// SPDX-License-Identifier: Apache-2.0
// What this replica writes back if it leads: the settings as options of the controllers. Over an API server only; over files there is nothing to
// write to. Starts nothing.

import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import type { Registry } from 'prom-client'
import type { Clock } from '../base/clock.js'
import type { Logger } from '../base/log.js'
import { createControllers, type Controllers, type LeaderTask } from '../control/controllers.js'
import type { KubeApi } from '../kube/api.js'
import type { ServedGraph } from './served-graph.js'
import type { Settings } from './settings-table.js'

export interface WriterOptions {
  readonly settings: Settings
  readonly served: ServedGraph
  /** Undefined: objects are read from files. */
  readonly api: KubeApi | undefined
  readonly clock: Clock
  readonly log: Logger
  readonly registry: Registry
  readonly random?: () => number
  /** Other work of the leader. */
  readonly tasks?: readonly LeaderTask[]
}

/** To be called before the first commit. */
export function createWriters(options: WriterOptions): Controllers | undefined {
  const { settings, served, api, clock, log, registry, random, tasks } = options
  if (api === undefined) return undefined
  const { revision, systemNamespace, podName, cniNamespace } = settings
  return createControllers({
    graph: served.graph,
    domain: served.address.domain,
    api,
    clock,
    log,
    registry,
    lease: {
      namespace: systemNamespace,
      // Each revision has objects of its own to write to.
      name: revision === '' || revision === 'default' ? 'addressd-leader' : `addressd-leader-${revision}`,
      identity: `${podName === '' ? hostname() : podName}_${randomUUID()}`,
    },
    conditions: settings.enableStatus,
    allocation: settings.ipAutoallocate
      ? { ipv4Prefix: settings.autoallocateIpv4Prefix, ipv6Prefix: settings.autoallocateIpv6Prefix }
      : undefined,
    untaint: settings.enableUntaint
      ? { taint: settings.untaintName, namespace: cniNamespace === '' ? systemNamespace : cniNamespace }
      : undefined,
    ...(tasks === undefined ? {} : { tasks }),
    ...(random === undefined ? {} : { random }),
  })
}
