// SPDX-License-Identifier: Apache-2.0
// A small HTTP server for pages that people and probes read: exact paths, GET and POST, text or JSON. Holds no state and knows no meshes.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { systemClock } from './clock.js'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { formatError } from './errors.js'
import { isLoopback, listen, type BoundAddress, type ListenAddress } from './listen.js'
import { listenPath } from './listen-path.js'
import type { Logger } from './log.js'

export interface AdminRequest {
  readonly method: 'GET' | 'POST'
  /** Path without query, as asked. */
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: IncomingMessage['headers']
  /** Address of the peer, without port. */
  readonly remoteAddress: string
  /** The peer is this machine. */
  readonly local: boolean
}

export interface AdminReply {
  readonly status: number
  readonly contentType: string
  /** Parts are written as the peer reads them, and asked for no sooner: for pages too large to hold. */
  readonly body: string | Uint8Array | AsyncIterable<string>
  readonly headers?: Readonly<Record<string, string>>
}

export type AdminHandler = (request: AdminRequest) => AdminReply | Promise<AdminReply>

export interface AdminRoute {
  /** Exact path, or a prefix when it ends in `/`. */
  readonly path: string
  /** Default GET and POST: pages answer both alike. */
  readonly methods?: readonly ('GET' | 'POST')[]
  /** One sentence for the index; routes without one are not listed. */
  readonly about?: string
  readonly handle: AdminHandler
}

export interface AdminServerOptions {
  readonly routes: readonly AdminRoute[]
  readonly log: Logger
  /** Asked before each route; a reply ends the request. */
  readonly guard?: (request: AdminRequest) => AdminReply | undefined
}

export interface AdminServer {
  /** Binds one more address. Rejects with Fatal that names `flag`. */
  listen(address: ListenAddress, flag: string): Promise<BoundAddress>
  /** Binds a socket in the file system that its owner alone may use, or as `mode` says. Rejects with Fatal that names `flag`. */
  listenPath(path: string, flag: string, mode?: number): Promise<void>
  /** Stops listening, lets requests in hand finish for `graceMs`, then cuts them. Idempotent. */
  close(graceMs?: number): Promise<void>
}

/** A JSON page: compact, or indented when the query has `pretty` (`?pretty`, `?pretty=true`). */
export function toJsonReply(value: unknown, query: URLSearchParams, status = 200): AdminReply {
  const pretty = query.has('pretty') && query.get('pretty') !== 'false'
  const body = JSON.stringify(value, undefined, pretty ? 2 : undefined)
  return { status, contentType: 'application/json', body: pretty ? `${body}\n` : body }
}

/** A plain text page. */
export function toTextReply(text: string, status = 200): AdminReply {
  return { status, contentType: 'text/plain; charset=utf-8', body: text }
}

/** An HTML page that lists the routes which say what they are about. `title` is plain text. */
export function toIndexReply(title: string, routes: readonly AdminRoute[]): AdminReply {
  const rows = routes
    .filter((route) => route.about !== undefined)
    .map((route) => {
      const path = escapeHtml(route.path)
      return `<tr><td><a href="${path}">${path}</a></td><td>${escapeHtml(route.about ?? '')}</td></tr>`
    })
  const head = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${escapeHtml(title)}</title></head>`
  const body = `<body><h1>${escapeHtml(title)}</h1><table>\n${rows.join('\n')}\n</table></body></html>\n`
  return { status: 200, contentType: 'text/html; charset=utf-8', body: head + body }
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`)
}

/** Serves `routes`; the first whose path fits answers. Unknown path 404, wrong method 405, a failing page 500 with its message. */
export function createAdminServer(options: AdminServerOptions): AdminServer {
  const servers: Server[] = []
  const paths: (() => Promise<void>)[] = []
  const create = (): Server =>
    createServer(
      { headersTimeout: 5_000, requestTimeout: 10_000, keepAliveTimeout: 5_000, maxHeaderSize: 16_384 },
      onRequest,
    )
  const keep = (server: Server, flag: string): void => {
    server.on('error', (error) =>
      options.log.warn({ flag, error: formatError(error) }, 'admin listener reported an error'),
    )
    servers.push(server)
  }
  const onRequest = (incoming: IncomingMessage, response: ServerResponse): void => {
    incoming.resume()
    answer(incoming, options)
      .then(async (reply) => await send(response, reply, incoming.method === 'HEAD'))
      .catch((error: unknown) => {
        options.log.warn({ path: incoming.url, error: formatError(error) }, 'admin request could not be answered')
        response.destroy()
      })
  }
  return {
    async listen(address, flag) {
      const server = create()
      const bound = await listen(server, address, flag)
      keep(server, flag)
      return bound
    },
    async listenPath(path, flag, mode = 0o600) {
      const server = create()
      paths.push(await listenPath(server, path, mode, flag))
      keep(server, flag)
    },
    async close(graceMs = 500) {
      await Promise.all(paths.splice(0).map((remove) => remove()))
      await Promise.all(servers.splice(0).map((server) => closeServer(server, graceMs)))
    },
  }
}

async function closeServer(server: Server, graceMs: number): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  server.closeIdleConnections()
  // Real time on purpose: what is waited for here is a socket, not the program's own doing.
  const cut = systemClock.after(graceMs, () => server.closeAllConnections())
  await closed
  cut.cancel()
}

async function answer(incoming: IncomingMessage, options: AdminServerOptions): Promise<AdminReply> {
  const target = toTarget(incoming.url ?? '')
  if (target === undefined) return toTextReply('the request line is not a path\n', 400)
  const route = options.routes.find((r) =>
    r.path.endsWith('/') && r.path !== '/' ? target.path.startsWith(r.path) : r.path === target.path,
  )
  const method = incoming.method === 'HEAD' ? 'GET' : incoming.method
  if (route === undefined) return toTextReply(`no page at ${target.path}\n`, 404)
  const allowed = route.methods ?? ['GET', 'POST']
  if ((method !== 'GET' && method !== 'POST') || !allowed.includes(method)) {
    const reply = toTextReply(`${target.path} takes ${allowed.join(' and ')}\n`, 405)
    return { ...reply, headers: { allow: allowed.join(', ') } }
  }
  const remoteAddress = incoming.socket.remoteAddress ?? ''
  const request: AdminRequest = {
    method,
    path: target.path,
    query: target.query,
    headers: incoming.headers,
    remoteAddress,
    local: isLoopback(remoteAddress),
  }
  const refused = options.guard?.(request)
  if (refused !== undefined) return refused
  try {
    return await route.handle(request)
  } catch (error) {
    options.log.warn({ path: target.path, error: formatError(error) }, 'admin page failed')
    return toTextReply(`this page failed: ${formatError(error)}\n`, 500)
  }
}

function toTarget(url: string): { path: string; query: URLSearchParams } | undefined {
  if (!url.startsWith('/')) return undefined
  const mark = url.indexOf('?')
  const path = mark < 0 ? url : url.slice(0, mark)
  return { path, query: new URLSearchParams(mark < 0 ? '' : url.slice(mark + 1)) }
}

async function send(response: ServerResponse, reply: AdminReply, headOnly: boolean): Promise<void> {
  const headers = {
    ...reply.headers,
    'content-type': reply.contentType,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  }
  const { body } = reply
  if (typeof body !== 'string' && !(body instanceof Uint8Array)) {
    response.writeHead(reply.status, headers)
    if (headOnly) response.end()
    else await pipeline(Readable.from(body), response)
    return
  }
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  response.writeHead(reply.status, { ...headers, 'content-length': bytes.length })
  response.end(headOnly ? undefined : bytes)
}
