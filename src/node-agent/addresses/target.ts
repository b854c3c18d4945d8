// SPDX-License-Identifier: Apache-2.0
// Where the control plane is, as settings write it, and how it may be reached. Knows no sockets.

import { InvalidInput } from '../../base/errors.js'
import { isLoopback } from '../../base/listen.js'

export interface Target {
  /** As gRPC takes it. */
  readonly authority: string
  readonly host: string
  readonly isPlaintext: boolean
}

/** Whether an address is to be asked in plaintext: by its scheme, and without one when its port is 15010, as that of such control planes is. */
export function isPlaintextAddress(text: string): boolean {
  return /^http:\/\//.test(text) || (!/^https:\/\//.test(text) && /:15010\/?$/.test(text))
}

/**
 * Reads `host:port`, with or without `https://` or `http://` before it. `isPlaintext` is allowed for this machine alone, for no token and no answer goes over a network in the clear.
 * Throws InvalidInput that says what to write instead.
 */
export function parseTarget(text: string, isPlaintext: boolean): Target {
  const authority = text.replace(/^https?:\/\//, '').replace(/\/$/, '')
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)):([0-9]{1,5})$/.exec(authority)
  const host = match?.[1] ?? match?.[2]
  const port = Number(match?.[4])
  if (host === undefined || port < 1 || port > 65_535) {
    throw new InvalidInput(
      `"${text}" is not an address of a control plane; write HOST:PORT, such as istiod.istio-system.svc:15012`,
    )
  }
  if (isPlaintext && host !== 'localhost' && !isLoopback(host)) {
    throw new InvalidInput(
      `"${text}": only a control plane on this machine is asked in plaintext; use its TLS port, 15012`,
    )
  }
  return { authority, host, isPlaintext }
}
