// SPDX-License-Identifier: Apache-2.0
// What is remembered of tokens that were judged: briefly, to survive many calls with one token; longer, but only for the time in which the judge
// cannot be reached. Holds hashes, never tokens. Never remembers a token beyond the expiry that it names.

import { LRUCache } from 'lru-cache'
import type { Clock } from '../base/clock.js'
import { hashToken, readExpiryMs } from './bearer-token.js'
import type { Verdict } from './verdict.js'

interface Remembered {
  readonly verdict: Verdict
  /** Of the monotonic clock. */
  readonly judgedAtMs: number
  /** Of the wall clock; undefined when the token does not say. */
  readonly expiresAtMs: number | undefined
}

export interface TokenMemoryOptions {
  readonly clock: Clock
  /** An accepted token is not judged again for so long. */
  readonly acceptedMs: number
  /** A refused one. */
  readonly refusedMs: number
  /** An accepted token that names its expiry counts for so long while it cannot be judged again. */
  readonly outageMs: number
  /** Most tokens that are remembered. */
  readonly most: number
}

export class TokenMemory {
  readonly #options: TokenMemoryOptions
  readonly #remembered: LRUCache<string, Remembered>

  constructor(options: TokenMemoryOptions) {
    this.#options = options
    this.#remembered = new LRUCache({ max: options.most })
  }

  /** The verdict of a moment ago. */
  recall(token: string): Verdict | undefined {
    const { acceptedMs, refusedMs } = this.#options
    const found = this.#find(token)
    if (found === undefined) return undefined
    return this.#isWithin(found, found.verdict.kind === 'caller' ? acceptedMs : refusedMs) ? found.verdict : undefined
  }

  /** An acceptance that may stand in for one that cannot be had now. */
  recallAccepted(token: string): Verdict | undefined {
    const found = this.#find(token)
    if (found?.verdict.kind !== 'caller' || found.expiresAtMs === undefined) return undefined
    return this.#isWithin(found, this.#options.outageMs) ? found.verdict : undefined
  }

  remember(token: string, verdict: Verdict): void {
    const { clock } = this.#options
    this.#remembered.set(hashToken(token), {
      verdict,
      judgedAtMs: clock.monotonic(),
      expiresAtMs: readExpiryMs(token),
    })
  }

  #find(token: string): Remembered | undefined {
    const found = this.#remembered.get(hashToken(token))
    const isOver = found?.expiresAtMs !== undefined && found.expiresAtMs <= this.#options.clock.now()
    return isOver ? undefined : found
  }

  #isWithin(found: Remembered, ms: number): boolean {
    return this.#options.clock.monotonic() - found.judgedAtMs < ms
  }
}
