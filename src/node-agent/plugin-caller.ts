// SPDX-License-Identifier: Apache-2.0
// Who is at the other end of a connection to a plugin's socket: the runtime runs plugins as root, and nobody else has anything to say about pods.
// For the CNI server. Looks once a connection, and never takes a guess for an answer.

import type { Socket } from 'node:net'
import { formatError } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import { readPeer } from './zds/seqpacket.js'

/** What a caller who is not let in is told. */
export const callerRefusal = 'only root and the user that the agent runs as may ask here'

/** Remembers of each connection whether its caller may ask. */
export class Callers {
  readonly #allowed: ReadonlySet<number>
  readonly #log: Logger
  readonly #welcome = new WeakSet<Socket>()

  /** `ownUid`: the user that this program runs as. */
  constructor(ownUid: number, log: Logger) {
    this.#allowed = new Set([0, ownUid])
    this.#log = log
  }

  /** To be told of every connection when it is accepted. */
  look(socket: Socket): void {
    try {
      const { pid, uid } = readPeer(toDescriptor(socket))
      if (this.#allowed.has(uid)) this.#welcome.add(socket)
      else this.#log.warn({ pid, uid }, 'refused a plugin connection of another user')
    } catch (error) {
      this.#log.warn({ error: formatError(error) }, 'refused a plugin connection: cannot look who connected')
    }
  }

  /** Whether root or the agent's own user connected. Whom the kernel does not name may not ask either. */
  mayAsk(socket: Socket): boolean {
    return this.#welcome.has(socket)
  }
}

/** Node knows the descriptor of a connection and has no name of its own for it. Throws when the connection is closed already. */
function toDescriptor(socket: Socket): number {
  const { _handle: handle } = socket as unknown as { readonly _handle?: { readonly fd?: unknown } | null }
  const fd = handle?.fd
  if (typeof fd !== 'number' || fd < 0) throw new Error('the connection is closed')
  return fd
}
