// SPDX-License-Identifier: Apache-2.0
// How addressd-cni (native/addressd-cni.c) asks the agent. One HTTP/1.1 request on the event socket: `POST /cni`, with a Content-Length. The body is the
// plugin's environment, each `CNI_NAME=value` ended by a NUL, one more NUL for the end of the list, then its stdin, byte for byte, to the end of the body.
// The answer: status 200, the header `cni-exit-code` (0 or 1), a Content-Length, and in the body what the plugin prints. Any other status, or a 200
// without that header, comes from somebody who does not speak this, and counts as no answer.

import { InvalidInput } from '../../base/errors.js'

export const cniPath = '/cni'
export const exitCodeHeader = 'cni-exit-code'

/** Longest configuration on stdin, in bytes. The plugin refuses longer ones itself. */
export const maxStdinBytes = 1 << 20
/** Longest environment as framed, in bytes. */
export const maxEnvironmentBytes = 256 << 10

/** One execution of the plugin. */
export interface PluginCall {
  /** Variables whose names begin with `CNI_`. */
  readonly env: ReadonlyMap<string, string>
  readonly stdin: Buffer
}

/** What the plugin shall print and exit with. */
export interface PluginAnswer {
  readonly exitCode: 0 | 1
  readonly stdout: Uint8Array
}

/** Takes a body apart. `stdin` is a view of it. Throws InvalidInput when the framing is broken. */
export function parsePluginCall(body: Buffer): PluginCall {
  const env = new Map<string, string>()
  let at = 0
  for (;;) {
    const end = body.indexOf(0, at)
    if (end < 0)
      throw new InvalidInput('the list of variables in the body does not end; the plugin is of another version')
    if (end === at) return { env, stdin: body.subarray(end + 1) }
    const entry = body.toString('utf8', at, end)
    const sign = entry.indexOf('=')
    if (sign < 1) throw new InvalidInput(`"${entry.slice(0, 64)}" in the body is no variable`)
    // Of a name that is there twice, programs see the first.
    const name = entry.slice(0, sign)
    if (!env.has(name)) env.set(name, entry.slice(sign + 1))
    at = end + 1
  }
}

/** The inverse of parsePluginCall. */
export function formatPluginCall(call: PluginCall): Buffer {
  const entries = [...call.env].map(([name, value]) => `${name}=${value}\0`).join('')
  return Buffer.concat([Buffer.from(`${entries}\0`), call.stdin])
}
