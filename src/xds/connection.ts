// SPDX-License-Identifier: Apache-2.0
// One HTTP/2 connection: pings, age, resets, and its end in good order. For the front. Knows no calls beyond how many there are.

import { constants } from 'node:http2'
import type { ServerHttp2Session } from 'node:http2'
import type { Clock, Timer } from '../base/clock.js'
import type { Logger } from '../base/log.js'
import { toCaller } from './caller.js'
import type { Caller } from './caller.js'
import type { XdsLimits } from './limits.js'
import type { Session } from './session.js'

export interface ConnectionOptions {
  readonly clock: Clock
  readonly limits: XdsLimits
  readonly log: Logger
  /** Between 0 and 1: spreads ages. */
  readonly random: () => number
  /** A client answered no ping; its connection is about to be cut. */
  onSilent(connection: Connection): void
}

export class Connection {
  readonly caller: Caller
  /** Delta streams on it. */
  readonly sessions = new Set<Session>()
  /** Other calls on it. */
  calls = 0
  /** Resolves when the connection is closed. */
  readonly gone: Promise<void>
  readonly #session: ServerHttp2Session
  readonly #options: ConnectionOptions
  readonly #timers = new Set<Timer>()
  #ping: Timer | undefined
  #resets = 0
  #resetsSinceMs = 0
  #finishing = false
  #trusted = false

  constructor(session: ServerHttp2Session, options: ConnectionOptions) {
    this.#session = session
    this.#options = options
    this.caller = toCaller(session)
    this.gone = new Promise((resolve) => {
      session.once('close', () => {
        for (const timer of this.#timers) timer.cancel()
        this.#ping?.cancel()
        resolve()
      })
    })
    session.on('error', () => undefined) // 'close' follows
    const { limits, random } = options
    if (limits.maxConnectionAgeMs > 0) {
      this.#later(limits.maxConnectionAgeMs * (0.9 + 0.2 * random()), () => this.finish('age'))
    }
    this.#pingLater()
  }

  /** Somebody on it proved who they are: it may send as much at a time as others. */
  trust(windowBytes: number): void {
    if (this.#trusted || this.#session.destroyed) return
    this.#trusted = true
    this.#session.setLocalWindowSize(windowBytes)
  }

  /** Ends the delta streams with OK and says goodbye; what does not end by itself is cut after a grace. */
  finish(reason: string): void {
    if (this.#finishing || this.#session.destroyed) return
    this.#finishing = true
    this.#options.log.debug({ peer: this.caller.address, reason }, 'connection ends')
    for (const session of this.sessions) session.finish()
    // GOAWAY; closes once the last stream is done.
    this.#session.close()
    this.#later(this.#options.limits.endGraceMs, () => this.cut())
  }

  cut(): void {
    this.#session.destroy()
  }

  /** After a stream that nobody reads: the connection under it is as dead, unless others use it. */
  cutIfIdle(): void {
    if (this.sessions.size <= 1 && this.calls === 0)
      this.#session.destroy(undefined, constants.NGHTTP2_ENHANCE_YOUR_CALM)
  }

  /** The client took a call back. Who does so all the time works us for nothing. */
  countReset(): void {
    const now = this.#options.clock.monotonic()
    if (now - this.#resetsSinceMs >= 1000) {
      this.#resetsSinceMs = now
      this.#resets = 0
    }
    this.#resets++
    if (this.#resets <= this.#options.limits.maxResetsPerSecond) return
    this.#options.log.warn({ peer: this.caller.address, resets: this.#resets }, 'too many resets; connection cut')
    this.#session.destroy(undefined, constants.NGHTTP2_ENHANCE_YOUR_CALM)
  }

  #pingLater(): void {
    const { clock, limits } = this.#options
    this.#ping = clock.after(limits.keepaliveMs, () => this.#sendPing())
  }

  #sendPing(): void {
    if (this.#session.destroyed) return
    const { clock, limits, log } = this.#options
    let isAnswered = false
    const deadline = clock.after(limits.keepaliveTimeoutMs, () => {
      // Timers go first after a turn that took long: an answer that lies there is read before the client is judged.
      setImmediate(() => {
        if (isAnswered || this.#session.destroyed) return
        log.info({ peer: this.caller.address }, 'client does not answer; connection cut')
        this.#options.onSilent(this)
        this.cut()
      })
    })
    this.#ping = deadline
    this.#session.ping((error) => {
      isAnswered = true
      deadline.cancel()
      if (error === null && !this.#session.destroyed) this.#pingLater()
    })
  }

  #later(delayMs: number, task: () => void): void {
    const timer = this.#options.clock.after(delayMs, () => {
      this.#timers.delete(timer)
      task()
    })
    this.#timers.add(timer)
  }
}
