// SPDX-License-Identifier: Apache-2.0
// What went wrong with which row of one table, so that each failure is told once and not at every commit. For the engine only.

import type { OnFailure } from './types.js'

/** Remembers the last message of each failing row. Holds nothing for rows that do well. */
export class Failures {
  readonly #told = new Map<string, string>()

  constructor(
    readonly collection: string,
    readonly onFailure: OnFailure,
  ) {}

  get size(): number {
    return this.#told.size
  }

  has(key: string): boolean {
    return this.#told.has(key)
  }

  /** Tells of the failure of row `key`, unless the same was the last thing told of it. */
  report(key: string, error: unknown): void {
    const message = error instanceof Error ? error.message : String(error)
    if (this.#told.get(key) === message) return
    this.#told.set(key, message)
    tell(this.onFailure, { collection: this.collection, key, error })
  }

  /** The row does well again, or is gone. */
  clear(key: string): void {
    if (this.#told.size > 0) this.#told.delete(key)
  }
}

/** Calls `onFailure`; what it throws itself is dropped, for there is nobody left to tell. */
export function tell(onFailure: OnFailure, failure: Parameters<OnFailure>[0]): void {
  try {
    onFailure(failure)
  } catch {
    // The one who is told of failures failed: the commit must go on.
  }
}
