// SPDX-License-Identifier: Apache-2.0
// The socket that ztunnels connect to. Until open() they wait in its backlog with their hello said; afterwards they are accepted one by one at a limited
// rate, for a ztunnel that is turned away comes back within microseconds. Never decides who may stay.

import { lstatSync, mkdirSync, statSync, unlinkSync } from 'node:fs'
import { dirname } from 'node:path'
import { Fatal, formatError } from '../../base/errors.js'
import type { Clock, Timer } from '../../base/clock.js'
import type { Logger } from '../../base/log.js'
import { assertLayout } from './layout.js'
import { acceptOne, closeDescriptor, listenAt, watchDescriptor } from './seqpacket.js'
import type { Watch } from './seqpacket.js'

export interface AcceptLimits {
  readonly acceptsPerSecond: number
  /** As many are accepted without a pause after a time without any. */
  readonly acceptBurst: number
}

export interface ListenerOptions {
  readonly path: string
  readonly limits: AcceptLimits
  readonly clock: Clock
  readonly log: Logger
  /** Takes the descriptor over. */
  readonly onAccept: (fd: number) => void
}

const backlog = 128
/** Out of descriptors, for one: that does not go away by asking again at once. */
const pauseAfterErrorMs = 1000

export class ZdsListener {
  readonly #options: ListenerOptions
  #fd: number | undefined
  #inode: bigint | undefined
  #watch: Watch | undefined
  #pause: Timer | undefined
  #tokens: number
  #refilledMs = 0

  constructor(options: ListenerOptions) {
    this.#options = options
    this.#tokens = options.limits.acceptBurst
  }

  /** Takes the path, and the place of a socket that an earlier run left there. Throws Fatal. */
  listen(): void {
    const { path } = this.#options
    assertLayout()
    try {
      mkdirSync(dirname(path), { recursive: true })
      unlinkLeftover(path)
      this.#fd = listenAt(path, backlog)
      this.#inode = statSync(path, { bigint: true }).ino
    } catch (error) {
      if (error instanceof Fatal) throw error
      throw new Fatal(`cannot listen for ztunnel at ${path}: ${formatError(error)}`, error)
    }
  }

  /** Begins to accept. */
  open(): void {
    if (this.#fd === undefined || this.#watch !== undefined) return
    this.#refilledMs = this.#options.clock.monotonic()
    this.#watch = watchDescriptor(this.#fd, { readable: true, writable: false }, () => this.#accept())
  }

  /** Idempotent. The path is removed, unless a successor has it by now. */
  close(): void {
    this.#pause?.cancel()
    this.#watch?.close()
    this.#watch = undefined
    if (this.#fd === undefined) return
    closeDescriptor(this.#fd)
    this.#fd = undefined
    try {
      if (statSync(this.#options.path, { bigint: true }).ino === this.#inode) unlinkSync(this.#options.path)
    } catch {
      // Somebody has taken it away already.
    }
  }

  #accept(): void {
    while (this.#fd !== undefined && this.#takeToken()) {
      let fd: number | undefined
      try {
        fd = acceptOne(this.#fd)
      } catch (error) {
        this.#options.log.error({ error: formatError(error) }, 'cannot accept a connection of ztunnel')
        this.#rest(pauseAfterErrorMs)
        return
      }
      if (fd === undefined) {
        this.#tokens++
        return
      }
      this.#options.onAccept(fd)
    }
  }

  /** False when there is none: then accepting rests until the next. */
  #takeToken(): boolean {
    const { clock, limits } = this.#options
    const nowMs = clock.monotonic()
    const gained = ((nowMs - this.#refilledMs) * limits.acceptsPerSecond) / 1000
    this.#tokens = Math.min(limits.acceptBurst, this.#tokens + gained)
    this.#refilledMs = nowMs
    if (this.#tokens < 1) {
      this.#rest(Math.ceil(((1 - this.#tokens) * 1000) / limits.acceptsPerSecond))
      return false
    }
    this.#tokens--
    return true
  }

  #rest(ms: number): void {
    this.#watch?.change({ readable: false, writable: false })
    this.#pause?.cancel()
    this.#pause = this.#options.clock.after(ms, () => this.#watch?.change({ readable: true, writable: false }))
  }
}

function unlinkLeftover(path: string): void {
  const before = lstatSync(path, { throwIfNoEntry: false })
  if (before === undefined) return
  if (!before.isSocket()) {
    throw new Fatal(
      `there is something at ${path} that is no socket; move it away or choose another path for the socket of ztunnel`,
    )
  }
  unlinkSync(path)
}
