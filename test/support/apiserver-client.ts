// SPDX-License-Identifier: Apache-2.0
// Plain requests to a test API server: no client library, so that a test says exactly what goes over the wire.

import { Agent, request as httpsRequest, type RequestOptions } from 'node:https'
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http'

export interface ApiAnswer {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly body: Buffer
  /** The body read as JSON: an object of the API, whatever its kind. */
  json(): any
}

/** Objects go as JSON, Buffers and strings as they are (name their content-type). Rejects only when no answer came. */
export type ApiRequest = (
  method: string,
  path: string,
  body?: object | string | Buffer,
  headers?: OutgoingHttpHeaders,
) => Promise<ApiAnswer>

export interface ApiClient {
  readonly request: ApiRequest
  /** A GET whose body is read as it comes, for watches. `destroy()` the message when done. */
  readonly open: (path: string, headers?: OutgoingHttpHeaders) => Promise<IncomingMessage>
  close(): void
}

const mostConnections = 16

interface How extends RequestOptions {
  readonly headers: OutgoingHttpHeaders
}

/**
 * @param options.ca PEM of what signed the server's certificate; asked for when the first request is made
 * Requests share a few connections; each `open` has its own.
 */
export function createApiClient(options: { readonly url: string; readonly token: string; ca(): string }): ApiClient {
  let shared: Agent | undefined
  let ca = ''
  const toAgent = (): Agent => {
    if (shared === undefined) {
      ca = options.ca()
      shared = new Agent({ keepAlive: true, maxSockets: mostConnections, ca })
    }
    return shared
  }
  const send = (path: string, how: How, body?: Buffer): Promise<IncomingMessage> =>
    new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${options.token}`, accept: 'application/json', ...how.headers }
      const outgoing = httpsRequest(new URL(path, options.url), { ...how, headers }, resolve)
      outgoing.once('error', reject)
      outgoing.end(body)
    })
  const request: ApiRequest = async (method, path, body, headers = {}) => {
    const isRaw = typeof body === 'string' || Buffer.isBuffer(body)
    const bytes = body === undefined ? undefined : Buffer.from(isRaw ? body : JSON.stringify(body))
    const type = body === undefined || isRaw ? {} : { 'content-type': 'application/json' }
    const message = await send(path, { method, agent: toAgent(), headers: { ...type, ...headers } }, bytes)
    const pieces: Buffer[] = []
    for await (const piece of message) pieces.push(piece as Buffer)
    const whole = Buffer.concat(pieces)
    return {
      status: message.statusCode ?? 0,
      headers: message.headers,
      body: whole,
      json: () => JSON.parse(whole.toString()),
    }
  }
  const open = async (path: string, headers: OutgoingHttpHeaders = {}): Promise<IncomingMessage> => {
    toAgent()
    return await send(path, { method: 'GET', agent: false, ca, headers })
  }
  return { request, open, close: () => shared?.destroy() }
}
