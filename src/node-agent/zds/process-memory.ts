// SPDX-License-Identifier: Apache-2.0
// What is remembered of ztunnel processes between their connections: a process that connects again still has its proxies, one that was started anew has
// none, whatever its predecessor had. For the server. Bounded; processes that are gone are forgotten.

import type { ZdsConnection } from './connection.js'
import type { RememberedHoldings } from './holdings.js'
import { formatIdentity } from './processes.js'
import type { ProcessIdentity, Processes } from './processes.js'

interface Remembered {
  readonly identity: ProcessIdentity
  readonly holdings: RememberedHoldings
  readonly isSuspect: boolean
  readonly mayHoldUnknown: boolean
}

/** Two run during an upgrade; more are there only while something crashes and restarts. */
const most = 16

export class ProcessMemory {
  readonly #processes: Processes
  readonly #known = new Map<string, Remembered>()

  constructor(processes: Processes) {
    this.#processes = processes
  }

  /** Gives a connection that said hello what is known of its process. */
  recall(connection: ZdsConnection): void {
    this.#forgetGone()
    const { identity } = connection
    // Who cannot be told from others may be anybody who was there before.
    if (identity === undefined) return
    const known = this.#known.get(formatIdentity(identity))
    const own = this.#processes.own
    if (known !== undefined) {
      connection.isSuspect = known.isSuspect
      connection.holdings.remember(known.holdings)
      connection.mayHoldUnknown = known.mayHoldUnknown
    } else if (own !== undefined) {
      // It began after us and never was here: nobody can have told it anything.
      connection.mayHoldUnknown = identity.startTicks <= own.startTicks
    }
  }

  /** At the end of a connection. Closes what it held. */
  keep(connection: ZdsConnection, isSuspect: boolean): void {
    const holdings = connection.forget()
    const { identity } = connection
    if (identity === undefined || !connection.saidHello) return
    const key = formatIdentity(identity)
    this.#known.delete(key)
    // The end of a snapshot stops every proxy that was not in it.
    const mayHoldUnknown = connection.mayHoldUnknown && !connection.tookSnapshot
    this.#known.set(key, { identity, holdings, isSuspect: isSuspect || connection.isSuspect, mayHoldUnknown })
    for (const oldest of [...this.#known.keys()].slice(0, Math.max(0, this.#known.size - most))) {
      this.#known.delete(oldest)
    }
  }

  /** It took a snapshot: what it did before is forgiven. */
  clear(connection: ZdsConnection): void {
    if (connection.identity !== undefined) this.#known.delete(formatIdentity(connection.identity))
  }

  #forgetGone(): void {
    for (const [key, { identity }] of this.#known) if (!this.#processes.isRunning(identity)) this.#known.delete(key)
  }
}
