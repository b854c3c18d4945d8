// SPDX-License-Identifier: Apache-2.0
// KubeApi over node:http and node:https with connections that are kept. Credentials come from whoever loaded the configuration and are asked
// for at each request, so that a rotated token counts at once.

import http from 'node:http'
import https from 'node:https'
import type { Clock } from '../base/clock.js'
import { InvalidInput, Retryable, formatError } from '../base/errors.js'
import type { KubeApi, KubeRequest, KubeResponse } from './api.js'

/** TLS and headers of one request. */
export interface Credentials {
  readonly headers: Readonly<Record<string, string>>
  /** Changes of identity are changes of the object. */
  readonly tls: Readonly<https.AgentOptions>
  /** Connections to use instead of our own, when a proxy stands in between. */
  readonly agent?: http.Agent
}

/** Where credentials come from. */
export interface CredentialSource {
  read(): Promise<Credentials>
  /** The server refused them (401): read them afresh next time. */
  refused(): void
}

/** An API server at `server` (http: or https: URL; a path in it is put before every request's). */
export class HttpKubeApi implements KubeApi {
  readonly server: string
  readonly #url: URL
  readonly #prefix: string
  readonly #clock: Clock
  readonly #credentials: CredentialSource
  #agent: http.Agent | undefined
  #tls: Readonly<https.AgentOptions> | undefined

  constructor(server: string, credentials: CredentialSource, clock: Clock) {
    const url = URL.canParse(server) ? new URL(server) : undefined
    if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
      throw new InvalidInput(`the API server's address ${JSON.stringify(server)} is not an http or https URL`)
    }
    this.server = server
    this.#url = url
    this.#prefix = url.pathname.replace(/\/+$/, '')
    this.#credentials = credentials
    this.#clock = clock
  }

  async send(request: KubeRequest, signal: AbortSignal): Promise<KubeResponse> {
    signal.throwIfAborted()
    let credentials: Credentials
    try {
      credentials = await this.#credentials.read()
    } catch (error) {
      throw new Retryable(`the credentials for ${this.server} cannot be read: ${formatError(error)}`, error)
    }
    signal.throwIfAborted()
    const response = await this.#exchange(request, credentials, signal)
    if (response.statusCode === 401) this.#credentials.refused()
    return {
      status: response.statusCode ?? 0,
      contentType: (response.headers['content-type'] ?? '').toLowerCase(),
      retryAfterMs: this.#parseRetryAfter(response.headers['retry-after']),
      body: response,
    }
  }

  close(): void {
    this.#agent?.destroy()
    this.#agent = undefined
  }

  #exchange(request: KubeRequest, credentials: Credentials, signal: AbortSignal): Promise<http.IncomingMessage> {
    const secure = this.#url.protocol === 'https:'
    const headers: Record<string, string | number> = {
      accept: request.accept ?? 'application/json',
      'user-agent': 'addressd',
      ...credentials.headers,
    }
    if (request.body !== undefined) {
      headers['content-type'] = request.contentType ?? 'application/json'
      headers['content-length'] = Buffer.byteLength(request.body)
    }
    const options: http.RequestOptions = {
      method: request.method ?? 'GET',
      host: this.#url.hostname.replace(/^\[|\]$/g, ''),
      port: this.#url.port === '' ? (secure ? 443 : 80) : Number(this.#url.port),
      path: this.#prefix + request.path,
      agent: credentials.agent ?? this.#selectAgent(credentials.tls, secure),
      headers,
      signal,
    }
    return new Promise((resolve, reject) => {
      const sent = secure ? https.request(options) : http.request(options)
      sent.once('response', resolve)
      sent.on('error', (error) => {
        reject(
          signal.aborted && signal.reason instanceof Error
            ? signal.reason
            : new Retryable(`the API server ${this.server} cannot be reached: ${formatError(error)}`, error),
        )
      })
      sent.once('socket', (socket) => {
        // A host that vanished without a word is noticed by the kernel too, not only by the watchdog.
        socket.setKeepAlive(true, 30_000)
        socket.setNoDelay(true)
      })
      sent.end(request.body)
    })
  }

  /** One agent as long as the TLS identity stays the same. Streams that run on an older one keep it until they end. */
  #selectAgent(tls: Readonly<https.AgentOptions>, secure: boolean): http.Agent {
    if (this.#agent === undefined || this.#tls !== tls) {
      const keep = { keepAlive: true, maxFreeSockets: 4 }
      this.#agent = secure ? new https.Agent({ ...tls, ...keep }) : new http.Agent(keep)
      this.#tls = tls
    }
    return this.#agent
  }

  #parseRetryAfter(value: string | undefined): number | undefined {
    if (value === undefined) return undefined
    if (/^[0-9]{1,9}$/.test(value)) return Number(value) * 1000
    const at = Date.parse(value)
    return Number.isNaN(at) ? undefined : Math.max(0, at - this.#clock.now())
  }
}
