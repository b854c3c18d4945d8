// SPDX-License-Identifier: Apache-2.0
// What those who sign, serve and distribute see of an authority, wherever its key comes from: the bundle of the moment and word of every other one.

import { formatError } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import type { SigningBundle } from './signing-bundle.js'

export interface Authority {
  /** What to sign with now; undefined until start() has resolved. */
  readonly bundle: SigningBundle | undefined
  /** Revocation lists in PEM form; empty without any. */
  readonly crl: string
  /** Resolves when there is a bundle; keeps it up to date from then on, until the signal aborts. Rejects with InvalidInput when what is there cannot be used. */
  start(signal: AbortSignal): Promise<void>
  /** Looks at once whether something changed where the key comes from. Never rejects. */
  check(): Promise<void>
  /** Called after each change of bundle or crl. Returns what ends that. */
  onChange(listener: () => void): () => void
}

/** Those who want to know; one that throws is logged and keeps nobody else from being told. */
export class Listeners {
  readonly #all = new Set<() => void>()

  constructor(readonly log: Logger) {}

  add(listener: () => void): () => void {
    this.#all.add(listener)
    return () => void this.#all.delete(listener)
  }

  tell(): void {
    for (const listener of [...this.#all]) {
      try {
        listener()
      } catch (error) {
        this.log.error({ error: formatError(error) }, 'a listener of the authority failed')
      }
    }
  }
}
