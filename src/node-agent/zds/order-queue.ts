// SPDX-License-Identifier: Apache-2.0
// What waits for one connection, in order. Whoever gives an order learns what became of it, may give it up, and is told at once when the connection is
// over. For the connection; never runs anything by itself.

import { Retryable } from '../../base/errors.js'

export interface OrderOptions {
  /** Gives the order up: it is taken out when its turn has not come, else only nobody waits for it any more. */
  readonly signal?: AbortSignal | undefined
  /** Runs once, when the order is over or taken out. */
  readonly release?: () => void
}

interface Order {
  readonly run: () => Promise<void>
  readonly fail: (error: Error) => void
}

export class OrderQueue {
  readonly #most: number
  readonly #waiting: Order[] = []
  #wake: (() => void) | undefined
  #ended: Error | undefined

  /** `most` orders may wait. */
  constructor(most: number) {
    this.#most = most
  }

  /** Rejects with what `work` rejects with, with the reason of the signal, or with Retryable when the queue is full or over. */
  push(work: () => Promise<void>, { signal, release = () => undefined }: OrderOptions): Promise<void> {
    const refused =
      this.#ended ??
      (this.#waiting.length < this.#most ? undefined : new Retryable('too many messages wait for ztunnel already'))
    if (refused !== undefined || signal?.aborted === true) {
      release()
      return Promise.reject(refused ?? toError(signal?.reason))
    }
    return new Promise<void>((resolve, reject) => {
      const settle = (error?: Error): void => {
        signal?.removeEventListener('abort', giveUp)
        if (error === undefined) resolve()
        else reject(error)
      }
      const order: Order = {
        // What goes wrong with one order is told to whoever gave it; whether the connection lives on is known by its state.
        run: () =>
          work()
            .then(() => settle(), settle)
            .finally(release),
        fail: (error) => {
          release()
          settle(error)
        },
      }
      const giveUp = (): void => {
        const at = this.#waiting.indexOf(order)
        if (at >= 0) {
          this.#waiting.splice(at, 1)
          release()
        }
        settle(toError(signal?.reason))
      }
      signal?.addEventListener('abort', giveUp, { once: true })
      this.#waiting.push(order)
      this.#wake?.()
    })
  }

  /** Before everything that waits. What `work` rejects with goes to whoever runs it. */
  putFirst(work: () => Promise<void>): void {
    this.#waiting.unshift({ run: work, fail: () => undefined })
    this.#wake?.()
  }

  /** The next to run; waits for one. Rejects once the queue is over. */
  async next(): Promise<() => Promise<void>> {
    for (;;) {
      if (this.#ended !== undefined) throw this.#ended
      const order = this.#waiting.shift()
      if (order !== undefined) return order.run
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }

  /** Everything that waits is rejected with the error, at once, and so is what comes later. */
  end(error: Error): void {
    this.#ended = error
    for (const order of this.#waiting.splice(0)) order.fail(error)
    this.#wake?.()
  }
}

function toError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(String(reason))
}
