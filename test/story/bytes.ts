// SPDX-License-Identifier: Apache-2.0
// Calls and connections as nobody well-behaved would make them: bytes on a socket, HTTP/2 frames by hand, gRPC calls with any body.

import * as http2 from 'node:http2'
import { connect } from 'node:net'

export const DELTA = '/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources'
export const SOTW = '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources'

/** How a call ended. `code` is the gRPC status, -1 without one. */
export interface Ending {
  readonly code: number
  readonly message: string
  readonly bytes: number
}

export interface CallOptions {
  readonly headers?: http2.OutgoingHttpHeaders
  /** Say nothing more after the body. */
  readonly halfClose?: boolean
  /** Longest wait; code -2 then. Default 15 s. */
  readonly forMs?: number
}

/** Makes one call with this body on a connection of its own and waits for its end. */
export async function callRaw(
  port: number,
  path: string,
  body: Uint8Array,
  options: CallOptions = {},
): Promise<Ending> {
  const session = http2.connect(`http://127.0.0.1:${port}`, { maxSessionMemory: 256 })
  session.on('error', () => undefined)
  try {
    const stream = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...options.headers,
    })
    return await new Promise<Ending>((resolve) => {
      let code = -1
      let message = ''
      let bytes = 0
      const onHeaders = (headers: http2.IncomingHttpHeaders): void => {
        if (headers['grpc-status'] === undefined) return
        code = Number(headers['grpc-status'])
        message = decodeURIComponent(String(headers['grpc-message'] ?? ''))
      }
      setTimeout(() => resolve({ code: -2, message: 'did not end', bytes }), options.forMs ?? 15_000).unref()
      stream.on('error', () => undefined)
      stream.on('response', onHeaders)
      stream.on('trailers', onHeaders)
      stream.on('data', (chunk: Buffer) => (bytes += chunk.length))
      stream.on('close', () => resolve({ code, message, bytes }))
      session.on('close', () => resolve({ code, message, bytes }))
      stream.write(body)
      if (options.halfClose === true) stream.end()
    })
  } finally {
    session.destroy()
  }
}

/** Writes these bytes to a fresh socket and waits until the other side closes it, or `forMs` have passed. */
export async function writeRaw(port: number, bytes: Uint8Array, forMs = 300): Promise<Buffer> {
  return await new Promise((resolve) => {
    const got: Buffer[] = []
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes))
    const done = (): void => {
      clearTimeout(timer)
      socket.destroy()
      resolve(Buffer.concat(got))
    }
    const timer = setTimeout(done, forMs)
    socket.on('data', (chunk) => got.push(chunk))
    socket.on('error', () => undefined)
    socket.on('close', done)
  })
}

const frameTypes = { data: 0, headers: 1, reset: 3, settings: 4, ping: 6, goaway: 7, window: 8, continuation: 9 }

/** One HTTP/2 frame. */
export function frame(
  type: keyof typeof frameTypes,
  flags: number,
  stream: number,
  payload: Uint8Array = Buffer.alloc(0),
): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head[3] = frameTypes[type]
  head[4] = flags
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}

/** Headers of a gRPC call, as HPACK literals. */
export function headerBlock(path: string): Buffer {
  const headers = { ':method': 'POST', ':scheme': 'http', ':path': path, ':authority': 'x', te: 'trailers' }
  return Buffer.concat(
    Object.entries({ ...headers, 'content-type': 'application/grpc' }).flatMap(([name, value]) => [
      Buffer.from([0, name.length]),
      Buffer.from(name),
      Buffer.from([value.length]),
      Buffer.from(value),
    ]),
  )
}

/** How a client greets. */
export const PREFACE = Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame('settings', 0, 0)])
