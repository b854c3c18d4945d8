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
import type { Asker, StreamAccess } from './access.js'
import { readCredentials } from './caller.js'
import type { ClientView } from './client-view.js'
import { isDebugType } from './debug-types.js'
import type { DebugTypes } from './debug-types.js'
import { parseNode } from './node-id.js'
import type { ClientNode } from './node-id.js'
import { toRefusal } from './proof.js'
import type { ResourceChange, ResourceStore } from './source.js'

export const SOTW_PATH = '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources'
const HEALTH_TYPE = 'type.googleapis.com/istio.v1.HealthInformation'

export interface SotwOptions {
  readonly store: ResourceStore
  readonly clock: Clock
  readonly log: Logger
  readonly debugTypes: DebugTypes | undefined
  /** Absent: nobody is asked who they are. */
  readonly access: StreamAccess | undefined
  /** Gives a connection id to a client that said who it is. */
  opened(node: ClientNode): string
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

  /** Proxies on such streams. People's tools come and go and are none. */
  clients(): ClientView[] {
    const views: ClientView[] = []
    for (const stream of this.#streams) {
      const view = stream.view()
      if (view?.proxyType === 'ztunnel') views.push(view)
    }
    return views
  }

  #open(call: Call): void {
    const credentials = readCredentials(call.metadata)
    call.on('error', () => undefined) // A caller that goes away is no event of ours.
    const proof = this.#options.access?.authenticate(credentials)
    const begin = (caller: Asker['caller']): void =>
      this.#serve(call, credentials.peer, { secure: credentials.secure, caller })
    // Until then nothing of the stream is read.
    if (proof === undefined) begin(undefined)
    else proof.then(begin, (error: unknown) => this.#refuse(call, credentials.peer, error))
  }

  #refuse(call: Call, peer: string, error: unknown): void {
    const { status, message } = toRefusal(error)
    const { log } = this.#options
    if (error instanceof ProtocolError) log.info({ peer, error: message }, 'stream refused')
    else log.error({ peer, error: formatError(error) }, 'a caller could not be judged')
    call.emit('error', { code: status, details: message })
  }

  #serve(call: Call, peer: string, asker: Asker): void {
    if (call.cancelled || call.destroyed) return
    const stream = new SotwStream(call, this.#options, peer, asker)
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
  readonly #peer: string
  readonly #asker: Asker
  readonly #connectedAtMs: number
  /** Type to the names asked for. */
  readonly #asked = new Map<string, ReadonlySet<string>>()
  #node: ClientNode | undefined
  #connectionId = ''
  #ended = false

  constructor(call: Call, options: SotwOptions, peer: string, asker: Asker) {
    this.#call = call
    this.#options = options
    this.#peer = peer
    this.#asker = asker
    this.#connectedAtMs = options.clock.now()
  }

  async receive(message: Buffer): Promise<void> {
    if (this.#ended) return
    try {
      await this.#handle(decodeDiscoveryRequest(message))
    } catch (error) {
      this.#ended = true
      if (!(error instanceof ProtocolError)) this.#options.log.error({ error: formatError(error) }, 'stream failed')
      const { status, message: details } = toRefusal(error)
      this.#call.emit('error', { code: status, details })
    }
  }

  /** Undefined until the client said who it is. What it acknowledged is not kept. */
  view(): ClientView | undefined {
    if (this.#node === undefined) return undefined
    const { id, ...node } = this.#node
    return {
      ...node,
      connectionId: this.#connectionId,
      nodeId: id,
      address: this.#peer,
      connectedAtMs: this.#connectedAtMs,
      watches: [],
    }
  }

  async #handle(request: DiscoveryRequest): Promise<void> {
    const { typeUrl, names } = request
    if (typeUrl === HEALTH_TYPE) return
    const { access, debugTypes } = this.#options
    if (this.#node === undefined) {
      const node = parseNode(request.node)
      access?.admitNode(this.#asker, node)
      this.#node = node
      this.#connectionId = this.#options.opened(node)
    }
    const identities = this.#asker.caller?.identities
    if (isDebugType(typeUrl) && identities !== undefined && debugTypes !== undefined) {
      if (request.responseNonce !== '' || request.error !== undefined) return
      const answer = await debugTypes.answer(typeUrl, names, identities)
      this.#write(typeUrl, answer.entries.map(toAny), answer.controlPlane)
      return
    }
    access?.admitType(this.#asker, typeUrl)
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
    // Policies before whatever names them.
    const types = [...this.#asked].sort(
      ([a], [b]) => Number(b === AUTHORIZATION_TYPE) - Number(a === AUTHORIZATION_TYPE),
    )
    for (const [typeUrl, names] of types) {
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
