// SPDX-License-Identifier: Apache-2.0
// Who is at the other end of a connection, as the front sees it, and how that reaches services behind the front. Proves nothing beyond the certificate.

import type { IncomingHttpHeaders, ServerHttp2Session } from 'node:http2'
import { TLSSocket } from 'node:tls'
import type { Metadata } from '@grpc/grpc-js'
import type { Credentials } from '../base/caller.js'

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

/** What a call at the front brings along. */
export function toCredentials(caller: Caller, headers: IncomingHttpHeaders): Credentials {
  return formCredentials(caller, headers.authorization, headers['clusterid'])
}

/** The same for a call of the inner server. One that did not come through the front counts as plaintext from nowhere. */
export function readCredentials(metadata: Metadata): Credentials {
  const caller = parseCaller(metadata) ?? { address: '', secure: false, certificateUris: [] }
  return formCredentials(caller, metadata.get('authorization').map(String), metadata.get('clusterid').map(String))
}

type HeaderValue = string | readonly string[] | undefined

function formCredentials(caller: Caller, authorization: HeaderValue, clusterId: HeaderValue): Credentials {
  return {
    peer: caller.address,
    secure: caller.secure,
    certificateUris: caller.certificateUris,
    authorization: joinHeader(authorization),
    clusterId: joinHeader(clusterId),
  }
}

/** A header that was sent twice is none of the values that it was sent with. */
function joinHeader(value: HeaderValue): string | undefined {
  if (value === undefined || typeof value === 'string') return value
  return value.length === 0 ? undefined : value.join(', ')
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
  const names = secure && socket instanceof TLSSocket && socket.authorized ? selectNames(socket) : ''
  return { address: toPeer(socket), secure, certificateUris: selectUris(names) }
}

function selectNames(socket: TLSSocket): string {
  return socket.getPeerX509Certificate()?.subjectAltName ?? ''
}

/** One name: its kind, then a JSON string or a text without commas and quotes. */
const namePattern = /([^:,"]+):(?:("(?:[^"\\]|\\.)*")|([^,"]*))(, |$)/y

/**
 * The URIs among the alternative names of a certificate, as Node writes those: `URI:a, DNS:"b, URI:c"`. None at all when any part cannot be
 * read, since a name that looks like two must not become two.
 */
export function selectUris(names: string): string[] {
  const uris: string[] = []
  namePattern.lastIndex = 0
  while (namePattern.lastIndex < names.length) {
    const [, kind, quoted, plain] = namePattern.exec(names) ?? []
    if (kind === undefined) return []
    if (kind === 'URI') uris.push(quoted === undefined ? (plain ?? '') : unquote(quoted))
  }
  return uris
}

function unquote(text: string): string {
  try {
    return String(JSON.parse(text))
  } catch {
    // No JSON string: a name that nobody has.
    return ''
  }
}
