// SPDX-License-Identifier: Apache-2.0
// TLS at the front: which certificate is shown, whose client certificates count. Replaceable while connections are open. Reads no files.

import { constants } from 'node:crypto'
import * as http2 from 'node:http2'
import type { Http2SecureServer, ServerHttp2Session, ServerOptions } from 'node:http2'
import { TLSSocket, createSecureContext } from 'node:tls'
import type { SecureContextOptions, SecureVersion } from 'node:tls'
import { InvalidInput, formatError } from '../base/errors.js'

/** What the front shows and believes; everything in PEM. */
export interface FrontTls {
  /** The leaf, then the intermediates. */
  readonly cert: string
  readonly key: string
  /** Roots of client certificates. Absent: no client certificate is believed. */
  readonly clientCa?: string
  /** Lowest version; default TLS 1.2. */
  readonly minVersion?: SecureVersion
}

/** A server that asks clients for a certificate and takes those that show none. One that does not verify must be cut: see `isForged`. */
export function createTlsServer(tls: FrontTls, options: ServerOptions): Http2SecureServer {
  return http2.createSecureServer({
    ...toContextOptions(tls),
    ...options,
    requestCert: true,
    // True would demand a certificate of everybody.
    rejectUnauthorized: false,
    allowHTTP1: false,
    ALPNProtocols: ['h2'],
  })
}

/** New connections see the new certificate; open ones go on. Throws InvalidInput, and changes nothing, when it cannot be used. */
export function replaceTls(server: Http2SecureServer, tls: FrontTls): void {
  const options = toContextOptions(tls)
  try {
    createSecureContext(options)
  } catch (error) {
    throw new InvalidInput(`the server certificate cannot be used: ${formatError(error)}`, error)
  }
  server.setSecureContext(options)
}

/** The client showed a certificate, and its chain does not lead to a root that counts here. */
export function isForged(session: ServerHttp2Session): boolean {
  const { socket } = session
  if (!(socket instanceof TLSSocket) || socket.authorized) return false
  return socket.getPeerX509Certificate() !== undefined
}

function toContextOptions(tls: FrontTls): SecureContextOptions {
  return {
    cert: tls.cert,
    key: tls.key,
    // Without a list of ours Node would believe every certificate of the public web.
    ca: tls.clientCa ?? [],
    minVersion: tls.minVersion ?? 'TLSv1.2',
    // A resumed connection would bring back a certificate that was verified by roots of the past.
    secureOptions: constants.SSL_OP_NO_TICKET,
  }
}
