// SPDX-License-Identifier: Apache-2.0
// Keys that somebody asked for and that were answered: which, how, for how long. Bounded; the longest unused goes first. For the address book.

import { LRUCache } from 'lru-cache'
import type { Clock } from '../../base/clock.js'

export interface AskedOptions {
  readonly clock: Clock
  readonly mostKeys: number
  /** An answer that nobody looks at for so long is let go of. */
  readonly foundMs: number
  /** "Nobody has it" holds so long, looked at or not. */
  readonly nobodyMs: number
}

type Kind = 'found' | 'nobody'

export class Asked {
  readonly #options: AskedOptions
  readonly #cache: LRUCache<string, Kind>
  readonly #expired: string[] = []
  #nobody = 0

  constructor(options: AskedOptions) {
    this.#options = options
    this.#cache = new LRUCache<string, Kind>({
      max: options.mostKeys + 1, // one more than is kept: what goes is chosen by its owner, who must tell others of it
      ttl: options.foundMs,
      ttlResolution: 0,
      perf: { now: () => options.clock.monotonic() + 1 }, // 0 would mean "without a time"
      // What is too old still holds while nobody can say better, and goes when its owner asks for what is too old.
      allowStale: true,
      noDeleteOnStaleGet: true,
      onInsert: (kind, _key, reason) => {
        if (kind === 'nobody' && reason !== 'update') this.#nobody++
      },
      dispose: (kind, key, reason) => {
        if (kind === 'nobody') this.#nobody--
        if (reason === 'expire') this.#expired.push(key)
      },
    })
  }

  get size(): number {
    return this.#cache.size
  }

  /** Keys that nobody has. */
  get nobodySize(): number {
    return this.#nobody
  }

  /** The longest unused first. */
  keys(): Iterable<string> {
    return this.#cache.rkeys()
  }

  /** Whether it was answered, however long ago. */
  has(key: string): boolean {
    return this.#cache.peek(key) !== undefined
  }

  /** Somebody looks at it: true when its answer still holds. */
  use(key: string): boolean {
    const kind = this.#cache.peek(key, { allowStale: false })
    if (kind === undefined) return false
    this.#cache.get(key, { updateAgeOnGet: kind === 'found' })
    return true
  }

  /** Somebody looks at it while the control plane is away: true when it was ever answered. */
  useStale(key: string): boolean {
    return this.#cache.get(key) !== undefined
  }

  /** It was answered now. */
  put(key: string, kind: Kind): void {
    this.#cache.set(key, kind, { ttl: kind === 'found' ? this.#options.foundMs : this.#options.nobodyMs })
  }

  /** An answer that is known changed. Nothing when it is not known, or the same. */
  turn(key: string, kind: Kind): void {
    const before = this.#cache.peek(key)
    if (before !== undefined && before !== kind) this.put(key, kind)
  }

  delete(key: string): void {
    this.#cache.delete(key)
  }

  /** Takes out the longest unused. */
  pop(): string | undefined {
    for (const key of this.#cache.rkeys()) {
      this.#cache.delete(key)
      return key
    }
    return undefined
  }

  /** Takes out those whose time is over. */
  takeExpired(): readonly string[] {
    this.#cache.purgeStale()
    return this.#expired.splice(0)
  }
}
