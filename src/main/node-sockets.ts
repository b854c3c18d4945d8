// SPDX-License-Identifier: Apache-2.0
// Whether the paths of this agent's sockets still lead to it: a second agent takes them over, and somebody may sweep their folder. Then no plugin, no ztunnel
// and no person reaches this one any more, and it says so. For main; mends nothing, for a successor shall have them.

import { lstatSync } from 'node:fs'
import { connect } from 'node:net'
import type { Clock, Timer } from '../base/clock.js'
import type { Logger } from '../base/log.js'

/** Between two looks. */
const lookMs = 5_000

/** Whether some process answers at this socket just now. */
export function isListenedAt(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ path })
    const settle = (answer: boolean): void => {
      socket.destroy()
      resolve(answer)
    }
    socket.once('connect', () => settle(true))
    // Nothing there, or left behind by a process that is gone.
    socket.once('error', () => settle(false))
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
