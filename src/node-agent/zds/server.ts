// SPDX-License-Identifier: Apache-2.0
// The agent's side towards all ztunnels of the node: adds go to the newest, removals to all, and when the newest is lost the one before it is told what
// it missed. A ztunnel that fails costs its own connection and nobody else's time. Never sends a snapshot that it is not sure of.

import { Retryable, formatError } from '../../base/errors.js'
import type { Clock } from '../../base/clock.js'
import type { Logger } from '../../base/log.js'
import type { Registry } from 'prom-client'
import type { Netns } from '../netns/netns.js'
import type { PodIdentity, SelectZdsPods, ZdsPod, Ztunnels } from '../contracts.js'
import { ZdsConnection } from './connection.js'
import type { ConnectionOwner, ConversationLimits, EndReason } from './connection.js'
import { ZdsListener } from './listener.js'
import type { AcceptLimits } from './listener.js'
import { encodeAdd, encodeDel } from './messages.js'
import { ZdsMetrics } from './metrics.js'
import { formatIdentity } from './processes.js'
import type { Processes } from './processes.js'
import { ProcessMemory } from './process-memory.js'
import { RecordSocket } from './record-socket.js'
import { closeDescriptor, readPeer } from './seqpacket.js'

export interface ZdsLimits extends ConversationLimits, AcceptLimits {}

export const zdsLimits: ZdsLimits = {
  helloTimeoutMs: 5000,
  sendTimeoutMs: 5000,
  ackTimeoutMs: 5000,
  queued: 1000,
  acceptsPerSecond: 5,
  acceptBurst: 2,
}

export interface ZdsServerOptions {
  /** Where the socket is made; its folder too when it is missing. */
  readonly path: string
  readonly select: SelectZdsPods
  readonly processes: Processes
  readonly clock: Clock
  readonly log: Logger
  readonly registry: Registry
  /** The only user whose processes may connect. Default 0. */
  readonly allowedUid?: number
  readonly limits?: Partial<ZdsLimits>
  /** A ztunnel has acknowledged the end of its snapshot: what waited for one can be tried again. */
  readonly onReady?: () => void
  /** Closes the server. */
  readonly signal?: AbortSignal
}

export interface ZdsServer extends Ztunnels {
  /** Makes the socket; ztunnels may connect and wait. Throws Fatal. */
  listen(): void
  /** Begins to accept. To be called once `select` tells the whole truth. */
  open(): void
  /** Ends all conversations and removes the socket. What waits is rejected with Retryable. Idempotent. */
  close(): void
}

export function createZdsServer(options: ZdsServerOptions): ZdsServer {
  return new Server(options)
}

class Server implements ZdsServer, ConnectionOwner {
  readonly #options: ZdsServerOptions
  readonly #limits: ZdsLimits
  readonly #metrics: ZdsMetrics
  readonly #listener: ZdsListener
  readonly #memory: ProcessMemory
  /** All of them, also those that have not said hello. */
  readonly #open = new Set<ZdsConnection>()
  /** Those that said hello, in the order in which they were accepted. */
  #greeted: readonly ZdsConnection[] = []
  /** How often each uid is being removed just now: it is in no snapshot then, whatever `select` says. */
  readonly #leaving = new Map<string, number>()
  #accepted = 0
  readonly #order = new WeakMap<ZdsConnection, number>()

  constructor(options: ZdsServerOptions) {
    const { path, clock, log, registry, processes, signal } = options
    this.#options = options
    this.#limits = { ...zdsLimits, ...options.limits }
    this.#metrics = new ZdsMetrics(registry)
    this.#memory = new ProcessMemory(processes)
    this.#listener = new ZdsListener({ path, clock, log, limits: this.#limits, onAccept: (fd) => this.#accept(fd) })
    signal?.addEventListener('abort', () => this.close(), { once: true })
  }

  get connected(): number {
    return this.#greeted.length
  }

  get ready(): number {
    return this.#greeted.filter(({ state }) => state === 'serving').length
  }

  listen(): void {
    this.#listener.listen()
  }

  open(): void {
    this.#listener.open()
  }

  close(): void {
    this.#listener.close()
    for (const connection of [...this.#open]) connection.end('closed', 'the agent stops')
  }

  async add(pod: PodIdentity, netns: Netns, signal?: AbortSignal): Promise<void> {
    const record = encodeAdd(pod)
    const target = this.#target()
    if (target === undefined) {
      throw new Retryable(`no ztunnel is connected that could take pod ${pod.namespace}/${pod.name}`)
    }
    await target.add(pod, record, netns, signal)
  }

  async remove(uid: string, signal?: AbortSignal): Promise<void> {
    const record = encodeDel(uid)
    this.#leaving.set(uid, (this.#leaving.get(uid) ?? 0) + 1)
    try {
      const told = await Promise.allSettled(this.#greeted.map((connection) => connection.remove(uid, record, signal)))
      const failed = told.find((outcome) => outcome.status === 'rejected')
      if (failed !== undefined) throw failed.reason
    } finally {
      const left = (this.#leaving.get(uid) ?? 1) - 1
      if (left === 0) this.#leaving.delete(uid)
      else this.#leaving.set(uid, left)
    }
  }

  held(): ReadonlyMap<string, Netns | undefined> {
    // One that is just taking its snapshot has yet to say what it holds, and may never do so.
    const told = this.#greeted.findLast(({ isSuspect, state }) => !isSuspect && state === 'serving') ?? this.#target()
    return told?.holdings.list() ?? new Map<string, Netns | undefined>()
  }

  select(): readonly ZdsPod[] {
    return this.#options.select().filter(({ pod }) => !this.#leaving.has(pod.uid))
  }

  onHello(connection: ZdsConnection): void {
    this.#dropStale()
    this.#memory.recall(connection)
    const at = (c: ZdsConnection): number => this.#order.get(c) ?? 0
    this.#greeted = [...this.#greeted, connection].sort((a, b) => at(a) - at(b))
    this.#metrics.connected.set(this.#greeted.length)
  }

  onSnapshotSent(connection: ZdsConnection): void {
    const isNewTarget = connection.isSuspect
    connection.isSuspect = false
    this.#memory.clear(connection)
    // While it was passed over, adds went to another one.
    if (isNewTarget && this.#target() === connection) connection.catchUp()
    this.#options.onReady?.()
  }

  onEnd(connection: ZdsConnection, reason: EndReason): void {
    const wasTarget = this.#target() === connection
    this.#open.delete(connection)
    this.#greeted = this.#greeted.filter((other) => other !== connection)
    this.#metrics.connected.set(this.#greeted.length)
    this.#memory.keep(connection, reason === 'timeout' || reason === 'protocol')
    if (wasTarget) this.#target()?.catchUp()
  }

  /** The newest that said hello; one whose process failed before only when there is no other. */
  #target(): ZdsConnection | undefined {
    return this.#greeted.findLast(({ isSuspect }) => !isSuspect) ?? this.#greeted.at(-1)
  }

  #accept(fd: number): void {
    const { processes, clock, allowedUid = 0 } = this.#options
    const number = ++this.#accepted
    try {
      const peer = readPeer(fd)
      if (peer.uid !== allowedUid) {
        this.#metrics.countClosed('user')
        this.#options.log.warn({ pid: peer.pid, uid: peer.uid, allowedUid }, 'refused a connection of another user')
        closeDescriptor(fd)
        return
      }
      const identity = processes.identify(fd)
      const log = this.#options.log.child({ connection: number, pid: identity?.pid ?? peer.pid })
      const socket = new RecordSocket(fd)
      const limits = this.#limits
      const connection = new ZdsConnection({
        socket,
        identity,
        owner: this,
        limits,
        clock,
        log,
        metrics: this.#metrics,
      })
      this.#open.add(connection)
      this.#order.set(connection, number)
      void connection.run()
    } catch (error) {
      this.#options.log.error({ error: formatError(error) }, 'cannot look who connected')
      closeDescriptor(fd)
    }
  }

  /** A process that is gone cannot answer, though some child of it may still have its socket. */
  #dropStale(): void {
    for (const connection of this.#greeted) {
      const { identity } = connection
      if (identity === undefined || this.#options.processes.isRunning(identity)) continue
      connection.end('stale', `process ${formatIdentity(identity)} is gone`)
    }
  }
}
