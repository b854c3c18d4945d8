// SPDX-License-Identifier: Apache-2.0
// One delta stream from its first message to its end: who the client is, its subscriptions, the order of what is written.
// Sees a stream only by the small interface below; writes when the stream takes more and keeps nothing for later but where each type stands.

import type { Timer } from '../base/clock.js'
import { ProtocolError, formatError } from '../base/errors.js'
import { shortenText } from '../base/short-text.js'
import { decodeDeltaRequest } from '../wire/discovery.js'
import type { DeltaRequest } from '../wire/discovery.js'
import { AUTHORIZATION_TYPE } from '../wire/messages.js'
import type { ClientView } from './client-view.js'
import { isDebugType } from './debug-types.js'
import { parseNode } from './node-id.js'
import type { ClientNode } from './node-id.js'
import { isNeedy, type Planned } from './policies-first.js'
import type { Outgoing, Reply } from './reply.js'
import type { ServedSession, SessionHost, Stream } from './session-host.js'
import type { Resource } from './source.js'
import { Subscription } from './subscription.js'
import type { Pusher } from './topic.js'

const OK = 0
const RESOURCE_EXHAUSTED = 8
const INTERNAL = 13
const HEALTH_TYPE = 'type.googleapis.com/istio.v1.HealthInformation'

/** How long a client may take from its first request to the one for policies, which it sends in one go. */
const policyWaitMs = 200

/** Types a stream may ask for beyond those that exist, before more of them are passed over. */
const maxUnknownTypes = 64

export class Session implements Pusher, ServedSession {
  readonly #stream: Stream
  readonly #host: SessionHost
  readonly #connectedAtMs: number
  #node: ClientNode | undefined
  #connectionId = ''
  readonly #subscriptions = new Map<string, Subscription>()
  /** In the order in which a push visits them. */
  #order: readonly Subscription[] = []
  /** Received and not looked at, because the stream takes no answer at the moment. */
  #inbox: Uint8Array[] = []
  /** While the request for policies is on its way: the request before it when its answer needs them, which waits to be answered together. */
  #awaiting: { readonly parked: Uint8Array | undefined; readonly timer: Timer } | undefined
  /** That request once policies were told, while the stream takes no answer; and which policies are gone, which is told after it. */
  #due: { readonly message: Uint8Array; readonly policies: Subscription; readonly gone: readonly string[] } | undefined
  #writable = true
  #asking = false
  #inputEnded = false
  #finishing = false
  #ended = false
  /** When a push first had to wait for this stream; undefined when none waits. */
  #waitingSinceMs: number | undefined
  #writtenAtMs = 0

  constructor(stream: Stream, host: SessionHost) {
    this.#stream = stream
    this.#host = host
    this.#connectedAtMs = host.clock.now()
  }

  get connectionId(): string {
    return this.#connectionId
  }

  get ended(): boolean {
    return this.#ended
  }

  /** Nothing waits here: no message unread, no answer under way, no push that the stream does not take. */
  get idle(): boolean {
    if (this.#ended) return true
    const waits = this.#awaiting !== undefined && (this.#awaiting.parked ?? this.#waitingSinceMs) !== undefined
    return this.#writable && !this.#asking && this.#inbox.length === 0 && !waits
  }

  /** The stream takes nothing at the moment. */
  get blocked(): boolean {
    return !this.#writable && !this.#ended
  }

  /** One message arrived, whole. */
  receive(message: Uint8Array): void {
    if (this.#ended) return
    this.#host.metrics.received(message.length)
    if (this.#canAnswer() && this.#inbox.length === 0 && this.#take(message)) return
    this.#inbox.push(message)
    this.#stream.setReading(false)
  }

  /** The stream takes more. */
  drained(): void {
    if (this.#ended || this.#writable) return
    this.#writable = true
    this.#host.metrics.sendTime.observe((this.#host.clock.monotonic() - this.#writtenAtMs) / 1000)
    try {
      this.#goOn()
    } catch (error) {
      this.fail(error)
    }
  }

  /** The client will send nothing more; it still gets its answers. */
  inputEnded(): void {
    this.#inputEnded = true
    this.#awaitNoMore()
    this.#endIfDone()
  }

  /** The stream is gone. */
  closed(): void {
    this.#leave()
  }

  /** Ends the stream in good order: what is being written is finished, then OK, upon which a client comes back at once. */
  finish(): void {
    this.#finishing = true
    this.#endIfDone()
  }

  /** Something is to be pushed; it is, unless the stream takes nothing now. True when all of it was written. */
  push(): boolean {
    if (this.#ended) return true
    if (this.#writable && !this.#asking && !this.#finishing) {
      try {
        if (this.#pump()) return true
      } catch (error) {
        this.fail(error)
        return true
      }
    }
    this.#waitingSinceMs ??= this.#host.clock.monotonic()
    return false
  }

  #canAnswer(): boolean {
    return this.#writable && !this.#asking && !this.#finishing
  }

  #goOn(): void {
    const since = this.#waitingSinceMs
    if (since !== undefined) this.#host.metrics.queue.observe((this.#host.clock.monotonic() - since) / 1000)
    if (!this.#finishing && this.#answerDue()) this.#pump()
    if (this.#writable && since !== undefined) {
      this.#waitingSinceMs = undefined
      this.#host.metrics.convergence.observe((this.#host.clock.monotonic() - since) / 1000)
    }
    let at = 0
    while (at < this.#inbox.length && this.#canAnswer() && !this.#stopped()) {
      const message = this.#inbox[at]
      if (message !== undefined && !this.#take(message)) break
      at++
    }
    if (at > 0) this.#inbox = this.#inbox.slice(at)
    if (this.#stopped()) return
    if (this.#inbox.length === 0 && !this.#finishing) this.#stream.setReading(true)
    this.#endIfDone()
  }

  #stopped(): boolean {
    return this.#ended
  }

  #endIfDone(): void {
    if (this.#ended || !this.#writable || this.#asking) return
    if (this.#finishing || (this.#inputEnded && this.#inbox.length === 0)) this.#end(OK, '')
  }

  /** False: something else had to be answered first, and the message must wait. */
  #take(message: Uint8Array): boolean {
    try {
      if (this.#acknowledges(message)) return true
      const request = decodeDeltaRequest(message)
      if (this.#awaiting?.parked !== undefined && request.typeUrl !== AUTHORIZATION_TYPE) {
        this.#awaitNoMore()
        if (!this.#canAnswer()) return false
      }
      this.#handle(request, message)
    } catch (error) {
      this.fail(error)
    }
    return true
  }

  /** The most frequent message by far, an acknowledgement of the last response and nothing else, is known by its bytes. */
  #acknowledges(message: Uint8Array): boolean {
    for (const subscription of this.#order) {
      if (!subscription.topic.frames.isAck(message, subscription.sentNonce)) continue
      subscription.acknowledge()
      return true
    }
    return false
  }

  /** Something about this stream is wrong, or we are: it ends, others do not. */
  fail(error: unknown): void {
    if (this.#ended) return
    if (error instanceof ProtocolError) {
      this.#host.log.info({ ...this.#name(), error: error.message }, 'stream refused')
      this.#end(error.status, error.message)
      return
    }
    this.#host.metrics.internalError()
    this.#host.log.error({ ...this.#name(), error: formatError(error) }, 'stream failed')
    this.#end(INTERNAL, 'internal error')
  }

  #name(): Record<string, string> {
    return { connection: this.#connectionId, peer: this.#stream.peer }
  }

  #handle(request: DeltaRequest, message: Uint8Array): void {
    const { typeUrl } = request
    if (typeUrl === HEALTH_TYPE) return
    if (this.#node === undefined) {
      const node = parseNode(request.node)
      this.#host.access?.admitNode(this.#stream.asker, node)
      this.#node = node
      this.#connectionId = this.#host.opened(this, node)
    }
    if (this.#answersDebug(request)) return
    const started = this.#host.clock.monotonic()
    const awaits = this.#startsWithoutPolicies(typeUrl)
    const waits = typeUrl === AUTHORIZATION_TYPE && this.#isWaitingForPolicies()
    const parked = this.#takeParked(typeUrl)
    const planned = this.#plan(request)
    if (awaits && planned !== undefined && this.#isParked(planned)) {
      this.#forget(planned.subscription)
      this.#await(message)
      return
    }
    if (awaits) this.#await(undefined)
    if (planned === undefined) return
    if (waits) this.#answerPolicies(planned, parked)
    else this.#push(planned.subscription, planned.reply)
    const seconds = (this.#host.clock.monotonic() - started) / 1000
    planned.subscription.topic.frames.cells.pushTime.observe(seconds)
    // Ranged resources that the answer made due.
    if (this.#writable) this.#pump()
  }

  /** What is new of policies now, what is gone after everything that waited for them. */
  #answerPolicies({ subscription, reply }: Planned, parked: Uint8Array | undefined): void {
    const gone = reply.kind === 'snapshot' || reply.kind === 'selection' ? reply.removed : []
    this.#push(subscription, gone.length === 0 ? reply : ({ ...reply, removed: [] } as Reply))
    if (parked === undefined) subscription.owe(gone)
    else this.#due = { message: parked, policies: subscription, gone }
    this.#answerDue()
  }

  /** True when nothing is due any more and the stream takes more. */
  #answerDue(): boolean {
    const due = this.#due
    if (due === undefined || !this.#writable) return this.#writable
    // While it waited for the stream, policies may have come that its answer needs.
    if (!this.#push(due.policies, due.policies.push('changed'))) return false
    this.#due = undefined
    const planned = this.#plan(decodeDeltaRequest(due.message))
    due.policies.owe(due.gone)
    return this.#push(planned?.subscription ?? due.policies, planned?.reply)
  }

  /**
   * A ztunnel asks for addresses first and for policies right behind; one that comes back carries traffic all the while. What it is told of workloads before
   * may name policies of which it knows nothing yet.
   */
  #startsWithoutPolicies(typeUrl: string): boolean {
    if (this.#node?.proxyType !== 'ztunnel' || typeUrl === AUTHORIZATION_TYPE) return false
    return !this.#subscriptions.has(AUTHORIZATION_TYPE) && !this.#subscriptions.has(typeUrl)
  }

  #isParked(planned: Planned): boolean {
    return this.#host.topic(AUTHORIZATION_TYPE).source?.size !== 0 && isNeedy(planned)
  }

  /** Something that needs policies is held back until they are asked for. */
  #isWaitingForPolicies(): boolean {
    if (this.#awaiting === undefined) return false
    return this.#awaiting.parked !== undefined || this.#order.some((subscription) => subscription.isNeedy())
  }

  #await(parked: Uint8Array | undefined): void {
    this.#awaiting?.timer.cancel()
    this.#awaiting = { parked, timer: this.#host.clock.after(policyWaitMs, () => this.#awaitNoMore()) }
  }

  /** The request that waited for this one, if this is the one for policies. */
  #takeParked(typeUrl: string): Uint8Array | undefined {
    if (typeUrl !== AUTHORIZATION_TYPE) return undefined
    const parked = this.#awaiting?.parked
    this.#awaiting?.timer.cancel()
    this.#awaiting = undefined
    return parked
  }

  /** Nobody asks for policies: what waited for them goes without. */
  #awaitNoMore(): void {
    if (this.#awaiting === undefined) return
    const parked = this.#takeParked(AUTHORIZATION_TYPE)
    if (this.#ended || this.#finishing) return
    try {
      const planned = parked && this.#plan(decodeDeltaRequest(parked))
      if (planned !== undefined) this.#push(planned.subscription, planned.reply)
      if (this.#canAnswer()) this.#goOn()
    } catch (error) {
      this.fail(error)
    }
  }

  #judge(subscription: Subscription, request: DeltaRequest): void {
    const { typeUrl } = request
    const verdict = subscription.judge({ nonce: request.responseNonce, error: request.error })
    if (verdict === 'stale') this.#host.metrics.stale(typeUrl)
    if (verdict !== 'rejected') return
    this.#host.metrics.rejected(typeUrl)
    const reason = request.error?.message ?? ''
    const nonce = shortenText(request.responseNonce, 100)
    this.#host.log.warn({ ...this.#name(), type: typeUrl, nonce, reason }, 'response rejected')
  }

  /** What to answer; undefined for silence. */
  #plan(request: DeltaRequest): Planned | undefined {
    const subscription = this.#subscription(request.typeUrl)
    if (subscription === undefined) return undefined
    this.#judge(subscription, request)
    const { initialVersions, subscribe, unsubscribe } = request
    if (subscription.size + subscribe.length + initialVersions.size > this.#host.maxNames) {
      throw new ProtocolError(
        `more than ${this.#host.maxNames} names of ${request.typeUrl}; subscribe to everything instead`,
        RESOURCE_EXHAUSTED,
      )
    }
    const reply = subscription.ask({ subscribe, unsubscribe, initialVersions, nonce: '', error: undefined })
    return reply && { subscription, reply }
  }

  #subscription(typeUrl: string): Subscription | undefined {
    const known = this.#subscriptions.get(typeUrl)
    if (known !== undefined) return known
    if (this.#subscriptions.size >= maxUnknownTypes) return undefined
    this.#host.access?.admitType(this.#stream.asker, typeUrl)
    const topic = this.#host.topic(typeUrl)
    const made = new Subscription(topic, this.#node?.nodeName ?? '', this)
    this.#subscriptions.set(typeUrl, made)
    this.#sortSubscriptions()
    return made
  }

  #forget(subscription: Subscription): void {
    subscription.close()
    this.#subscriptions.delete(subscription.topic.typeUrl)
    this.#sortSubscriptions()
  }

  #sortSubscriptions(): void {
    this.#order = [...this.#subscriptions.values()].sort((a, b) => a.topic.rank - b.topic.rank)
  }

  /**
   * Pushes until nothing is due or the stream takes no more; true when it still does. Nothing becomes due meanwhile, so once around is enough.
   */
  #pump(): boolean {
    if (this.#isWaitingForPolicies()) return false
    for (const subscription of this.#order) {
      if (!this.#push(subscription, subscription.push(subscription.topic.splits ? 'changed' : 'all'))) return false
      if (!this.#push(subscription, subscription.pushRanges())) return false
    }
    for (const subscription of this.#order) {
      if (subscription.topic.splits && !this.#push(subscription, subscription.push('removed'))) return false
    }
    return true
  }

  /** True when the stream takes more. */
  #push(subscription: Subscription, reply: Reply | undefined): boolean {
    const outgoing = reply === undefined ? undefined : subscription.topic.frames.encode(reply)
    if (outgoing !== undefined) this.#write(subscription, outgoing)
    return this.#writable
  }

  #write(subscription: Subscription, outgoing: Outgoing): void {
    const { clock, metrics } = this.#host
    subscription.sentNonce = outgoing.nonce
    subscription.sentAtMs = clock.now()
    const { cells } = subscription.topic.frames
    cells.pushes.value++
    cells.size.observe(outgoing.sizeBytes)
    this.#writable = this.#stream.write(outgoing.parts)
    if (this.#writable) metrics.sendTime.observe(0)
    else this.#writtenAtMs = clock.monotonic()
  }

  /** Debug types belong to identified callers; everyone else meets them as types that nobody makes. */
  #answersDebug(request: DeltaRequest): boolean {
    const { debugTypes } = this.#host
    const identities = this.#stream.asker.caller?.identities
    if (debugTypes === undefined || identities === undefined || !isDebugType(request.typeUrl)) return false
    if (request.responseNonce !== '' || request.error !== undefined) return true
    const subscription = this.#subscription(request.typeUrl)
    if (subscription === undefined) return true
    this.#asking = true
    void debugTypes.answer(request.typeUrl, request.subscribe, identities).then(
      (answer) => {
        this.#asking = false
        if (this.#ended) return
        this.#write(subscription, subscription.topic.frames.encodeEntries(answer.entries, answer.controlPlane))
        this.#goOn()
      },
      (error: unknown) => {
        this.#asking = false
        if (!this.#ended) this.fail(error)
      },
    )
    return true
  }

  #end(status: number, message: string): void {
    if (this.#ended) return
    this.#leave()
    this.#stream.end(status, message)
  }

  #leave(): void {
    if (this.#ended) return
    this.#ended = true
    this.#takeParked(AUTHORIZATION_TYPE)
    this.#inbox = []
    for (const subscription of this.#subscriptions.values()) subscription.close()
    if (this.#node !== undefined) this.#host.closed(this)
  }

  /** By type: what the client holds, as far as the server knows. */
  held(): ReadonlyMap<string, readonly Resource[]> {
    return new Map([...this.#subscriptions].map(([typeUrl, subscription]) => [typeUrl, subscription.held()]))
  }

  /** Undefined until the client said who it is. */
  view(): ClientView | undefined {
    const node = this.#node
    if (node === undefined) return undefined
    const { id, ...rest } = node
    return {
      ...rest,
      connectionId: this.#connectionId,
      nodeId: id,
      address: this.#stream.peer,
      connectedAtMs: this.#connectedAtMs,
      watches: [...this.#subscriptions.values()].map((subscription) => subscription.view()),
    }
  }
}
