// SPDX-License-Identifier: Apache-2.0
// Real time that a test can push forward, for what waits minutes on real parts: a jump fires whatever falls due in it, in order.

import { systemClock, type Clock, type Timer } from '../../src/base/clock.js'

interface Waiting {
  readonly at: number
  readonly task: () => void
  timer: Timer
}

export class JumpClock implements Clock {
  #offset = 0
  readonly #waiting = new Set<Waiting>()

  now(): number {
    return systemClock.now() + this.#offset
  }

  monotonic(): number {
    return systemClock.monotonic() + this.#offset
  }

  after(delayMs: number, task: () => void): Timer {
    const at = this.monotonic() + Math.max(0, delayMs)
    const waiting: Waiting = { at, task, timer: systemClock.after(delayMs, () => this.#fire(waiting)) }
    this.#waiting.add(waiting)
    return {
      cancel: () => {
        waiting.timer.cancel()
        this.#waiting.delete(waiting)
      },
    }
  }

  /** From now on it is `ms` later than it would be. Timers that are set by those that fire are not part of the jump. */
  jump(ms: number): void {
    this.#offset += ms
    const now = this.monotonic()
    const due = [...this.#waiting].filter(({ at }) => at <= now).sort((a, b) => a.at - b.at)
    for (const waiting of this.#waiting) {
      waiting.timer.cancel()
      if (waiting.at > now) waiting.timer = systemClock.after(waiting.at - now, () => this.#fire(waiting))
    }
    for (const waiting of due) this.#fire(waiting)
  }

  #fire(waiting: Waiting): void {
    // One that fired earlier in the same jump may have cancelled it.
    if (!this.#waiting.delete(waiting)) return
    waiting.timer.cancel()
    waiting.task()
  }
}
