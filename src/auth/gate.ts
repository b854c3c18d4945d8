// SPDX-License-Identifier: Apache-2.0
// Lets so many tasks run at a time and so many wait; more are turned away. Keeps strangers from spending the API server. Knows nothing of tasks.

import { Retryable } from '../base/errors.js'

export class Gate {
  readonly #mostRunning: number
  readonly #mostWaiting: number
  #running = 0
  /** In order of arrival. */
  readonly #waiting = new Set<() => void>()

  constructor(mostRunning: number, mostWaiting: number) {
    this.#mostRunning = mostRunning
    this.#mostWaiting = mostWaiting
  }

  /** Runs the task when it is its turn. Rejects with Retryable at once when too many wait already, and with the signal's reason when it aborts first. */
  async pass<T>(signal: AbortSignal, task: () => Promise<T>): Promise<T> {
    if (this.#running < this.#mostRunning) this.#running++
    else if (this.#waiting.size < this.#mostWaiting) await this.#turn(signal)
    else throw new Retryable('too many callers are being checked at the moment')
    try {
      return await task()
    } finally {
      // The place goes to the next one directly, so that nobody slips in between.
      const [next] = this.#waiting
      if (next === undefined) this.#running--
      else next()
    }
  }

  #turn(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#waiting.delete(enter)
        reject(signal.reason instanceof Error ? signal.reason : new Retryable('the wait was given up'))
      }
      const enter = (): void => {
        this.#waiting.delete(enter)
        signal.removeEventListener('abort', leave)
        resolve()
      }
      this.#waiting.add(enter)
      signal.addEventListener('abort', leave, { once: true })
    })
  }
}
