// SPDX-License-Identifier: Apache-2.0
// How long to wait before the next try: doubling, bounded, spread by chance. Never waits itself; see sleep() of clock.ts.

export interface BackoffOptions {
  /** First pause, before the spread. */
  readonly initialMs: number
  /** No pause is longer than this, spread included. */
  readonly maxMs: number
  /** Growth from one pause to the next. Default 2. */
  readonly factor?: number
  /** Part of a pause that is left to chance, 0 to 1. Default 0.5: a pause lies between half of its length and its length. */
  readonly jitter?: number
  /** Numbers from 0 (inclusive) to 1 (exclusive). Default Math.random. */
  readonly random?: () => number
}

export interface Backoff {
  /** The pause before the next try, in milliseconds. Each call without reset() in between gives a longer one, up to the maximum. */
  next(): number
  /** Call after a success: the next pause is the first one again. */
  reset(): void
}

export function createBackoff(options: BackoffOptions): Backoff {
  const { initialMs, maxMs, factor = 2, jitter = 0.5, random = Math.random } = options
  let bare = initialMs
  return {
    next() {
      const whole = Math.min(bare, maxMs)
      bare = Math.min(whole * factor, maxMs)
      return whole * (1 - jitter * random())
    },
    reset() {
      bare = initialMs
    },
  }
}
