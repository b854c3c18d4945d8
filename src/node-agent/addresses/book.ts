// SPDX-License-Identifier: Apache-2.0
// The address book of a node: its own workloads, which come unasked, and what was looked up. Speaks on-demand delta discovery as a function of messages:
// answers in, requests out through `send`. Opens nothing; everything is synchronous between two messages.

import type { Clock, Timer } from '../../base/clock.js'
import { formatError, Retryable } from '../../base/errors.js'
import { decodeAddress } from '../../wire/address-decoder.js'
import { ADDRESS_TYPE } from '../../wire/messages.js'
import { Asked } from './asked.js'
import { Held, isInRange, type HeldAddress } from './held.js'
import type { DeltaAnswer, DeltaAsk, DeltaResource } from './messages.js'

export interface BookOptions {
  readonly clock: Clock
  readonly nodeName: string
  /** Bound of what is kept beside the node's own workloads: keys asked for and resources they brought. */
  readonly mostEntries: number
  readonly foundMs: number
  readonly nobodyMs: number
  /** How long a question waits for its answer. */
  readonly answerMs: number
}

export type Send = (ask: Omit<DeltaAsk, 'node'>) => void

/**
 * `current`: every key was answered, and what is here is kept up to date. `stale`: so it was until the control plane was lost.
 * `late`: some key was not answered in time. `unknown`: the control plane is away, and some key was never answered.
 */
export type Standing = 'current' | 'stale' | 'late' | 'unknown'

export interface Looked<T> {
  readonly standing: Standing
  readonly value: T
}

/** Counts since the start. */
export interface Received {
  responses: number
  resources: number
  removals: number
  rejected: number
}

/** `undefined` as the second: it is gone from this node. */
export type OwnListener = (name: string, held: HeldAddress | undefined) => void

interface Waiter {
  readonly missing: Set<string>
  settle(standing: Standing): void
}

export class Book {
  readonly held: Held
  readonly asked: Asked
  readonly received: Received = { responses: 0, resources: 0, removals: 0, rejected: 0 }
  readonly #options: BookOptions
  readonly #waiting = new Map<string, Set<Waiter>>()
  /** Keys sent and not answered yet. */
  readonly #pending = new Set<string>()
  /** Keys to be sent together at the end of this turn. */
  #unsent: Set<string> | undefined
  readonly #ownListeners: OwnListener[] = []
  readonly #standingListeners: (() => void)[] = []
  #send: Send | undefined
  #good = false
  #lost: { readonly monotonicMs: number; readonly wallMs: number } | undefined

  constructor(options: BookOptions) {
    this.#options = options
    this.held = new Held(options.nodeName)
    this.asked = new Asked({
      clock: options.clock,
      mostKeys: options.mostEntries,
      foundMs: options.foundMs,
      nobodyMs: options.nobodyMs,
    })
  }

  /** A stream is open and its first answer has come: what is here is what the control plane serves. */
  get isGood(): boolean {
    return this.#good
  }

  /** When the control plane was last known to be there, wall time in ms: now while it is; undefined when it never was. */
  get lastSeenMs(): number | undefined {
    return this.#good ? this.#options.clock.now() : this.#lost?.wallMs
  }

  /** Since the stream that was good ended; 0 while one is, undefined when none ever was. */
  get ageMs(): number | undefined {
    if (this.#good) return 0
    return this.#lost === undefined ? undefined : this.#options.clock.monotonic() - this.#lost.monotonicMs
  }

  /** Told of every workload of this node that comes, changes or goes. */
  onOwn(listener: OwnListener): void {
    this.#ownListeners.push(listener)
  }

  /** Told when the control plane came or was lost. */
  onStanding(listener: () => void): void {
    this.#standingListeners.push(listener)
  }

  /** What a stream says first. `send` is used until `close`. */
  open(send: Send): Omit<DeltaAsk, 'node'> {
    this.#send = send
    this.#unsent = undefined
    const initialVersions = new Map<string, string>()
    for (const key of this.asked.keys()) initialVersions.set(key, '')
    for (const { name, version } of this.held.all()) initialVersions.set(name, version)
    return { typeUrl: ADDRESS_TYPE, subscribe: ['*'], unsubscribe: ['*'], initialVersions }
  }

  /** The stream is over. Who waits is answered from what is here. */
  close(): void {
    this.#send = undefined
    this.#unsent = undefined
    this.#pending.clear()
    if (!this.#good) return
    this.#good = false
    this.#lost = { monotonicMs: this.#options.clock.monotonic(), wallMs: this.#options.clock.now() }
    for (const waiter of new Set([...this.#waiting.values()].flatMap((waiters) => [...waiters]))) {
      waiter.settle(this.#standingWithout(waiter.missing))
    }
    for (const listener of this.#standingListeners) listener()
  }

  /**
   * Asks for keys (uids, `namespace/hostname`, `network/ip`, `network/ip/length`), and reads what is held once all are answered: at once when they are known
   * or the control plane is away. Rejects with the signal's reason, or with Retryable when too many questions wait.
   */
  async look<T>(keys: readonly string[], read: () => T, signal?: AbortSignal): Promise<Looked<T>> {
    signal?.throwIfAborted()
    if (!this.#good) return { standing: this.#standingWithout(keys), value: read() }
    const missing = new Set(keys.filter((key) => !this.asked.use(key)))
    if (missing.size === 0) return { standing: 'current', value: read() }
    if (this.#pending.size + missing.size > this.#options.mostEntries) {
      throw new Retryable(`${this.#pending.size} questions wait for the control plane; ask again later`)
    }
    return await this.#wait(missing, read, signal)
  }

  #wait<T>(missing: Set<string>, read: () => T, signal: AbortSignal | undefined): Promise<Looked<T>> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        timer.cancel()
        signal?.removeEventListener('abort', onAbort)
        for (const key of missing) this.#leave(key, waiter)
      }
      const onAbort = (): void => {
        leave()
        reject(signal?.reason instanceof Error ? signal.reason : new Error(String(signal?.reason)))
      }
      const waiter: Waiter = {
        missing,
        settle(standing) {
          leave()
          try {
            resolve({ standing, value: read() })
          } catch (error) {
            reject(error instanceof Error ? error : new Error(String(error)))
          }
        },
      }
      const timer: Timer = this.#options.clock.after(this.#options.answerMs, () => waiter.settle('late'))
      signal?.addEventListener('abort', onAbort, { once: true })
      for (const key of missing) {
        const waiters = this.#waiting.get(key)
        // A key that nobody waits for any more although it was sent is asked for once more: it may be the answer that got lost.
        if (waiters === undefined) this.#subscribe(key)
        if (waiters === undefined) this.#waiting.set(key, new Set([waiter]))
        else waiters.add(waiter)
      }
    })
  }

  #leave(key: string, waiter: Waiter): void {
    const waiters = this.#waiting.get(key)
    if (waiters?.delete(waiter) === true && waiters.size === 0) this.#waiting.delete(key)
  }

  /** One request for all keys of this turn: ten thousand questions at once are one message. */
  #subscribe(key: string): void {
    this.#pending.add(key)
    if (this.#unsent !== undefined) {
      this.#unsent.add(key)
      return
    }
    const unsent = (this.#unsent = new Set([key]))
    queueMicrotask(() => {
      if (this.#unsent !== unsent) return
      this.#unsent = undefined
      this.#send?.({ typeUrl: ADDRESS_TYPE, subscribe: [...unsent] })
    })
  }

  #standingWithout(keys: Iterable<string>): Standing {
    if (this.#lost === undefined) return 'unknown'
    for (const key of keys) {
      if (!this.asked.useStale(key) && this.held.matches(key).length === 0) return 'unknown'
    }
    return 'stale'
  }

  /** Takes a response in, answers who waited for it, acknowledges it, lets go of what is too much. */
  take(answer: DeltaAnswer): void {
    const { typeUrl, nonce } = answer
    if (typeUrl !== ADDRESS_TYPE) {
      this.#send?.({ typeUrl, nonce })
      return
    }
    const wasGood = this.#good
    this.#good = true
    this.received.responses++
    const touched = new Set<string>()
    const own = new Map<string, HeldAddress | undefined>()
    const problems: string[] = []
    const fresh: string[] = []
    for (const resource of answer.resources) {
      const held = this.#read(resource, problems)
      if (held === undefined) continue
      this.received.resources++
      fresh.push(held.name)
      this.#note(this.held.put(held), touched, own)
      this.#note(held, touched, own)
    }
    const unasked: string[] = []
    for (const name of answer.removed) {
      const before = this.held.remove(name)
      touched.add(name)
      if (before === undefined) continue
      this.received.removals++
      for (const member of this.held.members(name)) fresh.push(member.name)
      this.#note(before, touched, own)
      if (!this.asked.has(name) && !this.#pending.has(name)) unasked.push(name)
    }
    this.#settle(touched, wasGood)
    this.#send?.({ typeUrl, nonce, ...(problems.length === 0 ? {} : { error: problems.join('; ').slice(0, 4_000) }) })
    this.#release([...unasked, ...this.#dropUnwanted(fresh), ...this.#trim()])
    for (const [name] of own) for (const listener of this.#ownListeners) listener(name, this.#ownNow(name))
    if (!wasGood) for (const listener of this.#standingListeners) listener()
  }

  #ownNow(name: string): HeldAddress | undefined {
    const held = this.held.get(name)
    return held !== undefined && this.held.isOwn(held) ? held : undefined
  }

  #read(resource: DeltaResource, problems: string[]): HeldAddress | undefined {
    const { name, version, aliases, body } = resource
    try {
      if (body === undefined) throw new Error('it came without content')
      const decoded = decodeAddress(body)
      return { name, version, aliases, decoded }
    } catch (error) {
      this.received.rejected++
      problems.push(`${name}: ${formatError(error)}`)
      return undefined
    }
  }

  /** Remembers under which keys it was or is found, and whether it is or was one of this node's own. */
  #note(held: HeldAddress | undefined, touched: Set<string>, own: Map<string, HeldAddress | undefined>): void {
    if (held === undefined) return
    touched.add(held.name)
    for (const alias of held.aliases) touched.add(alias)
    if (hasRange(held)) {
      for (const key of this.asked.keys()) if (isInRange(held, key)) touched.add(key)
      for (const key of this.#pending) if (isInRange(held, key)) touched.add(key)
    }
    if (this.held.isOwn(held)) own.set(held.name, held)
  }

  #settle(touched: ReadonlySet<string>, wasGood: boolean): void {
    // The first answer of a stream speaks of every key that was named at its opening.
    const keys = wasGood ? touched : new Set([...touched, ...this.asked.keys()])
    const ready = new Set<Waiter>()
    for (const key of keys) {
      const kind = this.held.matches(key).length > 0 ? 'found' : 'nobody'
      if (this.#pending.delete(key)) this.asked.put(key, kind)
      else this.asked.turn(key, kind)
      for (const waiter of this.#waiting.get(key) ?? []) {
        waiter.missing.delete(key)
        this.#leave(key, waiter)
        if (waiter.missing.size === 0) ready.add(waiter)
      }
    }
    for (const waiter of ready) waiter.settle('current')
  }

  /** Lets go of what nobody has looked at for long. Not while the control plane is away: nobody could say it again. */
  expire(): void {
    if (!this.#good) return
    const dropped: string[] = []
    for (const key of this.asked.takeExpired()) dropped.push(...this.#forget(key))
    this.#release(dropped)
  }

  /** Keys and foreign resources beyond the bound, longest unused keys first. */
  #trim(): string[] {
    const dropped: string[] = []
    while (this.asked.size + this.held.size - this.held.ownSize > this.#options.mostEntries) {
      const key = this.asked.pop()
      if (key === undefined) break
      for (const name of this.#forget(key)) dropped.push(name)
    }
    return dropped
  }

  /** Drops what only this key wanted; gives the names to let go of. */
  #forget(key: string): string[] {
    const brought: string[] = []
    for (const found of this.held.matches(key)) {
      brought.push(found.name)
      for (const member of this.held.members(found.name)) brought.push(member.name)
    }
    return [key, ...this.#dropUnwanted(brought)]
  }

  #dropUnwanted(names: Iterable<string>): string[] {
    const unwanted: string[] = []
    const left = [...names]
    for (let name = left.pop(); name !== undefined; name = left.pop()) {
      const held = this.held.get(name)
      if (held === undefined || this.#isWanted(held)) continue
      this.held.remove(name)
      unwanted.push(name)
      // With a service goes what only it had brought.
      if (held.decoded.kind === 'service') for (const member of this.held.members(name)) left.push(member.name)
    }
    return unwanted
  }

  #isWanted(held: HeldAddress): boolean {
    if (this.held.isOwn(held) || this.#isAsked(held)) return true
    if (held.decoded.kind !== 'workload') return false
    for (const name of held.decoded.workload.services.keys()) {
      const service = this.held.get(name)
      if (service !== undefined && this.#isAsked(service)) return true
    }
    return false
  }

  #isAsked(held: HeldAddress): boolean {
    const isKey = (key: string): boolean => this.asked.has(key) || this.#pending.has(key)
    if (isKey(held.name) || held.aliases.some(isKey)) return true
    if (!hasRange(held)) return false
    for (const key of this.asked.keys()) if (isInRange(held, key)) return true
    return false
  }

  /** Gives names back, so that nothing is told of them any more; but none that is still held for another reason. */
  #release(names: readonly string[]): void {
    const unsubscribe = [...new Set(names)].filter(
      (name) => this.held.get(name) === undefined && !this.#pending.has(name),
    )
    if (unsubscribe.length > 0) this.#send?.({ typeUrl: ADDRESS_TYPE, unsubscribe })
  }
}

function hasRange({ decoded }: HeldAddress): boolean {
  return decoded.kind === 'service' && decoded.service.addresses.some(({ length }) => length !== undefined)
}
