// SPDX-License-Identifier: Apache-2.0
// One task at a time for each pod, in the order in which they were given; tasks of different pods run beside each other. Knows nothing of what they do.

/** Tasks by key. */
export class Lanes {
  readonly #last = new Map<string, Promise<unknown>>()

  /**
   * Runs the task when all earlier ones of the key are over, however they ended. A signal that aborts before its turn rejects at once with its reason,
   * and the task never runs; afterwards the signal is the task's own affair.
   */
  run<T>(key: string, task: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const before = this.#last.get(key) ?? Promise.resolve()
    const turn = before.then(
      () => undefined,
      () => undefined,
    )
    const result = turn.then(() => {
      signal?.throwIfAborted()
      return task()
    })
    this.#last.set(key, result)
    const settle = (): void => {
      if (this.#last.get(key) === result) this.#last.delete(key)
    }
    result.then(settle, settle)
    return signal === undefined ? result : this.#orAborted(turn, result, signal)
  }

  /** Some task of the key runs or waits. */
  isBusy(key: string): boolean {
    return this.#last.has(key)
  }

  /** Resolves when everything that was given until now is over. */
  async drained(): Promise<void> {
    await Promise.allSettled(this.#last.values())
  }

  #orAborted<T>(turn: Promise<void>, result: Promise<T>, signal: AbortSignal): Promise<T> {
    return new Promise((resolve, reject) => {
      const onAbort = (): void => reject(signal.reason as Error)
      if (signal.aborted) onAbort()
      else signal.addEventListener('abort', onAbort, { once: true })
      void turn.then(() => signal.removeEventListener('abort', onAbort))
      result.then(resolve, reject)
    })
  }
}
