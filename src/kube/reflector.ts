// SPDX-License-Identifier: Apache-2.0
// Keeps one Source equal to one kind of an API server: list, then watch, for ever. One loop a kind, one request at a time. What is known
// stays until a whole list or an event says otherwise; a new list is compared, never passed through emptiness.

import { sleep, type Clock } from '../base/clock.js'
import { Fatal, Retryable, formatError } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import type { Source } from '../collection/types.js'
import type { KubeMetrics } from './kube-metrics.js'
import { kubeLimits } from './limits.js'
import { ListExpired, listAll, type Selection } from './list.js'
import { selectVersions } from './locate.js'
import type { Kind, RecordByKind } from './records.js'
import { Outage } from './outage.js'
import { Gone, HttpFailure } from './requests.js'
import { resourceTypes } from './resources.js'
import { Rows } from './rows.js'
import { WatchBroken, WentSilent, watchFrom } from './watch.js'
import type { WatchEvent } from './wire.js'

export interface ReflectorOptions<K extends Kind> {
  readonly selection: Selection<K>
  readonly source: Source<RecordByKind[K]>
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: KubeMetrics
  /** Of all who read from the same server; its own when left out. */
  readonly outage?: Outage
  /** 0 up to 1, for jitter. */
  readonly random: () => number
}

export class Reflector<K extends Kind> {
  readonly kind: K
  /** Resolves when the kind has been listed once, or is known not to exist. */
  readonly synced: Promise<void>
  readonly #options: ReflectorOptions<K>
  readonly #rows: Rows<K>
  readonly #outage: Outage
  #resolveSynced: () => void = () => undefined
  #isSynced = false
  /** Where the next watch goes on; undefined = list first. */
  #version: string | undefined
  #apiVersion = ''
  /** Ends in a row without a healthy watch between them. */
  #failures = 0
  /** The last watch ended in silence, too. */
  #silent = false
  #expiredLists = 0
  #absentSeen = 0
  #lastTry = -Infinity

  constructor(options: ReflectorOptions<K>) {
    this.kind = options.selection.kind
    this.#options = options
    this.#outage = options.outage ?? new Outage()
    this.#rows = new Rows(this.kind, options.source, options.log, options.metrics)
    this.synced = new Promise((resolve) => {
      this.#resolveSynced = resolve
    })
  }

  get isSynced(): boolean {
    return this.#isSynced
  }

  /** The resourceVersion up to which everything is in the source; empty before the first list and while the kind is absent. */
  get seen(): string {
    return this.#version ?? ''
  }

  /** Reads until the signal aborts. Rejects only with Fatal. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      let pauseMs: number
      try {
        pauseMs = await this.#step(signal)
      } catch (error) {
        if (isAborted(signal)) break
        if (error instanceof Fatal) throw error
        pauseMs = this.#judge(error)
      }
      if (pauseMs <= 0) continue
      try {
        await sleep(this.#options.clock, pauseMs, signal)
      } catch {
        break // sleep rejects only when the signal aborts
      }
    }
  }

  /** Lists when that is needed, then watches until the watch ends in good order. Gives the pause before the next step. */
  async #step(signal: AbortSignal): Promise<number> {
    this.#lastTry = this.#options.clock.monotonic()
    if (this.#version === undefined && !(await this.#list(signal))) return this.#pauseWhileAbsent()
    await this.#watch(signal)
    this.#options.metrics.countEnd(this.kind, 'closed')
    this.#failures++
    return this.#pauseAfterWatch()
  }

  /** False when the kind is not there. */
  async #list(signal: AbortSignal): Promise<boolean> {
    const { selection, clock, metrics, log } = this.#options
    const versions =
      this.#apiVersion === ''
        ? await selectVersions(selection.api, resourceTypes[this.kind], clock, signal)
        : [this.#apiVersion]
    for (const apiVersion of versions) {
      try {
        const pageSize = this.#expiredLists > 1 ? 0 : kubeLimits.pageSize
        const listed = await listAll(selection, { clock, apiVersion, pageSize, signal })
        metrics.countRequest(this.kind, 'list', 200)
        this.#outage.end()
        this.#apiVersion = apiVersion
        this.#expiredLists = 0
        this.#absentSeen = 0
        this.#rows.replace(listed.items)
        this.#version = listed.version
        log.debug({ kind: this.kind, objects: listed.items.length, version: listed.version }, 'listed')
        this.#markSynced()
        return true
      } catch (error) {
        if (!isAborted(signal)) metrics.countRequest(this.kind, 'list', error instanceof HttpFailure ? error.status : 0)
        if (!(error instanceof HttpFailure && error.status === 404 && resourceTypes[this.kind].custom)) throw error
      }
    }
    this.#apiVersion = ''
    return false
  }

  async #watch(signal: AbortSignal): Promise<void> {
    const { selection, clock, metrics, random } = this.#options
    const seen: { opened?: number; heard: boolean } = { heard: false }
    try {
      await watchFrom(selection, {
        clock,
        apiVersion: this.#apiVersion,
        version: this.#version ?? '',
        timeoutSeconds: Math.round(kubeLimits.watchTimeoutSeconds * (1 + random())),
        signal,
        onOpen: () => {
          seen.opened = clock.monotonic()
          this.#outage.end()
          metrics.countRequest(this.kind, 'watch', 200)
        },
        onEvent: (event) => {
          seen.heard = true
          this.#silent = false
          this.#take(event)
        },
      })
    } catch (error) {
      if (seen.opened === undefined && !isAborted(signal)) {
        const status = error instanceof HttpFailure ? error.status : error instanceof Gone ? 410 : 0
        metrics.countRequest(this.kind, 'watch', status)
      }
      throw error
    } finally {
      const lived = seen.opened === undefined ? 0 : clock.monotonic() - seen.opened
      if (seen.heard || lived >= kubeLimits.backoffMinMs) this.#failures = 0
    }
  }

  #take(event: Exclude<WatchEvent<K>, { type: 'ERROR' }>): void {
    if (event.type === 'BOOKMARK') {
      this.#version = event.version
      return
    }
    if (event.type === 'DELETED') this.#rows.remove(event.item)
    else this.#rows.set(event.item)
    if (event.item.version !== '') this.#version = event.item.version
  }

  /** What an error means for the next step; gives the pause before it. */
  #judge(error: unknown): number {
    const { log, metrics } = this.#options
    this.#failures++
    const fields = { kind: this.kind, error: formatError(error) }
    if (error instanceof WentSilent) {
      metrics.countEnd(this.kind, 'silent')
      // Going on from the last version shows exactly what was missed; a server that is silent again is asked for everything.
      if (this.#silent) this.#version = undefined
      this.#silent = !this.#silent
      log.info(fields, 'a watch went silent and is opened again')
      return this.#pauseAfterWatch()
    }
    if (error instanceof WatchBroken) {
      metrics.countEnd(this.kind, 'broken')
      log.info(fields, 'a watch broke and is opened again')
      return this.#pauseAfterWatch()
    }
    if (error instanceof Gone) {
      metrics.countEnd(this.kind, 'gone')
      this.#version = undefined
      log.info(fields, 'the history is gone and the kind is listed again')
      return this.#pauseAfterWatch()
    }
    if (error instanceof ListExpired) this.#expiredLists++
    // What cannot be decoded, or put in place, would only come again: a list may show it otherwise.
    if (!(error instanceof Retryable)) this.#version = undefined
    if (error instanceof HttpFailure && error.status === 404) this.#version = undefined
    this.#failures = Math.max(2, this.#failures)
    const asked = error instanceof HttpFailure ? (error.retryAfterMs ?? 0) : 0
    const exactPauseMs = Math.max(this.#backoff(this.#failures - 1), Math.min(asked, kubeLimits.retryAfterMaxMs))
    const pauseMs = Math.round(exactPauseMs)
    if (error instanceof HttpFailure && (error.status === 401 || error.status === 403)) {
      const { group, plural } = resourceTypes[this.kind]
      const resource = group === '' ? plural : `${plural}.${group}`
      const hint = `grant list and watch on ${resource} to the account this program runs as`
      log.error(
        { ...fields, verb: this.#version === undefined ? 'list' : 'watch', resource, hint, pauseMs },
        'the API server denies access',
      )
    } else {
      // What a server answers is said of each kind; that it is away concerns all of them alike.
      const isNews = error instanceof HttpFailure || this.#outage.isNews(fields.error, this.#options.clock.monotonic())
      const level = isNews ? 'warn' : 'debug'
      log[level]({ ...fields, pauseMs }, 'the API server could not be read and is asked again')
    }
    return exactPauseMs
  }

  /** After a watch that was open: at once, but not more than one try a second; a server that ends each one at once is left alone for longer. */
  #pauseAfterWatch(): number {
    if (this.#failures > 3) return this.#backoff(this.#failures - 2)
    const { clock } = this.#options
    return this.#failures <= 1 ? 0 : Math.max(0, this.#lastTry + kubeLimits.backoffMinMs - clock.monotonic())
  }

  /** The n-th pause: between half and the whole of a time that doubles. */
  #backoff(n: number): number {
    const whole = Math.min(kubeLimits.backoffMaxMs, kubeLimits.backoffMinMs * 2 ** n)
    return whole * (0.5 + 0.5 * this.#options.random())
  }

  /** No such resource. With rows in hand it is asked once more before they are believed gone: a server that starts up may not know yet. */
  #pauseWhileAbsent(): number {
    this.#absentSeen++
    if (this.#rows.size > 0 && this.#absentSeen < 2) return this.#backoff(1)
    if (this.#absentSeen <= 2)
      this.#options.log.info({ kind: this.kind }, 'the resource is not defined and counts as empty')
    this.#rows.replace([])
    this.#failures = 0
    this.#markSynced()
    return kubeLimits.absentRecheckMs * (0.5 + 0.5 * this.#options.random())
  }

  #markSynced(): void {
    this.#isSynced = true
    this.#resolveSynced()
  }
}

/** Asked through a function: the compiler would otherwise believe the answer of before an await. */
function isAborted(signal: AbortSignal): boolean {
  return signal.aborted
}
