// SPDX-License-Identifier: Apache-2.0
// Keys of things to be put right, one after another: each once however often it is asked for, slower when it fails, and slower and slower when
// it has to be done again and again because somebody else undoes it. For the writers of this folder. Keeps nothing between two runs.

import { createBackoff, type Backoff } from '../base/backoff.js'
import { sleep, type Clock } from '../base/clock.js'
import { Retryable, formatError } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import { HttpFailure } from '../kube/requests.js'

/** `done`: nothing is left to do. `written`: so it is now. `again`: somebody was faster; look anew. */
export type WorkOutcome = 'done' | 'written' | 'again'

export interface WorkQueueOptions {
  readonly clock: Clock
  readonly log: Logger
  /** What the keys are, for logs. */
  readonly kind: string
  /** Errors are tried again when they are Retryable and dropped otherwise. */
  readonly perform: (key: string, signal: AbortSignal) => Promise<WorkOutcome>
  /** Told of each outcome, `failed` and `dropped` among them. */
  readonly onOutcome: (outcome: WorkOutcome | 'failed' | 'dropped') => void
  readonly random: () => number
}

export const workLimits = {
  /** Between two keys. */
  paceMs: 20,
  /** How often `again` is taken for an answer. */
  conflicts: 5,
  backoffMinMs: 500,
  backoffMaxMs: 60_000,
  /** From one write of a key to the next, at first and at most. It doubles as long as writes follow each other that closely. */
  spacingMinMs: 1_000,
  spacingMaxMs: 300_000,
} as const

interface Trouble {
  readonly backoff: Backoff
  conflicts: number
  /** What was said of it last. */
  said: string
}

interface Spacing {
  readonly writtenMs: number
  readonly spacingMs: number
}

export class WorkQueue {
  readonly #options: WorkQueueOptions
  /** Key to the time from which it may be performed. */
  readonly #due = new Map<string, number>()
  readonly #troubles = new Map<string, Trouble>()
  readonly #spacings = new Map<string, Spacing>()
  #wake: () => void = () => undefined
  #running = false

  constructor(options: WorkQueueOptions) {
    this.#options = options
  }

  /** Keys that wait. */
  get size(): number {
    return this.#due.size
  }

  /** Ignored while it does not run: whoever starts it adds what there is. A key that failed is given another chance at once. */
  add(key: string): void {
    if (!this.#running) return
    const trouble = this.#troubles.get(key)
    if (trouble !== undefined) trouble.conflicts = 0
    const now = this.#options.clock.monotonic()
    const { writtenMs, spacingMs } = this.#spacings.get(key) ?? { writtenMs: now, spacingMs: 0 }
    const due = Math.max(now, writtenMs + spacingMs)
    this.#due.set(key, Math.min(due, this.#due.get(key) ?? due))
    this.#wake()
  }

  /** Works until the signal aborts. `start` is called when keys may be added. */
  async run(signal: AbortSignal, start: () => void): Promise<void> {
    this.#running = true
    try {
      start()
      while (!isAborted(signal)) {
        const key = this.#selectDue()
        if (key === undefined) await this.#rest(signal)
        else {
          this.#due.delete(key)
          await this.#perform(key, signal)
          await sleep(this.#options.clock, workLimits.paceMs, signal)
        }
      }
    } catch (error) {
      if (!isAborted(signal)) throw error
    } finally {
      this.#running = false
      this.#due.clear()
      this.#troubles.clear()
      this.#spacings.clear()
    }
  }

  /** The key that has waited longest of those whose time has come. */
  #selectDue(): string | undefined {
    const now = this.#options.clock.monotonic()
    for (const [key, due] of this.#due) if (due <= now) return key
    return undefined
  }

  /** Until the next key is due, or one is added. */
  async #rest(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options
    const now = clock.monotonic()
    this.#forgetOldSpacings(now)
    let next = Infinity
    for (const due of this.#due.values()) next = Math.min(next, due)
    await new Promise<void>((resolve) => {
      const timer = next === Infinity ? undefined : clock.after(next - now, resolve)
      const end = (): void => {
        timer?.cancel()
        resolve()
      }
      this.#wake = end
      signal.addEventListener('abort', end, { once: true })
      if (signal.aborted) end()
    })
    this.#wake = () => undefined
  }

  async #perform(key: string, signal: AbortSignal): Promise<void> {
    const { perform, onOutcome } = this.#options
    try {
      const outcome = await perform(key, signal)
      onOutcome(outcome)
      if (outcome === 'again') this.#takeConflict(key)
      else this.#troubles.delete(key)
      if (outcome === 'written') this.#space(key)
    } catch (error) {
      if (isAborted(signal)) throw error
      this.#takeFailure(key, error)
    }
  }

  #space(key: string): void {
    const now = this.#options.clock.monotonic()
    const last = this.#spacings.get(key)
    const isQuiet = last === undefined || now - last.writtenMs > 2 * last.spacingMs
    const spacingMs = isQuiet ? workLimits.spacingMinMs : Math.min(2 * last.spacingMs, workLimits.spacingMaxMs)
    this.#spacings.set(key, { writtenMs: now, spacingMs })
    // It may have been asked for once more while it was written.
    const due = this.#due.get(key)
    if (due !== undefined) this.#due.set(key, Math.max(due, now + spacingMs))
  }

  #forgetOldSpacings(now: number): void {
    for (const [key, { writtenMs, spacingMs }] of this.#spacings)
      if (now - writtenMs > 2 * spacingMs) this.#spacings.delete(key)
  }

  #takeConflict(key: string): void {
    const { log, kind } = this.#options
    const trouble = this.#troubleOf(key)
    trouble.conflicts++
    if (trouble.conflicts < workLimits.conflicts) this.#retry(key, trouble.backoff.next())
    else {
      this.#troubles.delete(key)
      log.warn(
        { kind, object: key, tries: trouble.conflicts },
        'others keep changing an object; nothing is written until it changes once more',
      )
    }
  }

  #takeFailure(key: string, error: unknown): void {
    const { log, kind, onOutcome } = this.#options
    const fields = { kind, object: key, error: formatError(error), ...toHint(error) }
    if (!(error instanceof Retryable)) {
      onOutcome('dropped')
      this.#troubles.delete(key)
      log.warn(fields, 'an object cannot be written and is passed over')
      return
    }
    onOutcome('failed')
    const trouble = this.#troubleOf(key)
    if (trouble.said === fields.error) log.debug(fields, 'an object cannot be written yet')
    else log.warn(fields, 'an object cannot be written yet')
    trouble.said = fields.error
    const asked = error instanceof HttpFailure ? (error.retryAfterMs ?? 0) : 0
    this.#retry(key, Math.max(trouble.backoff.next(), Math.min(asked, workLimits.backoffMaxMs)))
  }

  #troubleOf(key: string): Trouble {
    const known = this.#troubles.get(key)
    if (known !== undefined) return known
    const { backoffMinMs: initialMs, backoffMaxMs: maxMs } = workLimits
    const backoff = createBackoff({ initialMs, maxMs, random: this.#options.random })
    const fresh: Trouble = { backoff, conflicts: 0, said: '' }
    this.#troubles.set(key, fresh)
    return fresh
  }

  #retry(key: string, afterMs: number): void {
    const due = this.#options.clock.monotonic() + afterMs
    // Added in the meantime: that is a newer wish, and it is asked no sooner than this one would be.
    this.#due.set(key, Math.max(due, this.#due.get(key) ?? due))
  }
}

function toHint(error: unknown): { readonly hint?: string } {
  return error instanceof HttpFailure && error.status === 403
    ? { hint: 'grant it to the account this program runs as, or turn the writer off' }
    : {}
}

/** Asked through a function: the compiler would otherwise believe the answer of before an await. */
function isAborted(signal: AbortSignal): boolean {
  return signal.aborted
}
