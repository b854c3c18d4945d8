// SPDX-License-Identifier: Apache-2.0
// One leader among all replicas, by a coordination.k8s.io Lease. For everything that must be written by one process alone. Believes no clock but
// its own: a lease counts from when it was seen to change, never by the times that are written in it.

import { createBackoff } from '../base/backoff.js'
import { sleep, type Clock } from '../base/clock.js'
import { Retryable, formatError } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import { HttpFailure } from '../kube/requests.js'
import { toObject, toText, type JsonObject, type ObjectApi, type ObjectReply } from './object-api.js'

export const leaseLimits = {
  /** A lease that was not seen to change for so long is free. Written into it. */
  durationMs: 15_000,
  /** A leader that could not renew for so long is none any more. Shorter than the duration by more than any request takes to be seen. */
  renewDeadlineMs: 10_000,
  /** Between two tries, of leaders and of others; a fifth of it is left to chance. */
  retryMs: 3_000,
  /** Between two tries when the server refuses or is away. */
  retryMaxMs: 30_000,
  /** Letting go takes no longer. */
  releaseMs: 3_000,
} as const

export interface ElectionOptions {
  readonly objects: ObjectApi
  readonly clock: Clock
  readonly log: Logger
  readonly namespace: string
  /** Name of the Lease. */
  readonly name: string
  /** Different for every process that ever ran. */
  readonly identity: string
  readonly random: () => number
  /** What a leader does, until the signal aborts. When it ends before that, leadership is given up. */
  readonly lead: (signal: AbortSignal) => Promise<void>
}

/** What stands in the lease. */
interface Holding {
  readonly holder: string
  readonly durationMs: number
  readonly transitions: number
  readonly object: JsonObject
}

export class Election {
  readonly #options: ElectionOptions
  readonly #collection: string
  readonly #path: string
  #isLeader = false
  /** The lease as it was last seen to change, and when that was. */
  #seen: { readonly version: string; readonly sinceMs: number } | undefined
  #said = ''

  constructor(options: ElectionOptions) {
    this.#options = options
    const namespace = encodeURIComponent(options.namespace)
    this.#collection = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`
    this.#path = `${this.#collection}/${encodeURIComponent(options.name)}`
  }

  isLeader(): boolean {
    return this.#isLeader
  }

  /** Contends until the signal aborts; then stops leading, and lets go of the lease unless `now` aborts. */
  async run(signal: AbortSignal, now: AbortSignal): Promise<void> {
    const { clock, random, log } = this.#options
    const backoff = createBackoff({ initialMs: leaseLimits.retryMs, maxMs: leaseLimits.retryMaxMs, random })
    while (!isAborted(signal)) {
      let pauseMs: number = leaseLimits.retryMs * (1 - 0.2 * random())
      try {
        const beganMs = clock.monotonic()
        const held = await this.#acquire(signal)
        backoff.reset()
        this.#said = ''
        if (held !== undefined) await this.#lead(held, { beganMs, signal, now })
      } catch (error) {
        if (isAborted(signal)) break
        if (!(error instanceof Retryable)) throw error
        this.#tell(error)
        pauseMs = Math.max(pauseMs, backoff.next())
      }
      // Rejects only when the signal aborts.
      await sleep(clock, pauseMs, signal).catch(() => undefined)
    }
    log.debug({ lease: this.#options.name }, 'no longer contends for the lease')
  }

  /** The lease when it is ours now. */
  async #acquire(signal: AbortSignal): Promise<Holding | undefined> {
    const { objects, clock, identity } = this.#options
    const reply = await objects.get(this.#path, signal)
    if (reply.kind === 'conflict') throw new Retryable(`the lease cannot be read: ${reply.why}`)
    if (reply.kind === 'missing') {
      const metadata = { name: this.#options.name, namespace: this.#options.namespace }
      const created = await objects.create(this.#collection, this.#toLease({ metadata }, 0, true), signal)
      if (created.kind === 'missing') throw new Retryable(`there is no namespace ${metadata.namespace} for the lease`)
      return this.#toHolding(created)
    }
    const found = toHolding(reply.object)
    const version = toText(toObject(reply.object['metadata'])['resourceVersion'])
    const nowMs = clock.monotonic()
    if (this.#seen?.version !== version) this.#seen = { version, sinceMs: nowMs }
    const isFree = found.holder === '' || found.holder === identity
    if (!isFree && nowMs < this.#seen.sinceMs + found.durationMs) return undefined
    const transitions = found.holder === identity ? found.transitions : found.transitions + 1
    return this.#toHolding(await objects.replace(this.#path, this.#toLease(found.object, transitions, true), signal))
  }

  /** Leads and renews. Returns when the lease is lost or given up. */
  async #lead(
    first: Holding,
    run: { readonly beganMs: number; readonly signal: AbortSignal; readonly now: AbortSignal },
  ): Promise<void> {
    const { log, lead, name, identity } = this.#options
    const led = new AbortController()
    const end = (reason: string): void => led.abort(new Error(reason))
    const onStop = (): void => end('the program stops')
    run.signal.addEventListener('abort', onStop, { once: true })
    if (run.signal.aborted) onStop()
    this.#isLeader = true
    led.signal.addEventListener('abort', () => (this.#isLeader = false), { once: true })
    log.info({ lease: name, identity }, 'leads now: what has to be written is written here')
    const work = lead(led.signal).then(
      () => end('the work of the leader ended'),
      (error: unknown) => {
        if (!led.signal.aborted) log.error({ lease: name, error: formatError(error) }, 'the work of the leader failed')
        end('the work of the leader failed')
      },
    )
    const held = await this.#keep(first, run.beganMs, led)
    run.signal.removeEventListener('abort', onStop)
    log.info({ lease: name, identity, why: formatError(led.signal.reason) }, 'leads no longer')
    await work
    if (held !== undefined) await this.#release(held, run.now)
  }

  /** Renews until `led` aborts, by somebody else or by this when the lease is lost. Gives the lease if it is still ours. */
  async #keep(first: Holding, beganMs: number, led: AbortController): Promise<Holding | undefined> {
    const { clock, random } = this.#options
    let held = first
    let renewedMs = beganMs
    while (!led.signal.aborted) {
      // Armed anew after each success; fires while a request hangs, too.
      const leftMs = renewedMs + leaseLimits.renewDeadlineMs - clock.monotonic()
      const deadline = clock.after(leftMs, () => led.abort(new Error('the lease could not be renewed in time')))
      try {
        await sleep(clock, Math.min(leftMs, leaseLimits.retryMs * (1 - 0.2 * random())), led.signal)
        const startedMs = clock.monotonic()
        const renewed = await this.#renew(held, led.signal)
        if (renewed === undefined) {
          led.abort(new Error('somebody else has the lease'))
          return undefined
        }
        if (renewed !== held) renewedMs = startedMs
        held = renewed
        this.#said = ''
      } catch (error) {
        if (isAborted(led.signal)) break
        this.#tell(error)
      } finally {
        deadline.cancel()
      }
    }
    return held
  }

  /** The renewed lease; the same when it has to be tried again; undefined when it is not ours any more. */
  async #renew(held: Holding, signal: AbortSignal): Promise<Holding | undefined> {
    const { objects, identity } = this.#options
    const lease = this.#toLease(held.object, held.transitions, false)
    const written = this.#toHolding(await objects.replace(this.#path, lease, signal))
    if (written !== undefined) return written
    const found = await objects.get(this.#path, signal)
    if (found.kind !== 'ok') return undefined
    const holding = toHolding(found.object)
    if (holding.holder !== identity) return undefined
    // Ours under another version: a renewal whose answer was lost, or a label that somebody put on it.
    return (
      this.#toHolding(
        await objects.replace(this.#path, this.#toLease(found.object, holding.transitions, false), signal),
      ) ?? held
    )
  }

  /** Lets the others have it at once, if that works. */
  async #release(held: Holding, now: AbortSignal): Promise<void> {
    const { objects, clock, log, name } = this.#options
    if (now.aborted) return
    const limit = new AbortController()
    const onNow = (): void => limit.abort(new Error('the program ends at once'))
    now.addEventListener('abort', onNow, { once: true })
    const timer = clock.after(leaseLimits.releaseMs, () => limit.abort(new Error('letting go took too long')))
    try {
      const spec = { ...toObject(held.object['spec']), holderIdentity: '', leaseDurationSeconds: 1 }
      await objects.replace(this.#path, { ...held.object, spec }, limit.signal)
    } catch (error) {
      // It runs out by itself.
      log.debug({ lease: name, error: formatError(error) }, 'the lease could not be given back')
    } finally {
      timer.cancel()
      now.removeEventListener('abort', onNow)
    }
  }

  #toHolding(reply: ObjectReply): Holding | undefined {
    return reply.kind === 'ok' ? toHolding(reply.object) : undefined
  }

  /** The object with this process as its holder. */
  #toLease(before: JsonObject, transitions: number, isNew: boolean): JsonObject {
    const time = `${new Date(this.#options.clock.now()).toISOString().slice(0, -1)}000Z` // six digits are a must
    const spec = {
      ...toObject(before['spec']),
      holderIdentity: this.#options.identity,
      leaseDurationSeconds: leaseLimits.durationMs / 1000,
      renewTime: time,
      leaseTransitions: transitions,
      ...(isNew ? { acquireTime: time } : {}),
    }
    return { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: before['metadata'], spec }
  }

  /** Once for each new reason. */
  #tell(error: unknown): void {
    const { log, name, namespace } = this.#options
    const text = formatError(error)
    if (text === this.#said) return
    this.#said = text
    const hint = isRefused(error) ? { hint: `grant get, create and update on leases in namespace ${namespace}` } : {}
    log.warn({ lease: name, namespace, error: text, ...hint }, 'the lease of the writers cannot be had')
  }
}

function toHolding(object: JsonObject): Holding {
  const spec = toObject(object['spec'])
  const seconds = spec['leaseDurationSeconds']
  const transitions = spec['leaseTransitions']
  return {
    holder: toText(spec['holderIdentity']),
    durationMs: typeof seconds === 'number' ? seconds * 1000 : leaseLimits.durationMs,
    transitions: typeof transitions === 'number' ? transitions : 0,
    object,
  }
}

function isRefused(error: unknown): boolean {
  return error instanceof HttpFailure && error.status === 403
}

/** Asked through a function: the compiler would otherwise believe the answer of before an await. */
function isAborted(signal: AbortSignal): boolean {
  return signal.aborted
}
