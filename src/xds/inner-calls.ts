// SPDX-License-Identifier: Apache-2.0
// Every call that is not the delta stream, handed to a grpc-js server inside this process over an HTTP/2 connection without a socket.
// What the front learnt of the caller goes along in a header that no client can set. Copies bytes both ways; reads none of them.
// Most servers meet such calls never or late: grpc-js and what serves there are loaded at the first one.

import * as http2 from 'node:http2'
import type {
  ClientHttp2Session,
  ClientHttp2Stream,
  IncomingHttpHeaders,
  OutgoingHttpHeaders,
  ServerHttp2Stream,
} from 'node:http2'
import { createRequire } from 'node:module'
import { duplexPair } from 'node:stream'
import type * as grpc from '@grpc/grpc-js'
import { shortenText } from '../base/short-text.js'
import { CALLER_HEADER, formatCaller } from './caller.js'
import type { Caller } from './caller.js'
import { closeAnswered } from './http2-stream.js'

const connectionWindowBytes = 64 * 1024 * 1024
const streamWindowBytes = 512 * 1024

/** Told how a call ended: the gRPC status. */
export type OnEnd = (status: number) => void

/** Longest text of a status, in characters. */
const longestDetails = 2_000

const CANCELLED = 1
const UNAVAILABLE = 14

const require = createRequire(import.meta.url)

interface Inner {
  readonly server: grpc.Server
  readonly methods: ReadonlySet<string>
  readonly injector: ReturnType<grpc.Server['createConnectionInjector']>
}

/** Adds services to the inner server before it serves its first call. */
export type AddServices = (server: grpc.Server) => void | Promise<void>

export class InnerCalls {
  readonly #options: grpc.ServerOptions
  readonly #additions: AddServices[] = []
  #inner: Inner | undefined
  #opening: Promise<void> | undefined
  #isOpen = false
  #connection: ClientHttp2Session | undefined
  #closed = false

  constructor(options: grpc.ServerOptions) {
    this.#options = options
  }

  /** To be run, in this order, before the first call. */
  add(services: AddServices): void {
    this.#additions.push(services)
  }

  /** The server itself, made now if it was not yet. */
  get server(): grpc.Server {
    return this.#made().server
  }

  /** Every service is there: calls may be forwarded. */
  get isOpen(): boolean {
    return this.#isOpen
  }

  /** Loads what there is to load, once. */
  open(): Promise<void> {
    this.#opening ??= this.#open()
    return this.#opening
  }

  /** True for the path of a method that somebody serves. */
  has(path: string): boolean {
    return this.#made().methods.has(path)
  }

  /** Hands one call over and brings everything back: headers, messages, trailers, and resets of either side. */
  forward(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, caller: Caller, onEnd: OnEnd): void {
    const request = this.#connect().request(toInnerHeaders(headers, caller), { endStream: false })
    let status = CANCELLED
    let trailers: OutgoingHttpHeaders = {}
    stream.on('error', () => undefined) // 'close' follows
    stream.on('close', () => {
      cancelSoon(request)
      onEnd(status)
    })
    request.on('error', () => {
      status = UNAVAILABLE
      if (!stream.destroyed) stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR)
    })
    request.on('trailers', (received: IncomingHttpHeaders) => {
      status = toStatus(received, status)
      trailers = toOutgoing(received)
    })
    request.on('response', (received: IncomingHttpHeaders, flags: number) => {
      if (stream.destroyed || stream.closed) return
      status = toStatus(received, status)
      if ((flags & http2.constants.NGHTTP2_FLAG_END_STREAM) !== 0) {
        stream.respond(toOutgoing(received), { endStream: true })
        closeAnswered(stream)
        return
      }
      stream.respond(toOutgoing(received), { waitForTrailers: true })
      stream.on('wantTrailers', () => {
        if (stream.closed) return
        stream.sendTrailers(trailers)
        closeAnswered(stream)
      })
      request.pipe(stream)
    })
    request.on('close', () => this.#finish(request, stream))
    stream.pipe(request)
  }

  close(): void {
    this.#closed = true
    this.#connection?.destroy()
    this.#inner?.injector.destroy()
    this.#inner?.server.forceShutdown()
  }

  async #open(): Promise<void> {
    const { server } = this.#made()
    for (const services of this.#additions) await services(server)
    this.#isOpen = true
  }

  #made(): Inner {
    this.#inner ??= makeInner(this.#options)
    return this.#inner
  }

  /** An inner call that was reset, not ended, is a reset outside too. */
  #finish(request: ClientHttp2Stream, stream: ServerHttp2Stream): void {
    if (request.rstCode !== http2.constants.NGHTTP2_NO_ERROR && !stream.destroyed && !stream.closed) {
      stream.close(request.rstCode)
    }
  }

  #connect(): ClientHttp2Session {
    const open = this.#connection
    if (open !== undefined && !open.closed && !open.destroyed) return open
    const [outside, inside] = duplexPair()
    if (!this.#closed) this.#made().injector.injectConnection(inside)
    const connection = http2.connect('http://inner', {
      createConnection: () => outside,
      maxSessionMemory: 256,
      settings: { enablePush: false, initialWindowSize: streamWindowBytes },
    })
    connection.on('error', () => undefined) // Calls on it fail by themselves; the next one connects anew.
    // One caller that does not read must not hold up the others: the window of the whole connection is out of reach.
    connection.on('connect', () => connection.setLocalWindowSize(connectionWindowBytes))
    this.#connection = connection
    return connection
  }
}

/** A grpc-js server that knows which methods it has. */
function makeInner(options: grpc.ServerOptions): Inner {
  const { Server, ServerCredentials, ServerInterceptingCall } = require('@grpc/grpc-js') as typeof grpc
  // All callers share the connection behind; headers that are too long would end it for all of them.
  const shorten: grpc.ServerInterceptor = (_method, call) =>
    new ServerInterceptingCall(call, {
      sendStatus: (status, next) => next({ ...status, details: shortenText(status.details, longestDetails) }),
    })
  const methods = new Set<string>()
  class InnerServer extends Server {
    override register<RequestType, ResponseType>(
      ...handler: Parameters<typeof Server.prototype.register<RequestType, ResponseType>>
    ): boolean {
      methods.add(handler[0])
      return super.register(...handler)
    }
  }
  const server = new InnerServer({ ...options, interceptors: [shorten] })
  return { server, methods, injector: server.createConnectionInjector(ServerCredentials.createInsecure()) }
}

function toInnerHeaders(headers: IncomingHttpHeaders, caller: Caller): OutgoingHttpHeaders {
  return { ...toOutgoing(headers), [CALLER_HEADER]: formatCaller(caller) }
}

function toOutgoing(headers: IncomingHttpHeaders): OutgoingHttpHeaders {
  const copy: OutgoingHttpHeaders = {}
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) copy[name] = value
  return copy
}

function toStatus(headers: IncomingHttpHeaders, otherwise: number): number {
  const text = headers['grpc-status']
  return typeof text === 'string' ? Number(text) : otherwise
}

/** Not at once: a call that is taken back in the very moment in which it arrives makes the inner server throw. */
function cancelSoon(request: ClientHttp2Stream): void {
  setImmediate(() =>
    setImmediate(() => {
      if (!request.closed) request.close(http2.constants.NGHTTP2_CANCEL)
    }),
  )
}
