// SPDX-License-Identifier: Apache-2.0
// The paths of this agent's sockets: none is taken from an agent that lives, and whether they still lead to this one. Somebody may sweep their folder, or put
// others there; then no plugin, no ztunnel and no person reaches this agent any more, and it says so. For main; mends nothing, for a successor shall have them.

import { lstatSync } from 'node:fs'
import { connect } from 'node:net'
import type { Clock, Timer } from '../base/clock.js'
import { Fatal } from '../base/errors.js'
import type { Logger } from '../base/log.js'

/** Between two looks. */
const lookMs = 5_000

/**
 * Rejects with Fatal when some process has its socket at one of these paths just now: it would be deaf without a word. What a process that is gone left there
 * is no hindrance.
 */
export async function refuseTakenSockets(paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    if (!(await isListenedAt(path))) continue
    throw new Fatal(`another process listens at ${path}; stop the other agent of this node first`)
  }
}

/** What the kernel says of sockets that are somebody's: of another kind than ours (ztunnel's takes whole records), or with too many waiting. */
const livelyRefusals: readonly (string | undefined)[] = ['EPROTOTYPE', 'EAGAIN']

function isListenedAt(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ path })
    const settle = (answer: boolean): void => {
      socket.destroy()
      resolve(answer)
    }
    socket.once('connect', () => settle(true))
    // Else nothing is there, or it was left behind by a process that is gone.
    socket.once('error', (error: NodeJS.ErrnoException) => settle(livelyRefusals.includes(error.code)))
  })
}

export class SocketWatch {
  readonly #clock: Clock
  readonly #log: Logger
  readonly #inodes = new Map<string, bigint | undefined>()
  readonly #told = new Set<string>()
  #timer: Timer | undefined

  constructor(clock: Clock, log: Logger) {
    this.#clock = clock
    this.#log = log
  }

  /** To be called when these paths lead to this agent. Looks at them from now on, until stop(). */
  start(paths: readonly string[]): void {
    for (const path of paths) this.#inodes.set(path, selectInode(path))
    this.#arm()
  }

  /** Those that lead elsewhere or nowhere, as short phrases. */
  lost(): readonly string[] {
    const out: string[] = []
    for (const [path, inode] of this.#inodes) {
      const now = selectInode(path)
      if (now !== inode)
        out.push(now === undefined ? `the socket ${path} is gone` : `another process has taken ${path}`)
    }
    return out
  }

  stop(): void {
    this.#timer?.cancel()
    this.#inodes.clear()
  }

  #arm(): void {
    this.#timer = this.#clock.after(lookMs, () => {
      for (const trouble of this.lost()) {
        if (!this.#told.has(trouble))
          this.#log.error({ trouble }, 'a socket is lost: stop this agent, or start it again')
        this.#told.add(trouble)
      }
      this.#arm()
    })
  }
}

function selectInode(path: string): bigint | undefined {
  try {
    return lstatSync(path, { bigint: true }).ino
  } catch {
    return undefined // gone, or its folder is
  }
}
