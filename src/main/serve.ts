// SPDX-License-Identifier: Apache-2.0
// Puts the parts of addressd together and starts them in order: pages, inputs, first commit, gRPC, ready. Also usable inside a test:
// time, log, API server and every limit come from outside, and port 0 is any free one. Reads neither the environment nor the command line.

import { setMaxListeners } from 'node:events'
import { Registry } from 'prom-client'
import type { Clock } from '../base/clock.js'
import { Fatal, formatError } from '../base/errors.js'
import type { BoundAddress } from '../base/listen.js'
import type { Logger } from '../base/log.js'
import type { KubeApi } from '../kube/api.js'
import type { XdsLimits } from '../xds/limits.js'
import { createXdsServer, type XdsServer } from '../xds/server.js'
import { createServerAuthentication } from './authentication.js'
import { Certificates } from './certificates.js'
import { createWriters } from './controllers.js'
import { createServerDebugTypes } from './debug-types.js'
import { createFeed, type ChosenFeed } from './feeds.js'
import type { Health } from './inner-services.js'
import { readVersion } from './program.js'
import { openSecurePort } from './secure-port.js'
import { ServerPages } from './server-pages.js'
import type { ServerParts } from './server-parts.js'
import { createServedGraph } from './served-graph.js'
import type { Settings } from './settings-table.js'

export interface ServerOptions {
  readonly settings: Settings
  readonly clock: Clock
  readonly log: Logger
  /** Default: one of its own. */
  readonly registry?: Registry
  /** Read from this API server, whatever the settings say. */
  readonly api?: KubeApi
  /** Limits of streams that differ from what the settings say. */
  readonly limits?: Partial<XdsLimits>
  /** 0 up to 1; default Math.random. */
  readonly random?: () => number
  /** Aborted = stop(). */
  readonly signal?: AbortSignal
}

/** What is bound now; undefined while, or because, a listener is off. */
export interface BoundListeners {
  readonly grpc: BoundAddress | undefined
  readonly secureGrpc: BoundAddress | undefined
  readonly http: BoundAddress | undefined
  readonly monitoring: BoundAddress | undefined
}

export interface RunningServer {
  readonly bound: BoundListeners
  /** What /ready says. Once true it stays so until the drain. */
  ready(): boolean
  /** Resolves when ready; rejects with Fatal when that will never be. */
  readonly started: Promise<void>
  /** Resolves after stop(); rejects with Fatal when the server cannot go on (it has stopped by then). */
  readonly ended: Promise<void>
  /** Lets go of clients one by one; cuts what is left after the shutdown duration, or at once when `now` aborts. Still to be followed by stop(). */
  drain(now?: AbortSignal): Promise<void>
  /** Stops everything at once. Idempotent. */
  stop(): Promise<void>
  /** Work in hand, for tests that wait for rest: all zero or false, and `activity` unchanged over some turns of the event loop. */
  work(): ServerWork
  readonly parts: ServerParts
}

export interface ServerWork {
  /** Kinds that were not read yet. */
  readonly unread: number
  /** Changes wait for their commit. */
  readonly uncommitted: boolean
  /** Messages wait to be looked at, or bytes to leave. A client that does not read keeps it so. */
  readonly unsent: boolean
  /** Counts what happened: commits and everything on the wire. */
  readonly activity: number
}

/** Resolves once the pages answer and the reading has begun. Rejects with Fatal when an address or the credentials cannot be had. */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const registry = options.registry ?? new Registry()
  const { settings, clock, log } = options
  const version = readVersion()
  const served = createServedGraph({ settings, clock, log, registry, version })
  const chosen = await createFeed({ settings, inputs: served.feedInputs, clock, log, registry, api: options.api })
  const { api } = chosen
  const random = options.random ?? Math.random
  const trustDomain = (): string => served.trustDomain
  const trustDomains = (): readonly [string] => [trustDomain()]
  const authentication = createServerAuthentication({ settings, clock, log, api, trustDomains })
  const xds: XdsServer = createXdsServer({
    store: served.address.store,
    clock,
    log: log.child({ scope: 'xds' }),
    registry,
    limits: { ...toLimits(settings), ...options.limits },
    access: authentication,
    debugTypes: createServerDebugTypes({ served, settings, authentication, version, xds: () => xds }),
    random,
  })
  const shared = { settings, served, api, clock, log, registry, random }
  const isLeader = (): boolean => writers?.isLeader() ?? false
  const certificates = await Certificates.create({ ...shared, authentication, trustDomain, isLeader })
  const writers = createWriters({ ...shared, tasks: certificates.leaderTasks })
  certificates.addTo(xds)
  const parts = { served, xds, feed: chosen.feed, registry, writers, authentication, certificates }
  const server = new AddressServer(options, parts, chosen, version)
  try {
    await server.openPages()
  } catch (error) {
    await server.stop()
    throw error
  }
  server.run()
  return server
}

function toLimits(settings: Settings): Partial<XdsLimits> {
  const age = settings.maxConnectionAgeMs
  return {
    maxRequestBytes: settings.maxReceiveBytes,
    maxStreamsPerConnection: settings.maxStreams,
    maxNames: settings.maxNames,
    sharedBytes: settings.sharedBytes,
    sendTimeoutMs: settings.sendTimeoutMs,
    keepaliveMs: settings.keepaliveIntervalMs,
    keepaliveTimeoutMs: settings.keepaliveTimeoutMs,
    // Node's timers hold 24 days; whoever asks for more means never.
    maxConnectionAgeMs: age > 0x3fff_ffff ? 0 : age,
    drainMs: settings.shutdownDurationMs / 2,
  }
}

/** After so much of a drain, calls that are no delta streams are ended. */
const othersGraceMs = 1_000

class AddressServer implements RunningServer {
  readonly started: Promise<void>
  readonly ended: Promise<void>
  readonly parts: ServerParts
  readonly #options: ServerOptions
  readonly #chosen: ChosenFeed
  readonly #version: string
  /** Undefined until somebody first asks. */
  #health: Health | undefined
  readonly #pages: ServerPages
  readonly #reading = new AbortController()
  /** Aborted: nothing more is written back, and another replica may. */
  readonly #writing = new AbortController()
  #writingEnded: Promise<void> = Promise.resolve()
  #bound: BoundListeners = { grpc: undefined, secureGrpc: undefined, http: undefined, monitoring: undefined }
  #phase: 'starting' | 'ready' | 'draining' | 'stopped' = 'starting'
  #isCommitted = false
  #readingEnded: Promise<void> = Promise.resolve()
  #stopping: Promise<void> | undefined
  #settleStarted: { resolve: () => void; reject: (error: Error) => void } | undefined
  #settleEnded: { resolve: () => void; reject: (error: Error) => void } | undefined

  constructor(options: ServerOptions, parts: ServerParts, chosen: ChosenFeed, version: string) {
    this.#options = options
    this.parts = parts
    // Every request under way listens, and there may be dozens.
    setMaxListeners(0, this.#reading.signal, this.#writing.signal)
    this.#chosen = chosen
    this.#version = version
    this.started = new Promise((resolve, reject) => (this.#settleStarted = { resolve, reject }))
    this.ended = new Promise((resolve, reject) => (this.#settleEnded = { resolve, reject }))
    // Whoever does not ask how it went has not asked for a crash either.
    this.started.catch(() => undefined)
    this.ended.catch(() => undefined)
    const { clock, log } = options
    const { served, xds } = parts
    xds.addInner(async (server) => {
      // Only callers other than proxies need any of it.
      const { addInnerServices } = await import('./inner-services.js')
      this.#health = addInnerServices(server, {
        store: served.address.store,
        explainer: served.address,
        clients: () => xds.clients(),
        clock,
        log: log.child({ scope: 'inspect' }),
      })
      this.#health.setServing(this.ready())
    })
    this.#pages = new ServerPages({ settings: options.settings, parts, log, version, pending: () => this.#pending() })
    options.signal?.addEventListener('abort', () => void this.stop(), { once: true })
  }

  get bound(): BoundListeners {
    return this.#bound
  }

  ready(): boolean {
    return this.#phase === 'ready'
  }

  work(): ServerWork {
    const { served, xds, feed } = this.parts
    return {
      unread: feed.pending().length,
      uncommitted: served.isPending,
      unsent: xds.busy(),
      activity: served.commits + xds.activity(),
    }
  }

  async openPages(): Promise<void> {
    const { settings } = this.#options
    const http = await this.#pages.open('--httpAddr', settings.httpAddr, settings.debugOnHttp)
    const monitoring = await this.#pages.open('--monitoringAddr', settings.monitoringAddr, true)
    this.#bound = { grpc: undefined, secureGrpc: undefined, http, monitoring }
  }

  /** Reads, commits, opens the gRPC port and is ready; then goes on reading. */
  run(): void {
    const { clock, log, settings } = this.#options
    const beganMs = clock.monotonic()
    this.#readingEnded = this.parts.feed.run(this.#reading.signal).catch((error: unknown) => this.#fail(error))
    const start = async (): Promise<void> => {
      await this.parts.feed.synced
      if (!this.#isStarting()) return
      this.parts.served.start()
      this.#isCommitted = true
      await this.#openGrpc()
      // Whoever stopped in the meantime did not know of this listener yet.
      if (!this.#isStarting()) {
        await this.parts.xds.close()
        return
      }
      this.#phase = 'ready'
      this.#health?.setServing(true)
      log.info(
        {
          seconds: (clock.monotonic() - beganMs) / 1000,
          version: this.#version,
          cluster: settings.clusterId,
          ...this.bound,
        },
        'ready',
      )
      this.#settleStarted?.resolve()
      this.#writingEnded = this.#write().catch((error: unknown) => this.#fail(error))
    }
    start().catch((error: unknown) => this.#fail(error))
  }

  async drain(now?: AbortSignal): Promise<void> {
    if (this.#phase === 'stopped') return
    this.#phase = 'draining'
    this.#health?.setServing(false)
    this.#writing.abort(new Error('the server drains'))
    const { clock, log, settings } = this.#options
    const { xds } = this.parts
    await new Promise<void>((resolve) => {
      const timer = clock.after(settings.shutdownDurationMs, () => {
        log.warn({ clients: xds.clients().length }, 'some clients did not go in time and are cut')
        finish()
      })
      // Calls of people and tools may last for ever (watch); what is brief is done by then.
      const others = clock.after(othersGraceMs, () => xds.inner.forceShutdown())
      const finish = (): void => {
        timer.cancel()
        others.cancel()
        now?.removeEventListener('abort', finish)
        resolve()
      }
      now?.addEventListener('abort', finish, { once: true })
      if (now?.aborted === true) finish()
      else
        xds.drain().then(finish, (error: unknown) => {
          log.warn({ error: formatError(error) }, 'drain failed')
          finish()
        })
    })
    await Promise.all([xds.close(), this.#writingEnded])
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#stop().then(() => this.#settleEnded?.resolve())
    return this.#stopping
  }

  async #stop(): Promise<void> {
    this.#phase = 'stopped'
    this.#settleStarted?.reject(new Fatal('stopped before it was ready'))
    const { served, xds } = this.parts
    served.stop()
    this.#writing.abort(new Error('the server stops'))
    this.#reading.abort(new Error('the server stops'))
    await Promise.all([xds.close(), this.#readingEnded, this.#writingEnded, this.#pages.close()])
    this.#chosen.close()
  }

  /** Writes back what has to be, as long as this replica leads. Gives the lead back when told to finish, not when told to stop. */
  async #write(): Promise<void> {
    await this.parts.writers?.run(this.#writing.signal, this.#reading.signal)
  }

  #fail(error: unknown): void {
    if (this.#phase === 'stopped') return
    const fatal = error instanceof Fatal ? error : new Fatal(`unexpected failure: ${formatError(error)}`, error)
    this.#settleStarted?.reject(fatal)
    this.#stopping ??= this.#stop().then(() => this.#settleEnded?.reject(fatal))
  }

  #isStarting(): boolean {
    return this.#phase === 'starting'
  }

  #pending(): readonly string[] {
    if (this.#phase === 'ready') return []
    if (this.#phase !== 'starting') return ['stopping']
    const unread = this.parts.feed.pending()
    if (unread.length > 0) return unread.map((kind) => `read ${kind}`)
    return [this.#isCommitted ? 'certificates and listeners' : 'first commit']
  }

  async #openGrpc(): Promise<void> {
    const { grpcAddr } = this.#options.settings
    await this.#openSecureGrpc()
    if (grpcAddr === undefined) return
    const { host, port } = await this.parts.xds.listen({ ...grpcAddr, flag: '--grpcAddr' })
    this.#bound = { ...this.#bound, grpc: { host, port } }
  }

  async #openSecureGrpc(): Promise<void> {
    const { settings, log } = this.#options
    const secureGrpc = await openSecurePort({ settings, log, parts: this.parts, signal: this.#reading.signal })
    this.#bound = { ...this.#bound, secureGrpc }
  }
}
