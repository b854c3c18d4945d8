// SPDX-License-Identifier: Apache-2.0
// One piece of work after the other, where pieces of the same kind that wait right behind each other are done in one go: many pods that come at once cost
// one change of what they share, not one each. For the probe set; knows nothing of it.

/** What failed, by item; all others went well. */
export type Failures<I> = ReadonlyMap<I, unknown>

interface Joined {
  readonly together: unknown
  readonly items: unknown[]
  readonly failures: Promise<Failures<unknown>>
}

const mostItems = 200

export class JoinedTurns {
  #last: Promise<unknown> = Promise.resolve()
  /** The last in the queue, as long as it has not begun. */
  #open: Joined | undefined

  /** After everything that was asked for before; gives back what it gives. */
  run<T>(work: () => Promise<T>): Promise<T> {
    this.#open = undefined
    const turn = this.#last.then(work)
    this.#last = turn.catch(() => undefined)
    return turn
  }

  /**
   * The same for one item, together with others of the same kind where nothing else was asked for in between. `together` tells the kind: the same function
   * each time. Rejects with the item's failure.
   */
  async join<I>(item: I, together: (items: readonly I[]) => Promise<Failures<I>>): Promise<void> {
    const open = this.#open
    const joined = open?.together === together && open.items.length < mostItems ? open : this.#begin(together)
    joined.items.push(item)
    const failures = await joined.failures
    if (failures.has(item)) throw failures.get(item)
  }

  #begin<I>(together: (items: readonly I[]) => Promise<Failures<I>>): Joined {
    const items: I[] = []
    const failures = this.run(() => {
      if (this.#open === joined) this.#open = undefined
      return together(items)
    })
    const joined: Joined = { together, items, failures }
    this.#open = joined
    return joined
  }
}
