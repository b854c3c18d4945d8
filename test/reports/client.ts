// SPDX-License-Identifier: Apache-2.0
// A report's client: one stream that comes back by itself, over a model of ztunnel that survives it. Remembers what each response did.

import { decodeAddress, decodeWorkload } from '../../src/wire/address-decoder.js'
import { toAddressJson } from '../../src/wire/address-json.js'
import { toAuthorizationJson } from '../../src/wire/authorization-json.js'
import { XdsClient, type ReceivedResponse as RawResponse, type RequestFields } from '../support/xds-client.js'
import { ZtunnelModel, type ReceivedResource } from './ztunnel-model.js'

export interface ClientAction {
  readonly name: string
  readonly open?: 'wildcard' | 'onDemand'
  readonly resume?: boolean
  readonly type?: string
  readonly nodeName?: string
  readonly subscribe?: readonly string[]
  readonly unsubscribe?: readonly string[]
  readonly initial?: Readonly<Record<string, string>>
  readonly nonce?: number
  readonly error?: string
  readonly ack?: 'auto' | 'manual'
  readonly read?: boolean
}

/** One response as the client met it. */
export interface AppliedResponse {
  /** Sent with a version that was not held. */
  readonly changed: readonly string[]
  /** Sent with the version that was held. */
  readonly repeated: readonly string[]
  /** Names removed; aliases that only wake a waiter, and names of nobody's, left out. */
  readonly removed: readonly string[]
  /** All of removed_resources but the wake-up aliases. */
  readonly removedAll: readonly string[]
}

export class ReportClient {
  readonly name: string
  readonly model = new ZtunnelModel()
  /** Of the running step. */
  applied: AppliedResponse[] = []
  /** How the server ended streams in the running step. */
  endings: { readonly code: number; readonly message: string }[] = []
  /** Nonces of the present stream, in order. */
  nonces: string[] = []
  /** Called after each response. */
  onApplied: () => void = () => undefined
  reading = true
  readonly #port: number
  readonly #asked = new Set<string>()
  #type = 'Address'
  #nodeName = ''
  #open: 'wildcard' | 'onDemand' = 'wildcard'
  #ack: 'auto' | 'manual' = 'auto'
  #wanted = false
  #stream: XdsClient | undefined
  #taken = 0

  constructor(name: string, port: number) {
    this.name = name
    this.#port = port
  }

  /** Responses received on the present stream, taken in or not. */
  get received(): number {
    return this.#stream?.received ?? 0
  }

  get wanted(): boolean {
    return this.#wanted
  }

  act(action: ClientAction): void {
    if (action.type !== undefined) this.#type = action.type
    if (action.nodeName !== undefined) this.#nodeName = action.nodeName
    if (action.ack !== undefined) this.#ack = action.ack
    if (action.open !== undefined) {
      this.#open = action.open
      this.#connect(action.resume === true, action)
    } else if (['subscribe', 'unsubscribe', 'initial', 'nonce', 'error'].some((key) => key in action)) {
      this.#send(this.#toRequest(action))
    }
    if (action.read === false && this.reading) {
      this.reading = false
      this.#stream?.freeze()
    }
    if (action.read === true && !this.reading) {
      this.reading = true
      this.#stream?.thaw()
    }
  }

  /** Applies what has arrived and acknowledges it; when the stream ended and `mayReturn`, comes back. Says what happened. */
  pump(mayReturn: boolean): 'nothing' | 'moved' | 'returned' {
    const stream = this.#stream
    if (stream === undefined) return 'nothing'
    let moved = false
    while (this.#taken < stream.responses.length) {
      const response = stream.responses[this.#taken++]
      if (response === undefined) break
      moved = true
      this.nonces.push(response.nonce)
      this.#apply(response)
      if (this.#ack === 'auto') stream.send({ type: response.type, nonce: response.nonce, node: null })
    }
    if (stream.ended !== undefined && this.#wanted && mayReturn) {
      if (stream.ended.code >= 0) this.endings.push(stream.ended)
      else this.endings.push({ code: 2, message: 'the stream ended without a status' })
      stream.destroy()
      if (this.reading) this.#connect(true, { name: this.name })
      else this.#wanted = false
      return 'returned'
    }
    return moved ? 'moved' : 'nothing'
  }

  async disconnect(how: 'close' | 'reset' | 'freeze'): Promise<void> {
    this.#wanted = false
    if (how === 'freeze') {
      this.reading = false
      this.#stream?.freeze()
    } else if (how === 'reset') this.#stream?.destroy()
    else await this.#stream?.close()
  }

  destroy(): void {
    this.#wanted = false
    this.#stream?.destroy()
  }

  #connect(resume: boolean, action: ClientAction): void {
    this.#stream?.destroy()
    this.#wanted = true
    this.#taken = 0
    this.nonces = []
    this.#stream = new XdsClient({
      port: this.#port,
      ack: 'manual',
      freezable: true,
      node: toNode(this.name, this.#nodeName),
    })
    const held = resume ? [...this.model.held.values()].map((r) => [r.name, r.version] as const) : []
    const request = this.#toRequest(action)
    const star = this.#open === 'onDemand' || (request.subscribe?.length ?? 0) > 0 ? ['*'] : []
    this.#send({
      ...request,
      subscribe: [...star, ...(request.subscribe ?? [])],
      unsubscribe: [...(this.#open === 'onDemand' ? ['*'] : []), ...(request.unsubscribe ?? [])],
      initial: new Map([...held, ...toEntries(request.initial)]),
    })
  }

  #toRequest(action: ClientAction): RequestFields {
    const initial = Object.fromEntries(
      Object.entries(action.initial ?? {}).map(([name, version]) => [
        name,
        version === '$held' ? (this.model.held.get(name)?.version ?? '') : version,
      ]),
    )
    const at = action.nonce ?? (action.error === undefined ? undefined : -1)
    const nonce = at === undefined ? undefined : at < 0 ? this.nonces.at(at) : this.nonces[at - 1]
    return {
      type: this.#type,
      ...(action.subscribe === undefined ? {} : { subscribe: action.subscribe }),
      ...(action.unsubscribe === undefined ? {} : { unsubscribe: action.unsubscribe }),
      ...(action.initial === undefined ? {} : { initial }),
      ...(nonce === undefined ? {} : { nonce }),
      ...(action.error === undefined ? {} : { error: { code: 0, message: action.error } }),
    }
  }

  #send(request: RequestFields): void {
    for (const name of request.subscribe ?? []) this.#asked.add(name)
    for (const [name] of toEntries(request.initial)) this.#asked.add(name)
    this.#stream?.send(request)
  }

  #apply(raw: RawResponse): void {
    const resources = raw.resources.map((r) => toResource(raw.type, r))
    const changed: string[] = []
    const repeated: string[] = []
    for (const resource of resources) {
      const held = this.model.held.get(resource.name)
      if (held !== undefined && held.version === resource.version && raw.type !== 'Authorization')
        repeated.push(resource.name)
      else changed.push(resource.name)
    }
    const primary = new Set(resources.map((r) => r.name))
    const wakeUp = new Set(resources.flatMap((r) => r.aliases))
    for (const name of raw.removed) for (const alias of this.model.held.get(name)?.aliases ?? []) wakeUp.add(alias)
    const removedAll = raw.removed.filter((name) => !wakeUp.has(name) || primary.has(name) || this.model.held.has(name))
    const removed = removedAll.filter((name) => this.model.held.has(name) || primary.has(name) || this.#asked.has(name))
    this.model.apply({ typeUrl: raw.type, nonce: raw.nonce, resources, removed: raw.removed })
    this.applied.push({ changed, repeated, removed, removedAll })
    this.onApplied()
  }
}

function toEntries(initial: RequestFields['initial']): readonly (readonly [name: string, version: string])[] {
  return initial instanceof Map ? [...(initial as ReadonlyMap<string, string>)] : Object.entries(initial ?? {})
}

/** Name, version and content of a received resource. */
export function toResource(type: string, raw: RawResponse['resources'][number]): ReceivedResource {
  const bytes = Buffer.from(raw.hex, 'hex')
  const { name, version, aliases } = raw
  return { name, version, aliases, json: toJson(type, bytes) }
}

function toJson(type: string, bytes: Uint8Array): Record<string, unknown> {
  if (type === 'Authorization') return toAuthorizationJson(bytes, { ip: 'text' })
  const decoded =
    type === 'Workload' ? { kind: 'workload' as const, workload: decodeWorkload(bytes) } : decodeAddress(bytes)
  return toAddressJson(decoded, { ip: 'text' })
}

/** The node of a client of this name. */
export function toNode(name: string, nodeName: string): { id: string; metadata: Record<string, string> } {
  return {
    id: `ztunnel~10.9.9.9~${name}.istio-system~istio-system.svc.cluster.local`,
    metadata: { NAME: name, NAMESPACE: 'istio-system', ...(nodeName === '' ? {} : { NODE_NAME: nodeName }) },
  }
}
