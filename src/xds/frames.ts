// SPDX-License-Identifier: Apache-2.0
// Plans of responses as bytes. What is the same for many streams is made once and shared: a change as a whole gRPC message, everything as a body behind a small head.
// Shared bytes are bounded and let go soon after their last use. Entries are copied, never read.

import { LRUCache } from 'lru-cache'
import type { Clock } from '../base/clock.js'
import { frameMessage } from '../wire/grpc-frames.js'
import { encodeFrame, encodeResourceFields, encodeResponseTail } from '../wire/responses.js'
import type { ResourceParts } from '../wire/responses.js'
import type { TypeCells } from './metrics.js'
import type { Encoder, Outgoing, Part, Reply } from './reply.js'
import type { Resource } from './source.js'
import type { Topic } from './topic.js'

interface Body {
  readonly bytes: Uint8Array
  readonly resources: number
}

/** Bodies of a shared answer are small enough below this to be copied into the message that carries them. */
const copyBelowBytes = 64 * 1024
const keepMs = 2000

/** What all topics of one server share: the bytes at hand, nonces, the version text of the last commit. */
export class FrameStore {
  readonly #clock: Clock
  readonly #prefix: string
  readonly #bodies: LRUCache<string, Body>
  #count = 0
  #dropping = false
  #used = false
  /** Tells people which commit a response shows. */
  systemVersion = ''

  /** `prefix` makes nonces differ from those of other processes; `maxBytes` bounds what is kept for sharing. */
  constructor(clock: Clock, prefix: string, maxBytes: number) {
    this.#clock = clock
    this.#prefix = prefix
    this.#bodies = new LRUCache({ maxSize: maxBytes, sizeCalculation: (body) => body.bytes.length + 1 })
  }

  /** Never the same twice. */
  nonce(): string {
    this.#count++
    return `${this.#prefix}-${this.#count.toString(36)}`
  }

  /** The body under this key; `make` runs when it is not at hand. `replaces` is let go. */
  body(key: string, make: () => Body, replaces: string): Body {
    let body = this.#bodies.get(key)
    if (body === undefined) {
      this.#bodies.delete(replaces)
      body = make()
      this.#bodies.set(key, body)
    }
    this.#used = true
    this.#dropLater()
    return body
  }

  /** Lets go of everything once nothing was used for a while: idle memory stays low. */
  #dropLater(): void {
    if (this.#dropping) return
    this.#dropping = true
    this.#used = false
    this.#clock.after(keepMs, () => {
      this.#dropping = false
      if (this.#used) this.#dropLater()
      else this.#bodies.clear()
    })
  }
}

interface Memo {
  readonly kind: Part | 'ranges'
  readonly from: number
  readonly to: number
  readonly outgoing: Outgoing | undefined
}

export class Frames implements Encoder {
  readonly #store: FrameStore
  readonly #topic: Topic
  /** The last few shared messages: streams at the same place ask one after another. */
  #memos: Memo[] = []
  #snapshotKey = ''
  readonly #ackHead: Buffer

  /** Where responses of the type are counted. */
  readonly cells: TypeCells

  constructor(store: FrameStore, topic: Topic, cells: TypeCells) {
    this.cells = cells
    this.#store = store
    this.#topic = topic
    const typeUrl = Buffer.from(topic.typeUrl)
    this.#ackHead = Buffer.concat([Buffer.from([0x12, typeUrl.length]), typeUrl, Buffer.from([0x32])])
  }

  /** True for the bytes of a request that says nothing but this type and this nonce, in the usual order. */
  isAck(message: Uint8Array, nonce: string): boolean {
    const head = this.#ackHead
    const start = head.length + 1
    // Lengths of more than one byte are not worth the care: the general way reads them.
    if (nonce === '' || message.length !== start + nonce.length || nonce.length > 127 || head.length > 129) return false
    for (let i = 0; i < head.length; i++) if (message[i] !== head[i]) return false
    if (message[head.length] !== nonce.length) return false
    for (let i = 0; i < nonce.length; i++) if (message[start + i] !== nonce.charCodeAt(i)) return false
    return true
  }

  /** The bytes of a planned response; undefined when it turns out to say nothing. */
  encode(reply: Reply): Outgoing | undefined {
    switch (reply.kind) {
      case 'snapshot':
        return this.#snapshot(reply.removed)
      case 'delta':
        return this.#shared(reply.part, reply.from, reply.to)
      case 'ranges':
        return this.#shared('ranges', reply.from, reply.to)
      case 'selection':
        return this.#selection(toParts(reply.resources, reply.aliases), reply.removed)
    }
  }

  /** What one stream asked for; as a rule a resource or two. */
  #selection(resources: readonly ResourceParts[], removed: readonly string[]): Outgoing {
    let size = 0
    for (const { entry } of resources) size += entry.length
    if (size >= copyBelowBytes) return this.#message(encodeResourceFields(resources), resources.length, removed)
    const nonce = this.#store.nonce()
    const { systemVersion } = this.#store
    const frame = encodeFrame({ typeUrl: this.#topic.typeUrl, nonce, systemVersion, removed }, resources)
    const sizeBytes = frame.length - 5
    return { parts: [frame], nonce, sizeBytes, resources: resources.length, removed: removed.length }
  }

  /** Shared messages are of no use once nobody lags. */
  forget(): void {
    this.#memos = []
  }

  /** The one answer that carries something other than resources of ours: entries made by somebody else, never shared. */
  encodeEntries(entries: readonly Uint8Array[], controlPlane: string): Outgoing {
    const fields = encodeResourceFields(entries.map((entry) => ({ entry })))
    return this.#message(fields, entries.length, [], controlPlane)
  }

  #snapshot(removed: readonly string[]): Outgoing {
    const key = `${this.#topic.typeUrl} ${this.#topic.revision}`
    const body = this.#store.body(key, () => this.#everything(), this.#snapshotKey)
    this.#snapshotKey = key
    return this.#message(body.bytes, body.resources, removed)
  }

  #everything(): Body {
    const resources: Resource[] = []
    for (const resource of this.#topic.source?.all() ?? []) if (resource.entry !== undefined) resources.push(resource)
    return { bytes: encodeResourceFields(toParts(resources, false)), resources: resources.length }
  }

  #shared(kind: Part | 'ranges', from: number, to: number): Outgoing | undefined {
    for (const memo of this.#memos) {
      if (memo.from === from && memo.to === to && memo.kind === kind) return memo.outgoing
    }
    const outgoing = kind === 'ranges' ? this.#rangesSince(from) : this.#changesSince(from, kind)
    this.#memos = [{ kind, from, to, outgoing }, ...this.#memos.filter((memo) => memo.to === to)].slice(0, 16)
    return outgoing
  }

  #rangesSince(from: number): Outgoing | undefined {
    const resources = this.#topic.existingRanges(this.#topic.ranges.since(from))
    if (resources.length === 0) return undefined
    return this.#message(encodeResourceFields(toParts(resources, false)), resources.length, [])
  }

  #changesSince(from: number, part: Part): Outgoing | undefined {
    const resources: Resource[] = []
    const removed: string[] = []
    for (const name of this.#topic.log.since(from)) {
      const resource = this.#topic.get(name)
      if (resource?.entry === undefined) removed.push(name)
      else resources.push(resource)
    }
    if (part === 'changed') removed.length = 0
    if (part === 'removed') resources.length = 0
    if (resources.length === 0 && removed.length === 0) return undefined
    return this.#message(encodeResourceFields(toParts(resources, false)), resources.length, removed)
  }

  /** What differs per stream goes first, so that a large body stays one untouched piece. */
  #message(body: Uint8Array, resources: number, removed: readonly string[], controlPlane = ''): Outgoing {
    const nonce = this.#store.nonce()
    const systemVersion = this.#store.systemVersion
    const head = encodeResponseTail({ typeUrl: this.#topic.typeUrl, nonce, systemVersion, removed, controlPlane })
    const sizeBytes = head.length + body.length
    if (body.length < copyBelowBytes) {
      return { parts: [frameMessage(head, body)], nonce, sizeBytes, resources, removed: removed.length }
    }
    const framed = Buffer.allocUnsafe(5 + head.length)
    framed[0] = 0
    framed.writeUInt32BE(sizeBytes, 1)
    framed.set(head, 5)
    return { parts: [framed, body], nonce, sizeBytes, resources, removed: removed.length }
  }
}

function toParts(resources: readonly Resource[], aliases: boolean): ResourceParts[] {
  const written: ResourceParts[] = []
  for (const { entry, aliases: names } of resources) {
    if (entry !== undefined) written.push(aliases ? { entry, aliases: names } : { entry })
  }
  return written
}
