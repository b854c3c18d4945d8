// SPDX-License-Identifier: Apache-2.0
// Gathers a burst of events into one run: after a quiet time, or at the latest some time after the first event. Never two runs at once.

import type { Clock, Timer } from './clock.js'

export interface DebounceOptions {
  readonly clock: Clock
  /** Run when nothing was touched for this long. 0 = at the next timer turn. */
  readonly quietMs: number
  /** Run at the latest this long after the first touch. */
  readonly maxMs: number
  /** Synchronous. `waitedMs` is the time since the first touch of this burst. What it touches itself belongs to the next burst. */
  readonly run: (waitedMs: number) => void
}

export interface Debounce {
  /** Something happened. */
  touch(): void
  /** True from the first touch until run is called. */
  readonly pending: boolean
  /** Runs at once when something is pending. */
  flush(): void
  /** Forgets what is pending and ignores every later touch. */
  stop(): void
}

export function createDebounce(options: DebounceOptions): Debounce {
  const { clock, quietMs, maxMs, run } = options
  let firstMs: number | undefined
  let lastMs = 0
  let timer: Timer | undefined
  let running = false
  let stopped = false

  const dueMs = (first: number): number => Math.min(lastMs + quietMs, first + maxMs)

  // One timer stands for a whole burst: a touch only moves `lastMs`, and the timer re-arms itself when it wakes too early.
  const arm = (): void => {
    if (firstMs === undefined || running || stopped || timer !== undefined) return
    timer = clock.after(Math.max(0, dueMs(firstMs) - clock.monotonic()), () => {
      timer = undefined
      if (firstMs !== undefined && clock.monotonic() < dueMs(firstMs)) arm()
      else fire()
    })
  }

  const fire = (): void => {
    timer?.cancel()
    timer = undefined
    if (firstMs === undefined || running || stopped) return
    const waitedMs = clock.monotonic() - firstMs
    firstMs = undefined
    running = true
    try {
      run(waitedMs)
    } finally {
      running = false
      arm()
    }
  }

  return {
    touch() {
      if (stopped) return
      lastMs = clock.monotonic()
      firstMs ??= lastMs
      arm()
    },
    get pending() {
      return firstMs !== undefined
    },
    flush: fire,
    stop() {
      stopped = true
      firstMs = undefined
      timer?.cancel()
      timer = undefined
    },
  }
}
