// SPDX-License-Identifier: Apache-2.0
// Every call that is not the delta stream, handed to a grpc-js server inside this process over an HTTP/2 connection without a socket.
// What the front learnt of the caller goes along in a header that no client can set. Copies bytes both ways; reads none of them.

import * as http2 from 'node:http2'
import type {
  ClientHttp2Session,
  ClientHttp2Stream,
  IncomingHttpHeaders,
  OutgoingHttpHeaders,
  ServerHttp2Stream,
} from 'node:http2'
import { duplexPair } from 'node:stream'
import * as grpc from '@grpc/grpc-js'
import { CALLER_HEADER, formatCaller } from './caller.js'
import type { Caller } from './caller.js'

const connectionWindowBytes = 64 * 1024 * 1024
const streamWindowBytes = 512 * 1024

/** Told how a call ended: the gRPC status. */
export type OnEnd = (status: number) => void

const CANCELLED = 1
const UNAVAILABLE = 14

/** A grpc-js server that knows which methods it has. */
export class InnerServer extends grpc.Server {
  readonly methods = new Set<string>()

  override register<RequestType, ResponseType>(
    ...handler: Parameters<typeof grpc.Server.prototype.register<RequestType, ResponseType>>
  ): boolean {
    this.methods.add(handler[0])
    return super.register(...handler)
  }
}

export class InnerCalls {
  readonly #inner: InnerServer
  readonly #injector: ReturnType<grpc.Server['createConnectionInjector']>
  #connection: ClientHttp2Session | undefined
  #closed = false

  constructor(inner: InnerServer) {
    this.#inner = inner
    this.#injector = inner.createConnectionInjector(grpc.ServerCredentials.createInsecure())
  }

  /** True for the path of a method that somebody serves. */
  has(path: string): boolean {
    return this.#inner.methods.has(path)
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
        return
      }
      stream.respond(toOutgoing(received), { waitForTrailers: true })
      stream.on('wantTrailers', () => {
        if (!stream.closed) stream.sendTrailers(trailers)
      })
      request.pipe(stream)
    })
    request.on('close', () => this.#finish(request, stream))
    stream.pipe(request)
  }

  close(): void {
    this.#closed = true
    this.#connection?.destroy()
    this.#injector.destroy()
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
    if (!this.#closed) this.#injector.injectConnection(inside)
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
