// SPDX-License-Identifier: Apache-2.0
// The discovery server: takes commits of a store to every stream that they concern. For composition roots and tests; the only file here that joins the parts.
// Knows neither Kubernetes nor what resources say.

import { randomBytes } from 'node:crypto'
import type * as grpc from '@grpc/grpc-js'
import type { Registry } from 'prom-client'
import type { Clock } from '../base/clock.js'
import type { Logger } from '../base/log.js'
import type { StreamAccess } from './access.js'
import type { ClientView } from './client-view.js'
import type { DebugTypes } from './debug-types.js'
import { Frames, FrameStore } from './frames.js'
import { Front } from './front.js'
import type { FrontTls } from './front-tls.js'
import { InnerCalls } from './inner-calls.js'
import type { AddServices } from './inner-calls.js'
import { xdsLimits } from './limits.js'
import type { XdsLimits } from './limits.js'
import { XdsMetrics } from './metrics.js'
import type { ClientNode } from './node-id.js'
import { Session } from './session.js'
import type { ServedSession, SessionHost } from './session-host.js'
import { StateOfTheWorld } from './sotw.js'
import type { Resource, ResourceChange, ResourceStore } from './source.js'
import { Topic } from './topic.js'
import type { Pusher } from './topic.js'

export interface XdsServerOptions {
  readonly store: ResourceStore
  readonly clock: Clock
  readonly log: Logger
  readonly registry: Registry
  /** What differs from xdsLimits. */
  readonly limits?: Partial<XdsLimits>
  readonly debugTypes?: DebugTypes
  /** Who may open streams. Absent: everybody, and nobody is asked who they are. */
  readonly access?: StreamAccess
  /** Between 0 and 1: spreads the ages of connections. */
  readonly random?: () => number
}

export interface XdsListenOptions {
  /** Undefined = every address of the machine. */
  readonly host?: string | undefined
  /** 0 = any free port. */
  readonly port: number
  /** Absent: in the clear. Replaced later by the listener's setTls. */
  readonly tls?: FrontTls
  /** The setting that chose the address, for messages. */
  readonly flag?: string
}

/** A port that is listened on. */
export interface XdsListener {
  readonly host: string
  readonly port: number
  /** Another certificate for connections from now on, see Front.setTls. */
  setTls(tls: FrontTls): void
}

export interface XdsServer {
  /** For health, reflection and whatever else shares the port. Loaded when first looked at. */
  readonly inner: grpc.Server
  /** Adds services to the inner server when somebody first calls something other than a delta stream. */
  addInner(services: AddServices): void
  listen(options: XdsListenOptions): Promise<XdsListener>
  /** Those who said who they are, in the order in which they came. */
  clients(): ClientView[]
  /** By type: what this client holds, as far as the server knows; undefined when it is not connected. */
  held(connectionId: string): ReadonlyMap<string, readonly Resource[]> | undefined
  /** True while a message waits to be looked at or written bytes wait to leave. A client that does not read keeps it true. */
  busy(): boolean
  /** Counts what happens on the wire: unchanged over some turns of the event loop = quiet. */
  activity(): number
  /** Takes no more connections, ends the open ones in good order, spread over `drainMs`. Resolves when all are gone. */
  drain(): Promise<void>
  /** Cuts everything. */
  close(): Promise<void>
}

/** A server of the store's resources; listens to nothing yet. */
export function createXdsServer(options: XdsServerOptions): XdsServer {
  return new Server(options)
}

class Server implements XdsServer, SessionHost {
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: XdsMetrics
  readonly debugTypes: DebugTypes | undefined
  readonly access: StreamAccess | undefined
  readonly maxNames: number
  readonly #limits: XdsLimits
  readonly #store: ResourceStore
  readonly #random: () => number
  readonly #frames: FrameStore
  readonly #topics = new Map<string, Topic>()
  readonly #sessions = new Map<string, { readonly session: ServedSession; readonly version: string }>()
  readonly #fronts: Front[] = []
  readonly #innerCalls: InnerCalls
  readonly #sotw: StateOfTheWorld
  #connectionCount = 0
  #commitCount = 0

  constructor(options: XdsServerOptions) {
    this.#limits = { ...xdsLimits, ...options.limits }
    this.#store = options.store
    this.#random = options.random ?? Math.random
    this.clock = options.clock
    this.log = options.log
    this.metrics = new XdsMetrics(options.registry)
    this.debugTypes = options.debugTypes
    this.access = options.access
    this.maxNames = this.#limits.maxNames
    this.#frames = new FrameStore(this.clock, randomBytes(4).toString('hex'), this.#limits.sharedBytes)
    this.#innerCalls = new InnerCalls({
      'grpc.max_receive_message_length': this.#limits.maxRequestBytes,
      'grpc.max_send_message_length': -1,
    })
    this.#sotw = new StateOfTheWorld({
      store: this.#store,
      clock: this.clock,
      log: this.log,
      debugTypes: this.debugTypes,
      access: this.access,
      opened: (node) => this.#toConnectionId(node),
      nonce: () => this.#frames.nonce(),
    })
    this.#innerCalls.add((server) => this.#sotw.addTo(server))
    this.#stamp()
    this.#store.onCommit((changes) => this.#commit(changes))
  }

  get inner(): grpc.Server {
    return this.#innerCalls.server
  }

  addInner(services: AddServices): void {
    this.#innerCalls.add(services)
  }

  async listen(options: XdsListenOptions): Promise<XdsListener> {
    const front = new Front({
      clock: this.clock,
      log: this.log,
      metrics: this.metrics,
      limits: this.#limits,
      tls: options.tls,
      random: this.#random,
      inner: this.#innerCalls,
      access: this.access,
      accept: (stream) => new Session(stream, this),
    })
    const bound = await front.listen({ host: options.host, port: options.port }, options.flag ?? 'grpcAddr')
    this.#fronts.push(front)
    this.log.info({ host: bound.host, port: bound.port, tls: options.tls !== undefined }, 'discovery listens')
    return { host: bound.host, port: bound.port, setTls: (tls) => front.setTls(tls) }
  }

  topic(typeUrl: string): Topic {
    const known = this.#topics.get(typeUrl)
    if (known !== undefined) return known
    const source = this.#store.source(typeUrl)
    const made = new Topic(typeUrl, source, (topic) => new Frames(this.#frames, topic, this.metrics.type(typeUrl)))
    // Clients invent types without end: only those that exist are kept.
    if (source !== undefined) this.#topics.set(typeUrl, made)
    return made
  }

  opened(session: ServedSession, node: ClientNode): string {
    const connectionId = this.#toConnectionId(node)
    this.#sessions.set(connectionId, { session, version: node.version })
    this.metrics.connected(node.version, 1)
    this.log.info({ connection: connectionId, node: node.id, kubernetesNode: node.nodeName }, 'client connected')
    return connectionId
  }

  closed(session: ServedSession): void {
    const known = this.#sessions.get(session.connectionId)
    if (known === undefined) return
    this.#sessions.delete(session.connectionId)
    this.metrics.connected(known.version, -1)
    this.log.info({ connection: session.connectionId }, 'client gone')
  }

  #toConnectionId(node: ClientNode): string {
    this.#connectionCount++
    return `${node.proxy}-${this.#connectionCount}`
  }

  #stamp(): void {
    this.#frames.systemVersion = `${new Date(this.clock.now()).toISOString()}/${this.#commitCount}`
  }

  /** Everything that is due is written in this turn of the event loop, so that each connection's writes leave together. */
  #commit(changes: ReadonlyMap<string, readonly ResourceChange[]>): void {
    const started = this.clock.monotonic()
    this.#commitCount++
    this.#stamp()
    const pushers = new Set<Pusher>()
    const told: Record<string, number> = {}
    for (const [typeUrl, list] of changes) {
      const topic = this.#topics.get(typeUrl)
      if (topic === undefined) continue
      told[typeUrl] = list.length
      for (const subscriber of topic.commit(list)) pushers.add(subscriber.owner)
    }
    let done = 0
    for (const pusher of pushers) if (pusher.push()) done++
    for (const topic of this.#topics.values()) topic.trim()
    this.#sotw.commit(changes)
    if (pushers.size === 0) return
    const seconds = (this.clock.monotonic() - started) / 1000
    this.metrics.queue.observe(0, done)
    this.metrics.convergence.observe(seconds, done)
    for (const typeUrl of Object.keys(told)) this.metrics.type(typeUrl).pushTime.observe(seconds / pushers.size, done)
    this.log.info(
      { commit: this.#commitCount, changes: told, clients: pushers.size, waiting: pushers.size - done },
      'pushed',
    )
  }

  clients(): ClientView[] {
    const views: ClientView[] = []
    for (const { session } of this.#sessions.values()) {
      const view = session.view()
      if (view !== undefined) views.push(view)
    }
    return [...views, ...this.#sotw.clients()]
  }

  held(connectionId: string): ReadonlyMap<string, readonly Resource[]> | undefined {
    return this.#sessions.get(connectionId)?.session.held()
  }

  busy(): boolean {
    for (const { session } of this.#sessions.values()) if (!session.idle) return true
    return this.#fronts.some((front) => !front.flushed)
  }

  activity(): number {
    let sum = this.#commitCount
    for (const front of this.#fronts) sum += front.activity
    return sum
  }

  async drain(): Promise<void> {
    this.log.info({ clients: this.#sessions.size }, 'discovery drains')
    await Promise.all(this.#fronts.map((front) => front.drain()))
  }

  async close(): Promise<void> {
    await Promise.all(this.#fronts.map((front) => front.close()))
    this.#innerCalls.close()
  }
}
