// SPDX-License-Identifier: Apache-2.0
// Time as a parameter. Everything that waits goes through a Clock, so that tests move time by hand. Never reads Date or setTimeout elsewhere.

/** A pending timer; cancel() is idempotent and safe after it fired. */
export interface Timer {
  cancel(): void
}

/** The only source of time. `now` is wall time in milliseconds since the epoch; `monotonic` is milliseconds from an arbitrary start and never goes back. */
export interface Clock {
  now(): number
  monotonic(): number
  /** Runs `task` once after `delayMs`, however long; Infinity is never. Timers do not keep the process alive by themselves. */
  after(delayMs: number, task: () => void): Timer
}

const longestTimerMs = 0x7fff_ffff

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(delayMs, task) {
    // Node's timers take what is longer than this for nothing at all, and would fire at once.
    let leftMs = delayMs
    let handle = arm()
    function arm(): NodeJS.Timeout {
      const stepMs = Math.min(leftMs, longestTimerMs)
      leftMs -= stepMs
      return setTimeout(leftMs > 0 ? goOn : task, stepMs).unref()
    }
    function goOn(): void {
      handle = arm()
    }
    return { cancel: () => clearTimeout(handle) }
  },
}

/** Resolves after `delayMs`; rejects with the signal's reason as soon as it aborts. */
export function sleep(clock: Clock, delayMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(toError(signal.reason))
      return
    }
    const onAbort = (): void => {
      timer.cancel()
      reject(toError(signal.reason))
    }
    const timer = clock.after(delayMs, () => {
      signal.removeEventListener('abort', onAbort)
      resolve()
    })
    signal.addEventListener('abort', onAbort, { once: true })
  })
}

function toError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(String(reason))
}
