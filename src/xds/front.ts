// SPDX-License-Identifier: Apache-2.0
// The listener: HTTP/2 in the clear or over TLS. Tells delta streams from other calls, keeps connections alive, bounds what one caller may take, ends connections in good order.
// Opens a port only when told; knows nothing of what streams say.

import { once } from 'node:events'
import * as http2 from 'node:http2'
import type { Http2SecureServer, IncomingHttpHeaders, ServerHttp2Session, ServerHttp2Stream } from 'node:http2'
import type { Server, Socket } from 'node:net'
import type { Caller } from '../base/caller.js'
import type { Clock } from '../base/clock.js'
import { formatError } from '../base/errors.js'
import { listen } from '../base/listen.js'
import type { BoundAddress, ListenAddress } from '../base/listen.js'
import type { Logger } from '../base/log.js'
import type { StreamAccess } from './access.js'
import { toCredentials, toPeer } from './caller.js'
import { Connection } from './connection.js'
import { createTlsServer, isForged, replaceTls } from './front-tls.js'
import type { FrontTls } from './front-tls.js'
import { Http2Stream } from './http2-stream.js'
import type { InnerCalls } from './inner-calls.js'
import type { XdsLimits } from './limits.js'
import type { XdsMetrics } from './metrics.js'
import { awaitProof, refuseCall } from './proof.js'
import type { Session } from './session.js'
import type { Stream } from './session-host.js'

export const DELTA_PATH = '/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources'

const windowBytes = 2 * 1024 * 1024
const connectionWindowBytes = 4 * 1024 * 1024
const CANCELLED = 1
const UNIMPLEMENTED = 12

export interface FrontOptions {
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: XdsMetrics
  readonly limits: XdsLimits
  readonly tls: FrontTls | undefined
  /** Between 0 and 1: spreads ages. */
  readonly random: () => number
  readonly inner: InnerCalls
  /** Absent: nobody is asked who they are. */
  readonly access: StreamAccess | undefined
  /** A delta stream begins. */
  accept(stream: Stream): Session
}

export class Front {
  readonly #options: FrontOptions
  readonly #server: Server
  readonly #secureServer: Http2SecureServer | undefined
  readonly #connections = new Set<Connection>()
  /** By peer: connections whose HTTP/2 settings have not arrived. */
  readonly #greeting = new Map<string, { readonly socket: Socket; done(): void }>()
  readonly #streams = new Set<Http2Stream>()
  /** Counts everything that happens on the wire: unchanged = quiet. */
  #activity = 0
  #draining = false
  /** Calls that wait for the inner server to be loaded, or for the proof of who makes them. */
  #waiting = 0

  constructor(options: FrontOptions) {
    this.#options = options
    const { limits, tls } = options
    const settings = {
      enablePush: false,
      initialWindowSize: windowBytes,
      maxConcurrentStreams: limits.maxStreamsPerConnection,
      maxHeaderListSize: limits.maxHeaderBytes,
    }
    const common = { settings, maxSessionMemory: 64, maxHeaderListPairs: 200 }
    this.#secureServer = tls === undefined ? undefined : createTlsServer(tls, common)
    const server = this.#secureServer ?? http2.createServer(common)
    server.on('connection', (socket: Socket) => this.#greet(socket))
    server.on('session', (session) => this.#open(session))
    server.on('stream', (stream, headers) => this.#call(stream, headers))
    server.on('sessionError', () => undefined) // The connection's 'close' follows.
    server.on('tlsClientError', (error: Error) => {
      options.log.debug({ error: error.message }, 'TLS greeting failed')
    })
    this.#server = server
  }

  listen(address: ListenAddress, flag: string): Promise<BoundAddress> {
    return listen(this.#server, address, flag)
  }

  /**
   * Shows and believes other certificates on connections from now on; open ones live on. Does nothing for a listener in the clear.
   * Throws InvalidInput, and changes nothing, when they cannot be used.
   */
  setTls(tls: FrontTls): void {
    if (this.#secureServer !== undefined) replaceTls(this.#secureServer, tls)
  }

  get activity(): number {
    return this.#activity
  }

  /** Nothing is being written, save what waits for clients that do not read. */
  get flushed(): boolean {
    if (this.#waiting > 0) return false
    for (const stream of this.#streams) if (!stream.flushed) return false
    return true
  }

  get connections(): number {
    return this.#connections.size
  }

  /** Takes no more connections and ends the open ones in good order, one after another over `drainMs`. Resolves when all are gone. */
  async drain(): Promise<void> {
    this.#draining = true
    this.#server.close()
    const { clock, limits } = this.#options
    for (const { socket } of this.#greeting.values()) socket.destroy()
    const connections = [...this.#connections]
    const gone = connections.map((connection) => connection.gone)
    for (const [i, connection] of connections.entries()) {
      if (i === 0) connection.finish('drain')
      else clock.after((i * limits.drainMs) / connections.length, () => connection.finish('drain'))
    }
    await Promise.all(gone)
  }

  /** Cuts everything. */
  async close(): Promise<void> {
    const closed = this.#server.listening ? once(this.#server, 'close') : undefined
    this.#server.close()
    for (const { socket } of this.#greeting.values()) socket.destroy()
    for (const connection of this.#connections) connection.cut()
    await closed
  }

  #greet(socket: Socket): void {
    const { limits, clock, log } = this.#options
    if (this.#draining || this.#greeting.size >= limits.maxHandshakes) {
      log.warn({ peer: toPeer(socket), greeting: this.#greeting.size }, 'connection refused')
      socket.destroy()
      return
    }
    const peer = toPeer(socket)
    const timer = clock.after(limits.handshakeTimeoutMs, () => {
      // Timers go first after a turn that took long: what the caller sent meanwhile is read before it is judged.
      setImmediate(() => {
        if (this.#greeting.get(peer)?.socket === socket) socket.destroy()
      })
    })
    const done = (): void => {
      timer.cancel()
      this.#greeting.delete(peer)
    }
    this.#greeting.set(peer, { socket, done })
    socket.once('close', done)
  }

  #open(session: ServerHttp2Session): void {
    const { clock, limits, random, log, metrics, access } = this.#options
    if (isForged(session)) {
      log.warn({ peer: toPeer(session.socket) }, 'client certificate does not verify; connection refused')
      session.destroy(undefined, http2.constants.NGHTTP2_INADEQUATE_SECURITY)
      return
    }
    const connection = new Connection(session, {
      clock,
      limits,
      random,
      log,
      onSilent: ({ sessions }) => {
        // Pings go unanswered where nobody reads: whichever clock runs out first, it is the same failure.
        for (const served of sessions) if (served.blocked) metrics.writeTimeout()
      },
    })
    this.#connections.add(connection)
    // Those who are still to be proved must not fill memory meanwhile.
    if (access === undefined || session.encrypted !== true) session.setLocalWindowSize(connectionWindowBytes)
    session.once('remoteSettings', () => {
      this.#activity++
      this.#greeting.get(connection.caller.address)?.done()
    })
    void connection.gone.then(() => {
      this.#connections.delete(connection)
      this.#activity++
    })
    byHttp2Session.set(session, connection)
  }

  #call(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    const session = stream.session
    const connection = session === undefined ? undefined : byHttp2Session.get(session)
    if (session === undefined || connection === undefined) return
    this.#activity++
    stream.once('aborted', () => connection.countReset())
    try {
      this.#route(stream, headers, connection)
    } catch (error) {
      this.#options.metrics.internalError()
      this.#options.log.error({ peer: connection.caller.address, error: formatError(error) }, 'call failed')
      if (!stream.destroyed) stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR)
    }
  }

  #route(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, connection: Connection): void {
    const path = headers[':path'] ?? ''
    if (path === DELTA_PATH && headers[':method'] === 'POST') this.#admitDelta(stream, headers, connection)
    else if (this.#options.inner.isOpen) this.#forward(stream, headers, connection)
    else void this.#openInner(stream).then(() => this.#forward(stream, headers, connection))
  }

  async #openInner(stream: ServerHttp2Stream): Promise<void> {
    stream.on('error', () => undefined) // Nothing to answer any more.
    this.#waiting++
    try {
      await this.#options.inner.open()
    } catch (error) {
      this.#options.log.error({ error: formatError(error) }, 'services could not be loaded')
      stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR)
    } finally {
      this.#waiting--
    }
  }

  #admitDelta(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, connection: Connection): void {
    this.#options.metrics.calls.method(DELTA_PATH).started.value++
    const proof = this.#options.access?.authenticate(toCredentials(connection.caller, headers))
    if (proof === undefined) this.#serveDelta(stream, connection, undefined)
    else void this.#proveDelta(stream, connection, proof)
  }

  async #proveDelta(stream: ServerHttp2Stream, connection: Connection, proof: Promise<Caller>): Promise<void> {
    const { clock, log, metrics } = this.#options
    const startedMs = clock.monotonic()
    this.#waiting++
    connection.calls++
    const end = await awaitProof(stream, proof, log, connection.caller.address)
    this.#waiting--
    this.#activity++
    connection.calls--
    if (end.kind === 'proved') {
      connection.trust(connectionWindowBytes)
      this.#serveDelta(stream, connection, end.caller)
      return
    }
    const status = end.kind === 'gone' ? CANCELLED : end.status
    metrics.calls.method(DELTA_PATH).handled(status, (clock.monotonic() - startedMs) / 1000)
  }

  #serveDelta(stream: ServerHttp2Stream, connection: Connection, caller: Caller | undefined): void {
    const { clock, limits, metrics, log } = this.#options
    const calls = metrics.calls.method(DELTA_PATH)
    const startedMs = clock.monotonic()
    const peer = connection.caller.address
    const served: Http2Stream = new Http2Stream(stream, {
      clock,
      peer,
      asker: { secure: connection.caller.secure, caller },
      maxRequestBytes: limits.maxRequestBytes,
      sendTimeoutMs: limits.sendTimeoutMs,
      onReceived: () => {
        this.#activity++
        calls.received.value++
      },
      onSent: () => {
        this.#activity++
        calls.sent.value++
      },
      onStuck: () => {
        metrics.writeTimeout()
        log.warn({ peer, seconds: limits.sendTimeoutMs / 1000 }, 'client stopped reading; stream closed')
        connection.cutIfIdle()
      },
      onClosed: (status) => {
        this.#activity++
        this.#streams.delete(served)
        connection.sessions.delete(session)
        calls.handled(status, (clock.monotonic() - startedMs) / 1000)
      },
    })
    const session = this.#options.accept(served)
    this.#streams.add(served)
    connection.sessions.add(session)
    served.start(session)
  }

  #forward(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, connection: Connection): void {
    const { clock, metrics, inner } = this.#options
    if (stream.destroyed || stream.closed) return
    if (!inner.has(headers[':path'] ?? '')) {
      refuseCall(stream, UNIMPLEMENTED, 'no such method')
      return
    }
    const startedMs = clock.monotonic()
    connection.calls++
    inner.forward(stream, headers, connection.caller, (status) => {
      this.#activity++
      connection.calls--
      const calls = metrics.calls.method(String(headers[':path']))
      calls.started.value++
      calls.handled(status, (clock.monotonic() - startedMs) / 1000)
    })
  }
}

const byHttp2Session = new WeakMap<object, Connection>()
