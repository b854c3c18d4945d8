// SPDX-License-Identifier: Apache-2.0
// Callers who want to hear again whenever their answer changes. Commits only mark them; answers are made afterwards, once, from what is true then,
// and a caller that does not read is not written to. Never keeps a commit waiting.

/** Where answers of one caller go. */
export interface WatchTarget<Answer> {
  /** False: it takes no more until `ready` is called. */
  write(answer: Answer): boolean
  /** Called once when it takes more, or is gone. */
  whenReady(ready: () => void): void
  isOpen(): boolean
}

interface Watcher<Answer> {
  readonly target: WatchTarget<Answer>
  readonly make: () => Answer
  last: string
  isBlocked: boolean
}

export class Watchers<Answer> {
  readonly #watchers = new Set<Watcher<Answer>>()
  #isScheduled = false

  get size(): number {
    return this.#watchers.size
  }

  /** Sends the answer of now, and from then on each one that differs. */
  add(target: WatchTarget<Answer>, make: () => Answer): { stop(): void } {
    const watcher: Watcher<Answer> = { target, make, last: '', isBlocked: false }
    this.#watchers.add(watcher)
    this.#tell(watcher)
    return { stop: () => void this.#watchers.delete(watcher) }
  }

  /** Something may have changed. Cheap; to be called from a commit. */
  wake(): void {
    if (this.#isScheduled || this.#watchers.size === 0) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      for (const watcher of this.#watchers) this.#tell(watcher)
    })
  }

  #tell(watcher: Watcher<Answer>): void {
    if (watcher.isBlocked || !this.#watchers.has(watcher) || !watcher.target.isOpen()) return
    const answer = watcher.make()
    const text = JSON.stringify(answer)
    if (text === watcher.last) return
    watcher.last = text
    if (watcher.target.write(answer)) return
    watcher.isBlocked = true
    watcher.target.whenReady(() => {
      watcher.isBlocked = false
      this.#tell(watcher)
    })
  }
}
