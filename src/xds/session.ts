// SPDX-License-Identifier: Apache-2.0
// One delta stream from its first message to its end: who the client is, its subscriptions, the order of what is written.
// Sees a stream only by the small interface below; writes when the stream takes more and keeps nothing for later but where each type stands.

import { ProtocolError, formatError } from '../base/errors.js'
import { shortenText } from '../base/short-text.js'
import { decodeDeltaRequest } from '../wire/discovery.js'
import type { DeltaRequest } from '../wire/discovery.js'
import type { ClientView } from './client-view.js'
import { isDebugType } from './debug-types.js'
import { parseNode } from './node-id.js'
import type { ClientNode } from './node-id.js'
import type { Outgoing, Reply } from './reply.js'
import type { ServedSession, SessionHost, Stream } from './session-host.js'
import type { Resource } from './source.js'
import { Subscription } from './subscription.js'
import type { Pusher } from './topic.js'

const OK = 0
const RESOURCE_EXHAUSTED = 8
const INTERNAL = 13
const HEALTH_TYPE = 'type.googleapis.com/istio.v1.HealthInformation'

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
    return this.#ended || (this.#writable && !this.#asking && this.#inbox.length === 0)
  }

  /** The stream takes nothing at the moment. */
  get blocked(): boolean {
    return !this.#writable && !this.#ended
  }

  /** One message arrived, whole. */
  receive(message: Uint8Array): void {
    if (this.#ended) return
    this.#host.metrics.received(message.length)
    if (!this.#canAnswer() || this.#inbox.length > 0) {
      this.#inbox.push(message)
      this.#stream.setReading(false)
      return
    }
    this.#take(message)
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
    if (!this.#finishing) this.#pump()
    if (this.#writable && since !== undefined) {
      this.#waitingSinceMs = undefined
      this.#host.metrics.convergence.observe((this.#host.clock.monotonic() - since) / 1000)
    }
    let at = 0
    while (at < this.#inbox.length && this.#canAnswer() && !this.#stopped()) {
      const message = this.#inbox[at++]
      if (message !== undefined) this.#take(message)
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

  #take(message: Uint8Array): void {
    try {
      if (!this.#acknowledges(message)) this.#handle(decodeDeltaRequest(message))
    } catch (error) {
      this.fail(error)
    }
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

  #handle(request: DeltaRequest): void {
    const { typeUrl } = request
    if (typeUrl === HEALTH_TYPE) return
    if (this.#node === undefined) {
      const node = parseNode(request.node)
      this.#host.access?.admitNode(this.#stream.asker, node)
      this.#node = node
      this.#connectionId = this.#host.opened(this, node)
    }
    if (this.#answersDebug(request)) return
    const subscription = this.#subscription(typeUrl)
    if (subscription === undefined) return
    this.#judge(subscription, request)
    const outgoing = this.#plan(subscription, request)
    if (outgoing === undefined) return
    this.#write(subscription, outgoing)
    // Ranged resources that the answer made due.
    if (this.#writable) this.#pump()
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

  #plan(subscription: Subscription, request: DeltaRequest): Outgoing | undefined {
    const { initialVersions, subscribe, unsubscribe } = request
    if (subscription.size + subscribe.length + initialVersions.size > this.#host.maxNames) {
      throw new ProtocolError(
        `more than ${this.#host.maxNames} names of ${request.typeUrl}; subscribe to everything instead`,
        RESOURCE_EXHAUSTED,
      )
    }
    const started = this.#host.clock.monotonic()
    const reply = subscription.ask({ subscribe, unsubscribe, initialVersions, nonce: '', error: undefined })
    if (reply === undefined) return undefined
    const outgoing = subscription.topic.frames.encode(reply)
    const seconds = (this.#host.clock.monotonic() - started) / 1000
    subscription.topic.frames.cells.pushTime.observe(seconds)
    return outgoing
  }

  #subscription(typeUrl: string): Subscription | undefined {
    const known = this.#subscriptions.get(typeUrl)
    if (known !== undefined) return known
    if (this.#subscriptions.size >= maxUnknownTypes) return undefined
    this.#host.access?.admitType(this.#stream.asker, typeUrl)
    const topic = this.#host.topic(typeUrl)
    const made = new Subscription(topic, this.#node?.nodeName ?? '', this)
    this.#subscriptions.set(typeUrl, made)
    this.#order = [...this.#subscriptions.values()].sort((a, b) => a.topic.rank - b.topic.rank)
    return made
  }

  /**
   * Pushes until nothing is due or the stream takes no more; true when it still does. Nothing becomes due meanwhile, so once around is enough.
   */
  #pump(): boolean {
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
