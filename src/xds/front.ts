// SPDX-License-Identifier: Apache-2.0
// The listener: HTTP/2 in the clear or over TLS. Tells delta streams from other calls, keeps connections alive, bounds what one caller may take, ends connections in good order.
// Opens a port only when told; knows nothing of what streams say.

import { once } from 'node:events'
import * as http2 from 'node:http2'
import type {
  Http2SecureServer,
  IncomingHttpHeaders,
  SecureServerOptions,
  ServerHttp2Session,
  ServerHttp2Stream,
} from 'node:http2'
import type { Server, Socket } from 'node:net'
import type { Clock } from '../base/clock.js'
import { formatError } from '../base/errors.js'
import { listen } from '../base/listen.js'
import type { BoundAddress, ListenAddress } from '../base/listen.js'
import type { Logger } from '../base/log.js'
import { toPeer } from './caller.js'
import { Connection } from './connection.js'
import { Http2Stream } from './http2-stream.js'
import type { InnerCalls } from './inner-calls.js'
import type { XdsLimits } from './limits.js'
import type { XdsMetrics } from './metrics.js'
import type { Session } from './session.js'
import type { Stream } from './session-host.js'

export const DELTA_PATH = '/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources'

const windowBytes = 2 * 1024 * 1024
const connectionWindowBytes = 4 * 1024 * 1024
const UNIMPLEMENTED = 12

/** Certificate and key, and whatever else node:tls takes. */
export type FrontTls = Readonly<Omit<SecureServerOptions, 'settings'>>

export interface FrontOptions {
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: XdsMetrics
  readonly limits: XdsLimits
  readonly tls: FrontTls | undefined
  /** Between 0 and 1: spreads ages. */
  readonly random: () => number
  readonly inner: InnerCalls
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
  /** Calls that wait for the inner server to be loaded. */
  #opening = 0

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
    this.#secureServer =
      tls === undefined
        ? undefined
        : http2.createSecureServer({ ...tls, ...common, allowHTTP1: false, ALPNProtocols: ['h2'] })
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
   * Takes another certificate, key and set of client authorities for connections from now on; open ones live on. What concerns the demand
   * for a client certificate stays as it was at the start. Does nothing for a listener in the clear. Throws what node:tls says of bad PEM.
   */
  setTls(tls: FrontTls): void {
    this.#secureServer?.setSecureContext(tls)
  }

  get activity(): number {
    return this.#activity
  }

  /** Nothing is being written, save what waits for clients that do not read. */
  get flushed(): boolean {
    if (this.#opening > 0) return false
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
    const timer = clock.after(limits.handshakeTimeoutMs, () => socket.destroy())
    const done = (): void => {
      timer.cancel()
      this.#greeting.delete(peer)
    }
    this.#greeting.set(peer, { socket, done })
    socket.once('close', done)
  }

  #open(session: ServerHttp2Session): void {
    const { clock, limits, random, log, metrics } = this.#options
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
    session.setLocalWindowSize(connectionWindowBytes)
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
    if (path === DELTA_PATH && headers[':method'] === 'POST') this.#serveDelta(stream, connection)
    else if (this.#options.inner.isOpen) this.#forward(stream, headers, connection)
    else void this.#openInner(stream).then(() => this.#forward(stream, headers, connection))
  }

  async #openInner(stream: ServerHttp2Stream): Promise<void> {
    stream.on('error', () => undefined) // Nothing to answer any more.
    this.#opening++
    try {
      await this.#options.inner.open()
    } catch (error) {
      this.#options.log.error({ error: formatError(error) }, 'services could not be loaded')
      stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR)
    } finally {
      this.#opening--
    }
  }

  #serveDelta(stream: ServerHttp2Stream, connection: Connection): void {
    const { clock, limits, metrics, log } = this.#options
    const calls = metrics.calls.method(DELTA_PATH)
    const startedMs = clock.monotonic()
    const peer = connection.caller.address
    calls.started.value++
    const served: Http2Stream = new Http2Stream(stream, {
      clock,
      peer,
      identities: undefined,
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
      refuse(stream)
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

/** As gRPC refuses what it does not know: headers alone, with a status. */
function refuse(stream: ServerHttp2Stream): void {
  stream.on('error', () => undefined) // Nobody waits for it.
  if (stream.destroyed) return
  stream.respond(
    {
      ':status': 200,
      'content-type': 'application/grpc',
      'grpc-status': String(UNIMPLEMENTED),
      'grpc-message': 'no such method',
    },
    { endStream: true },
  )
  stream.resume()
}
