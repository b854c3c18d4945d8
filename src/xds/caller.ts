// SPDX-License-Identifier: Apache-2.0
// Who is at the other end of a connection, as the front sees it, and how that reaches services behind the front. Proves nothing beyond the certificate.

import type { ServerHttp2Session } from 'node:http2'
import { TLSSocket } from 'node:tls'
import type { Metadata } from '@grpc/grpc-js'

/** Carries the caller to the inner server; removed from whatever a client sends. */
export const CALLER_HEADER = 'x-addressd-caller'

/** What the front knows of who calls. */
export interface Caller {
  /** `ip:port`. */
  readonly address: string
  /** The connection is encrypted. */
  readonly secure: boolean
  /** URI names in the client's verified certificate. */
  readonly certificateUris: readonly string[]
}

export function formatCaller(caller: Caller): string {
  return Buffer.from(JSON.stringify(caller)).toString('base64')
}

/** Who calls, for services of the inner server; undefined when the call did not come through the front. */
export function parseCaller(metadata: Metadata): Caller | undefined {
  const [value] = metadata.get(CALLER_HEADER)
  if (typeof value !== 'string') return undefined
  return JSON.parse(Buffer.from(value, 'base64').toString()) as Caller
}

/** `ip:port` of the other end. */
export function toPeer(socket: {
  readonly remoteAddress?: string | undefined
  readonly remotePort?: number | undefined
}): string {
  const host = socket.remoteAddress ?? ''
  return `${host.includes(':') ? `[${host}]` : host}:${socket.remotePort ?? 0}`
}

/** Who is at the other end of a connection. */
export function toCaller(session: ServerHttp2Session): Caller {
  const { socket } = session
  const secure = session.encrypted === true
  const uris = secure && socket instanceof TLSSocket && socket.authorized ? selectUris(socket) : []
  return { address: toPeer(socket), secure, certificateUris: uris }
}

function selectUris(socket: TLSSocket): string[] {
  const names = socket.getPeerX509Certificate()?.subjectAltName?.split(', ') ?? []
  return names.filter((name) => name.startsWith('URI:')).map((name) => name.slice(4))
}
