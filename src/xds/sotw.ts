// SPDX-License-Identifier: Apache-2.0
// StreamAggregatedResources on the inner server: as much of the state-of-the-world protocol as tools use. Addresses are answered with nothing and then with what changes of the names asked for;
// policies come whole, then as they change; debug types go to whoever makes them. Nobody should serve a proxy by it.

import type * as grpc from '@grpc/grpc-js'
import type { Clock } from '../base/clock.js'
import { ProtocolError, formatError } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import { decodeDiscoveryRequest } from '../wire/discovery.js'
import type { DiscoveryRequest } from '../wire/discovery.js'
import { decodeEntry } from '../wire/entry.js'
import { AUTHORIZATION_TYPE } from '../wire/messages.js'
import { encodeDiscoveryResponse } from '../wire/responses.js'
import { parseCaller } from './caller.js'
import type { Caller } from './caller.js'
import { isDebugType } from './debug-types.js'
import type { DebugTypes } from './debug-types.js'
import { parseNode } from './node-id.js'
import type { ResourceChange, ResourceStore } from './source.js'

export const SOTW_PATH = '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources'
const HEALTH_TYPE = 'type.googleapis.com/istio.v1.HealthInformation'
const INTERNAL = 13

export interface SotwOptions {
  readonly store: ResourceStore
  readonly clock: Clock
  readonly log: Logger
  readonly debugTypes: DebugTypes | undefined
  /** Identities that the caller proved; undefined where nobody asks for proof. */
  identities(caller: Caller | undefined, metadata: grpc.Metadata): readonly string[] | undefined
  nonce(): string
}

type Call = grpc.ServerDuplexStream<Buffer, Buffer>

interface Answer {
  readonly typeUrl: string
  readonly value: Uint8Array
}

const asIs = (bytes: Buffer): Buffer => bytes

/** The service to add to the inner server, and what to tell it of commits. */
export class StateOfTheWorld {
  readonly #options: SotwOptions
  readonly #streams = new Set<SotwStream>()

  constructor(options: SotwOptions) {
    this.#options = options
  }

  addTo(server: grpc.Server): void {
    const definition: grpc.MethodDefinition<Buffer, Buffer> = {
      path: SOTW_PATH,
      requestStream: true,
      responseStream: true,
      requestSerialize: asIs,
      requestDeserialize: asIs,
      responseSerialize: asIs,
      responseDeserialize: asIs,
    }
    server.addService(
      { StreamAggregatedResources: definition },
      { StreamAggregatedResources: (call: Call) => this.#open(call) },
    )
  }

  commit(changes: ReadonlyMap<string, readonly ResourceChange[]>): void {
    for (const stream of this.#streams) stream.commit(changes)
  }

  #open(call: Call): void {
    const stream = new SotwStream(call, this.#options)
    this.#streams.add(stream)
    const gone = (): void => void this.#streams.delete(stream)
    call.on('close', gone)
    call.on('cancelled', gone)
    call.on('end', () => {
      gone()
      call.end()
    })
    call.on('error', gone)
    call.on('data', (message: Buffer) => void stream.receive(message))
  }
}

class SotwStream {
  readonly #call: Call
  readonly #options: SotwOptions
  readonly #identities: readonly string[] | undefined
  /** Type to the names asked for. */
  readonly #asked = new Map<string, ReadonlySet<string>>()
  #greeted = false
  #ended = false

  constructor(call: Call, options: SotwOptions) {
    this.#call = call
    this.#options = options
    this.#identities = options.identities(parseCaller(call.metadata), call.metadata)
  }

  async receive(message: Buffer): Promise<void> {
    if (this.#ended) return
    try {
      await this.#handle(decodeDiscoveryRequest(message))
    } catch (error) {
      this.#ended = true
      const known = error instanceof ProtocolError
      if (!known) this.#options.log.error({ error: formatError(error) }, 'stream failed')
      const code = known ? error.status : INTERNAL
      this.#call.emit('error', { code, details: known ? error.message : 'internal error' })
    }
  }

  async #handle(request: DiscoveryRequest): Promise<void> {
    const { typeUrl, names } = request
    if (typeUrl === HEALTH_TYPE) return
    if (!this.#greeted) {
      parseNode(request.node)
      this.#greeted = true
    }
    if (isDebugType(typeUrl) && this.#identities !== undefined && this.#options.debugTypes !== undefined) {
      if (request.responseNonce !== '' || request.error !== undefined) return
      const answer = await this.#options.debugTypes.answer(typeUrl, names, this.#identities)
      this.#write(typeUrl, answer.entries.map(toAny), answer.controlPlane)
      return
    }
    const before = this.#asked.get(typeUrl)
    if (request.error !== undefined && before !== undefined) return
    // An acknowledgement that repeats no names gives none of them up.
    if (before !== undefined && request.responseNonce !== '' && names.length === 0) return
    const now = new Set(names)
    if (before !== undefined && before.size === now.size && names.every((name) => before.has(name))) return
    this.#asked.set(typeUrl, now)
    this.#write(typeUrl, typeUrl === AUTHORIZATION_TYPE ? this.#all(typeUrl) : [])
  }

  #all(typeUrl: string): Answer[] {
    const all: Answer[] = []
    for (const { entry } of this.#options.store.source(typeUrl)?.all() ?? [])
      if (entry !== undefined) all.push(toAny(entry))
    return all
  }

  commit(changes: ReadonlyMap<string, readonly ResourceChange[]>): void {
    for (const [typeUrl, names] of this.#asked) {
      const told: Answer[] = []
      for (const { name, after } of changes.get(typeUrl) ?? []) {
        if (after?.entry !== undefined && (typeUrl === AUTHORIZATION_TYPE || names.has(name)))
          told.push(toAny(after.entry))
      }
      if (told.length > 0) this.#write(typeUrl, told)
    }
  }

  #write(typeUrl: string, resources: readonly Answer[], controlPlane = ''): void {
    if (this.#ended) return
    const versionInfo = new Date(this.#options.clock.now()).toISOString()
    const bytes = encodeDiscoveryResponse({
      versionInfo,
      typeUrl,
      nonce: this.#options.nonce(),
      resources,
      controlPlane,
    })
    this.#call.write(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength))
  }
}

function toAny(entry: Uint8Array): Answer {
  const { typeUrl, body } = decodeEntry(entry)
  return { typeUrl, value: body }
}
