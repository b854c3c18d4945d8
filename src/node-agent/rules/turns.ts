// SPDX-License-Identifier: Apache-2.0
// One thing at a time in each namespace, several namespaces side by side. For the backends of pods' rules.

import { type Netns, formatNetns } from '../netns/netns.js'

export class NetnsTurns {
  readonly #last = new Map<string, Promise<void>>()

  /** Runs `work` after whatever else is being done in this namespace, with a handle of its own for the wait; gives back what it gives. */
  async take<T>(netns: Netns, work: (held: Netns) => Promise<T>): Promise<T> {
    const key = formatNetns(netns)
    const held = netns.share()
    const before = this.#last.get(key)
    let end: () => void = () => undefined
    const turn = new Promise<void>((resolve) => (end = resolve))
    this.#last.set(key, turn)
    try {
      await before
      return await work(held)
    } finally {
      if (this.#last.get(key) === turn) this.#last.delete(key)
      held.close()
      end()
    }
  }
}
