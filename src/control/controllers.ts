// SPDX-License-Identifier: Apache-2.0
// Everything that is written back, under one leadership: conditions, allocated addresses, taints, and what the caller adds. For main, which makes it over
// an API server and never over files. Derives its own tables; nothing that is served waits for any of it.

import { setMaxListeners } from 'node:events'
import { Counter, Gauge, type Registry } from 'prom-client'
import type { Domain } from '../address/domain.js'
import type { Clock } from '../base/clock.js'
import type { Logger } from '../base/log.js'
import type { Collection, Graph } from '../collection/types.js'
import type { KubeApi } from '../kube/api.js'
import { createAddressClaims } from './address-claims.js'
import { createConditionWriter } from './condition-writer.js'
import { IpAllocation } from './ip-allocation.js'
import { Election } from './lease.js'
import { ObjectApi } from './object-api.js'
import { createPolicyWrites } from './policy-conditions.js'
import { createReadyTaintedNodes, createUntainter, type UntaintOptions } from './untaint.js'
import { createServiceEntryWrites, createServiceWrites, createWorkloadEntryWrites } from './waypoint-conditions.js'
import { WorkQueue, type WorkOutcome } from './work-queue.js'

/** Work of the leader: runs until the signal aborts. When it fails, leadership is given up and somebody else tries. */
export interface LeaderTask {
  readonly name: string
  run(signal: AbortSignal): Promise<void>
}

export interface ControllerOptions {
  readonly graph: Graph
  /** The inputs are among its tables. */
  readonly domain: Domain
  readonly api: KubeApi
  readonly clock: Clock
  readonly log: Logger
  readonly registry: Registry
  readonly lease: {
    readonly namespace: string
    readonly name: string
    /** Different for every process that ever ran. */
    readonly identity: string
  }
  /** Write conditions. */
  readonly conditions: boolean
  /** Allocate addresses out of these; undefined: do not. */
  readonly allocation: { readonly ipv4Prefix: string; readonly ipv6Prefix: string } | undefined
  /** Take taints from nodes; undefined: do not. */
  readonly untaint: UntaintOptions | undefined
  /** Other work of the leader. */
  readonly tasks?: readonly LeaderTask[]
  /** 0 up to 1, for jitter; default Math.random. */
  readonly random?: () => number
}

export interface Controllers {
  /**
   * Contends for leadership and works while it leads, until `signal` aborts; then the lease is given back, unless `now` aborts. To be called once the
   * first commit was made. Without anything to do it resolves at once.
   */
  run(signal: AbortSignal, now: AbortSignal): Promise<void>
  isLeader(): boolean
}

/** Adds its tables to the graph; asks the API server for nothing before run(). */
export function createControllers(options: ControllerOptions): Controllers {
  const { api, clock, registry, random = Math.random } = options
  const log = options.log.child({ scope: 'control' })
  const objects = new ObjectApi(api, clock)
  const parts: Parts = { ...options, log, objects, random, count: createWriteCounter(registry) }
  const tasks = [
    ...(options.conditions ? [createConditionTask(parts)] : []),
    ...(options.allocation === undefined ? [] : [createAllocationTask(parts, options.allocation)]),
    ...(options.untaint === undefined ? [] : [createUntaintTask(parts, options.untaint)]),
    ...(options.tasks ?? []),
  ]
  const election = new Election({
    objects,
    clock,
    log,
    random,
    ...options.lease,
    lead: (signal) => runAll(tasks, signal),
  })
  countLeader(registry, () => election.isLeader())
  return {
    run: (signal, now) => (tasks.length === 0 ? Promise.resolve() : election.run(signal, now)),
    isLeader: () => election.isLeader(),
  }
}

type CountOutcome = (kind: string, outcome: WorkOutcome | 'failed' | 'dropped') => void

interface Parts extends Pick<ControllerOptions, 'graph' | 'domain' | 'clock' | 'log'> {
  readonly objects: ObjectApi
  readonly random: () => number
  readonly count: CountOutcome
}

/** All of them, until the signal aborts or one fails, which ends the others. */
async function runAll(tasks: readonly LeaderTask[], signal: AbortSignal): Promise<void> {
  const together = new AbortController()
  // Every request under way listens, and there may be dozens.
  setMaxListeners(0, together.signal)
  const onAbort = (): void => together.abort(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  if (signal.aborted) onAbort()
  const running = tasks.map(async (task) => {
    try {
      await task.run(together.signal)
    } catch (error) {
      together.abort(error)
      throw error
    }
  })
  try {
    await Promise.all(running)
  } finally {
    await Promise.allSettled(running)
    signal.removeEventListener('abort', onAbort)
  }
}

function createQueue(parts: Parts, kind: string, perform: (key: string, signal: AbortSignal) => Promise<WorkOutcome>) {
  const { clock, log, random, count } = parts
  return new WorkQueue({ clock, log, kind, perform, random, onOutcome: (outcome) => count(kind, outcome) })
}

/** Queues every row that comes or changes, and all there are when the work begins. */
function followRows(graph: Graph, rows: Collection<unknown>, queue: WorkQueue): (signal: AbortSignal) => Promise<void> {
  graph.onCommit(rows, (changes) => {
    for (const { key, now } of changes) if (now !== undefined) queue.add(key)
  })
  return (signal) =>
    queue.run(signal, () => {
      for (const key of rows.keys()) queue.add(key)
    })
}

function createConditionTask(parts: Parts): LeaderTask {
  const { graph, domain, clock, objects } = parts
  const writes = graph.union(
    'status to write',
    createServiceWrites(graph, domain),
    createServiceEntryWrites(graph, domain),
    createWorkloadEntryWrites(graph, domain),
    createPolicyWrites(graph, domain),
  )
  const queue = createQueue(parts, 'conditions', createConditionWriter({ objects, writes, clock }))
  return { name: 'conditions', run: followRows(graph, writes, queue) }
}

function createAllocationTask(
  parts: Parts,
  prefixes: { readonly ipv4Prefix: string; readonly ipv6Prefix: string },
): LeaderTask {
  const { graph, domain, log, objects } = parts
  const claims = createAddressClaims(graph, domain)
  const allocation = new IpAllocation({ objects, claims, cluster: domain.options.clusterId, log, ...prefixes })
  const queue = createQueue(parts, 'addresses', (key, signal) => allocation.perform(key, signal))
  graph.onCommit(claims.rows, (changes) => {
    for (const { now } of changes) if (now !== undefined) allocation.notice(now)
    for (const { now } of changes) if (now !== undefined) allocation.look(now, queue)
  })
  return { name: 'addresses', run: (signal) => queue.run(signal, () => allocation.start(queue)) }
}

function createUntaintTask(parts: Parts, options: UntaintOptions): LeaderTask {
  const { graph, domain, objects } = parts
  const nodes = createReadyTaintedNodes(graph, domain.inputs, options)
  const queue = createQueue(parts, 'taints', createUntainter(objects, nodes, options))
  return { name: 'taints', run: followRows(graph, nodes, queue) }
}

function createWriteCounter(registry: Registry): CountOutcome {
  const name = 'addressd_writes_total'
  const known = registry.getSingleMetric(name)
  const counter =
    known instanceof Counter
      ? known
      : new Counter({
          name,
          help: 'Looks of the leader at an object that may have to be written, by what came of it.',
          labelNames: ['kind', 'outcome'],
          registers: [registry],
        })
  return (kind, outcome) => counter.inc({ kind, outcome })
}

function countLeader(registry: Registry, isLeader: () => boolean): void {
  new Gauge({
    name: 'addressd_leader',
    help: '1 while this replica is the one that writes back.',
    registers: [registry],
    collect() {
      this.set(isLeader() ? 1 : 0)
    },
  })
}
