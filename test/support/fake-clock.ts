// SPDX-License-Identifier: Apache-2.0
// A Clock that moves only when told. Timers fire in order of their time; between two of them `settle` may let real sockets catch up.

import type { Clock, Timer } from '../../src/base/clock.js'

interface Waiting {
  at: number
  order: number
  task: () => void
}

/** Lets every ready callback, promise and immediate of this process run. */
export function tick(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

export class FakeClock implements Clock {
  #now: number
  #order = 0
  readonly #start: number
  readonly #waiting = new Set<Waiting>()

  constructor(startMs = Date.parse('2026-01-01T00:00:00Z')) {
    this.#now = startMs
    this.#start = startMs
  }

  now(): number {
    return this.#now
  }

  monotonic(): number {
    return this.#now - this.#start
  }

  after(delayMs: number, task: () => void): Timer {
    const waiting: Waiting = { at: this.#now + Math.max(0, delayMs), order: this.#order++, task }
    this.#waiting.add(waiting)
    return { cancel: () => void this.#waiting.delete(waiting) }
  }

  /** Milliseconds until the next timer; undefined when nothing waits. */
  untilNext(): number | undefined {
    const next = this.#next()
    return next === undefined ? undefined : Math.max(0, next.at - this.#now)
  }

  /** Number of timers that wait. */
  get pending(): number {
    return this.#waiting.size
  }

  /** Moves time forward by `ms`, firing what falls due on the way; after each timer `settle` runs to its end. */
  async advance(ms: number, settle: () => Promise<void> = tick): Promise<void> {
    const end = this.#now + ms
    await settle()
    for (;;) {
      const next = this.#next()
      if (next === undefined || next.at > end) break
      this.#now = Math.max(this.#now, next.at)
      this.#waiting.delete(next)
      next.task()
      await settle()
    }
    this.#now = end
  }

  #next(): Waiting | undefined {
    let best: Waiting | undefined
    for (const w of this.#waiting) {
      if (best === undefined || w.at < best.at || (w.at === best.at && w.order < best.order)) best = w
    }
    return best
  }
}
