// SPDX-License-Identifier: Apache-2.0
// The conversation with one ztunnel: hello, snapshot, then what is queued. One message is under way at a time, each waits for its acknowledgement, and
// whatever does not fit ends the connection: ztunnel comes back at once and gets a fresh snapshot. Knows nothing of other connections.

import { InvalidInput, ProtocolError, Retryable, formatError } from '../../base/errors.js'
import type { Clock, Timer } from '../../base/clock.js'
import type { Logger } from '../../base/log.js'
import type { Netns } from '../netns/netns.js'
import type { PodIdentity, ZdsPod } from '../contracts.js'
import { Holdings } from './holdings.js'
import type { RememberedHoldings } from './holdings.js'
import { decodeAcknowledgement, decodeHello, encodeAdd, encodeKeep, encodeSnapshotSent } from './messages.js'
import type { MessageKind, ZdsMetrics } from './metrics.js'
import { OrderQueue } from './order-queue.js'
import type { ProcessIdentity } from './processes.js'
import type { RecordSocket } from './record-socket.js'
import { closeDescriptor } from './seqpacket.js'
import type { ReceivedRecord } from './seqpacket.js'

export interface ConversationLimits {
  readonly helloTimeoutMs: number
  /** Until the kernel takes a message. */
  readonly sendTimeoutMs: number
  readonly ackTimeoutMs: number
  /** Adds and removals that wait on one connection. */
  readonly queued: number
}

/** Why a connection is over: the peer left, it broke a rule, it was too slow, or this side wanted it. */
export type EndReason = 'left' | 'protocol' | 'timeout' | 'stale' | 'closed'

/** What a connection asks of whoever accepted it. */
export interface ConnectionOwner {
  /** Said hello. Gives what this process is known to hold, undefined when a keep says nothing about it. */
  onHello(connection: ZdsConnection): void
  /** What is wanted now. */
  select(): readonly ZdsPod[]
  onSnapshotSent(connection: ZdsConnection): void
  onEnd(connection: ZdsConnection, reason: EndReason): void
}

export interface ConnectionOptions {
  readonly socket: RecordSocket
  readonly identity: ProcessIdentity | undefined
  readonly owner: ConnectionOwner
  readonly limits: ConversationLimits
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: ZdsMetrics
}

interface Awaited {
  readonly resolve: (bytes: Uint8Array) => void
  readonly reject: (error: Error) => void
}

export class ZdsConnection {
  readonly identity: ProcessIdentity | undefined
  readonly holdings = new Holdings()
  /** A keep that this process acknowledges may be true: it may hold pods from before we knew it. */
  mayHoldUnknown = true
  /** Its process failed us before; it is no target of adds until a snapshot went well, if there is another. */
  isSuspect = false
  state: 'greeting' | 'snapshot' | 'serving' | 'ended' = 'greeting'
  saidHello = false
  /** The end of its snapshot was acknowledged. */
  tookSnapshot = false
  readonly #options: ConnectionOptions
  readonly #orders: OrderQueue
  #awaited: Awaited | undefined
  #ended: Retryable | undefined

  constructor(options: ConnectionOptions) {
    this.#options = options
    this.identity = options.identity
    this.#orders = new OrderQueue(options.limits.queued)
  }

  get isOpen(): boolean {
    return this.state !== 'ended'
  }

  /** Talks until the end. Never rejects. */
  async run(): Promise<void> {
    const { socket, limits, owner, log, clock } = this.#options
    socket.start({
      onRecord: (record) => this.#onRecord(record),
      onEnd: (error) => this.end('left', error === undefined ? 'ztunnel closed the connection' : formatError(error)),
    })
    try {
      const version = decodeHello(await this.#receive(limits.helloTimeoutMs, 'a hello'))
      const startedMs = clock.monotonic()
      this.state = 'snapshot'
      this.saidHello = true
      owner.onHello(this)
      log.info({ version }, 'ztunnel connected')
      await this.#sendSnapshot(startedMs)
      for (;;) await (await this.#orders.next())()
    } catch (error) {
      if (this.isOpen && !(error instanceof ProtocolError))
        log.error({ error: formatError(error) }, 'a conversation failed')
      this.end('protocol', formatError(error))
    }
  }

  /**
   * Tells of a pod; `record` is the add. Resolves at the acknowledgement, or at once when the very same was acknowledged before. Rejects with Retryable,
   * or with the reason of the signal.
   */
  add(pod: PodIdentity, record: Uint8Array, netns: Netns, signal?: AbortSignal): Promise<void> {
    const handle = netns.share()
    const work = async (): Promise<void> => {
      if (this.holdings.isConfirmed(pod, handle)) return
      const error = await this.#tellAdd(pod, record, handle)
      if (error === '') return
      this.#warnRefused(pod, error)
      throw new Retryable(`ztunnel did not take pod ${pod.namespace}/${pod.name}: ${error}`)
    }
    return this.#orders.push(work, { signal, release: () => handle.close() })
  }

  /** Resolves at the acknowledgement, whatever it says. Rejects as add(). */
  remove(uid: string, record: Uint8Array, signal?: AbortSignal): Promise<void> {
    const work = async (): Promise<void> => {
      const error = await this.#exchange('remove', record)
      this.holdings.delete(uid)
      if (error !== '') this.#options.log.warn({ uid, error }, 'ztunnel answered a removal with an error')
    }
    return this.#orders.push(work, { signal })
  }

  /** It is the one that adds go to now: before anything else that waits it is told of the wanted pods that it does not hold. */
  catchUp(): void {
    this.#orders.putFirst(async () => {
      const handles = this.#borrowWanted().filter(({ pod, netns }) => {
        const isMissing = netns !== undefined && !this.holdings.isConfirmed(pod, netns)
        if (!isMissing) netns?.close()
        return isMissing
      })
      const { added, refused } = await this.#tellAll(handles)
      if (handles.length > 0) this.#options.log.info({ added, refused }, 'told ztunnel of the pods that it had missed')
    })
  }

  /** Idempotent. Everything that waits on this connection is rejected with Retryable at once. Gives what its process is left with. */
  end(reason: EndReason, why: string): void {
    if (this.state === 'ended') return
    const { socket, owner, log, metrics } = this.#options
    this.state = 'ended'
    const gone = new Retryable(`the connection to ztunnel is over: ${why}`)
    this.#ended = gone
    socket.close()
    if (reason === 'protocol' || reason === 'timeout' || reason === 'stale') {
      metrics.countClosed(reason)
      log.warn({ reason, why }, 'closed the connection to ztunnel')
    } else {
      log.info({ reason, why }, 'ztunnel is gone')
    }
    owner.onEnd(this, reason)
    this.#awaited?.reject(gone)
    this.#orders.end(gone)
  }

  /** Closes what it held; to be called once after the end. */
  forget(): RememberedHoldings {
    return this.holdings.close()
  }

  async #sendSnapshot(startedMs: number): Promise<void> {
    const { clock, log, metrics, owner } = this.#options
    const pods = this.#borrowWanted()
    const { added, kept, refused } = await this.#tellAll(pods)
    const error = await this.#exchange('snapshot_sent', encodeSnapshotSent())
    if (error !== '') log.warn({ error }, 'ztunnel answered the end of the snapshot with an error')
    this.holdings.retain(new Set(pods.map(({ pod }) => pod.uid)))
    this.state = 'serving'
    this.tookSnapshot = true
    const ms = clock.monotonic() - startedMs
    metrics.observeSnapshot(ms)
    log.info({ added, kept, refused, ms: Math.round(ms) }, 'snapshot sent')
    owner.onSnapshotSent(this)
  }

  /** Every handle is shared before the first wait: whoever owns it may close his meanwhile. */
  #borrowWanted(): ZdsPod[] {
    return this.#options.owner.select().map(({ pod, netns }) => ({ pod, netns: netns?.share() }))
  }

  /** Adds and keeps, one after the other. Closes all handles, also when the connection ends in between. */
  async #tellAll(pods: readonly ZdsPod[]): Promise<{ added: number; kept: number; refused: number }> {
    const counts = { added: 0, kept: 0, refused: 0 }
    try {
      for (const { pod, netns } of pods) {
        const error = await this.#tell(pod, netns)
        if (error !== '') {
          counts.refused++
          this.#warnRefused(pod, error)
        } else if (netns === undefined) counts.kept++
        else counts.added++
      }
    } finally {
      for (const { netns } of pods) netns?.close()
    }
    return counts
  }

  /** The error, empty when all is well. A pod that cannot be written costs only itself. */
  async #tell(pod: PodIdentity, netns: Netns | undefined): Promise<string> {
    let record: Uint8Array
    try {
      record = netns === undefined ? encodeKeep(pod.uid) : encodeAdd(pod)
    } catch (error) {
      if (error instanceof InvalidInput) return error.message
      throw error
    }
    if (netns !== undefined) return this.#tellAdd(pod, record, netns)
    const error = await this.#exchange('keep', record)
    if (error === '' && this.mayHoldUnknown) this.holdings.keep(pod.uid)
    return error
  }

  #warnRefused({ uid, namespace, name }: PodIdentity, error: string): void {
    this.#options.log.warn({ uid, namespace, name, error }, 'ztunnel has not taken a pod')
  }

  async #tellAdd(pod: PodIdentity, record: Uint8Array, netns: Netns): Promise<string> {
    const error = await this.#exchange('add', record, netns.fd)
    // A proxy of another namespace was stopped before the new one failed to start.
    if (error === '') this.holdings.put(pod, netns.share())
    else this.holdings.delete(pod.uid)
    return error
  }

  /** One message and its answer: the error in it. Rejects with Retryable, and then the connection is over. */
  async #exchange(kind: MessageKind, record: Uint8Array, descriptor?: number): Promise<string> {
    const { socket, limits, metrics } = this.#options
    // What has arrived by now is no answer to what was not said yet.
    if (this.isOpen) socket.readNow()
    this.#throwIfEnded()
    const timer = this.#deadline(limits.sendTimeoutMs, 'ztunnel does not read', kind)
    try {
      await socket.send(record, descriptor)
    } catch (error) {
      this.end('left', formatError(error))
    } finally {
      timer.cancel()
    }
    const bytes = await this.#receive(limits.ackTimeoutMs, 'an acknowledgement', kind)
    this.#throwIfEnded()
    let error: string
    try {
      error = decodeAcknowledgement(bytes)
    } catch (fault) {
      this.end('protocol', formatError(fault))
      throw this.#ended ?? fault
    }
    metrics.count(kind, error === '' ? 'ack' : 'nack')
    return error
  }

  #receive(timeoutMs: number, what: string, kind?: MessageKind): Promise<Uint8Array> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended)
    const timer = this.#deadline(timeoutMs, `no ${what.replace(/^an? /, '')} within ${timeoutMs} ms`, kind)
    return new Promise<Uint8Array>((resolve, reject) => {
      this.#awaited = { resolve, reject }
    }).finally(() => timer.cancel())
  }

  #deadline(timeoutMs: number, why: string, kind?: MessageKind): Timer {
    return this.#options.clock.after(timeoutMs, () => {
      if (kind !== undefined) this.#options.metrics.count(kind, 'timeout')
      this.end('timeout', why)
    })
  }

  #onRecord({ bytes, descriptors, cut }: ReceivedRecord): void {
    descriptors.forEach(closeDescriptor)
    const awaited = this.#awaited
    const fault = cut
      ? 'a record of ztunnel is too long'
      : descriptors.length > 0
        ? 'ztunnel sent a descriptor'
        : awaited === undefined
          ? 'ztunnel spoke unasked'
          : undefined
    if (fault !== undefined) this.end('protocol', fault)
    else {
      this.#awaited = undefined
      awaited?.resolve(bytes)
    }
  }

  #throwIfEnded(): void {
    if (this.#ended !== undefined) throw this.#ended
  }
}
