// SPDX-License-Identifier: Apache-2.0
// One watch of one kind, from a version until it ends. For the reflector. Distrusts silence: a watch that shows neither event nor bookmark
// for too long is ended.

import type { Clock } from '../base/clock.js'
import { Retryable, formatError } from '../base/errors.js'
import { kubeLimits } from './limits.js'
import { formatSelection, selectAccept, type Selection } from './list.js'
import type { Kind } from './records.js'
import { Gone, selectEncoding, sendChecked, withDeadline } from './requests.js'
import type { WatchEvent } from './wire.js'

/** The watch was open and silent for longer than is believed. */
export class WentSilent extends Retryable {}

/** The connection of an open watch broke. */
export class WatchBroken extends Retryable {}

export interface WatchOptions<K extends Kind> {
  readonly clock: Clock
  readonly apiVersion: string
  /** Go on from here. */
  readonly version: string
  /** When the server should end it. */
  readonly timeoutSeconds: number
  readonly signal: AbortSignal
  /** The server has accepted it. */
  onOpen(): void
  /** Never an ERROR event: that is thrown. */
  onEvent(event: Exclude<WatchEvent<K>, { type: 'ERROR' }>): void
}

/**
 * Resolves when the server ends the watch in good order. Rejects with Gone (list again), WentSilent, WatchBroken, HttpFailure (it was never
 * open), InvalidInput (what came cannot be decoded: list again) or another Retryable.
 */
export async function watchFrom<K extends Kind>(selection: Selection<K>, options: WatchOptions<K>): Promise<void> {
  const { api, kind, cluster } = selection
  const path = formatSelection(selection, options.apiVersion, {
    watch: 'true',
    allowWatchBookmarks: 'true',
    resourceVersion: options.version,
    timeoutSeconds: String(options.timeoutSeconds),
  })
  await withDeadline(options.clock, kubeLimits.connectTimeoutMs, options.signal, async (signal, reached) => {
    const response = await sendChecked(api, { path, accept: selectAccept(kind) }, `watch ${kind}`, signal)
    reached()
    options.onOpen()
    const decoder = selectEncoding(response).createWatchDecoder(kind, cluster)
    const dog = new Watchdog(options.clock, () => response.body.destroy(new WentSilent(`watch ${kind}: silent`)))
    let reading = true
    try {
      for await (const chunk of response.body as AsyncIterable<Buffer>) {
        reading = false
        for (const event of decoder.push(chunk)) {
          dog.heard()
          if (event.type === 'ERROR') throw toError(kind, event.status)
          options.onEvent(event)
        }
        reading = true
      }
    } catch (error) {
      if (!reading || error instanceof WentSilent || signal.aborted) throw error
      throw new WatchBroken(`watch ${kind}: the connection broke: ${formatError(error)}`, error)
    } finally {
      dog.stop()
      response.body.destroy()
    }
  })
}

function toError(kind: Kind, status: { code: number; reason: string; message: string }): Retryable {
  const text = `watch ${kind}: the API server ends it: ${status.code} ${status.reason} ${status.message}`
  // Whatever it is, what this watch would have shown is lost: only a list tells the truth.
  return new Gone(text)
}

/** Fires once when nothing was heard for `kubeLimits.watchdogMs`. One timer, however much is heard. */
class Watchdog {
  readonly #clock: Clock
  readonly #bark: () => void
  #lastHeard: number
  #timer

  constructor(clock: Clock, bark: () => void) {
    this.#clock = clock
    this.#bark = bark
    this.#lastHeard = clock.monotonic()
    this.#timer = clock.after(kubeLimits.watchdogMs, () => this.#look())
  }

  heard(): void {
    this.#lastHeard = this.#clock.monotonic()
  }

  stop(): void {
    this.#timer.cancel()
  }

  #look(): void {
    const rest = this.#lastHeard + kubeLimits.watchdogMs - this.#clock.monotonic()
    if (rest <= 0) this.#bark()
    else this.#timer = this.#clock.after(rest, () => this.#look())
  }
}
