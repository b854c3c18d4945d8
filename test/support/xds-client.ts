// SPDX-License-Identifier: Apache-2.0
// A small client of the delta stream (and of the state-of-the-world stream) over node:http2, for tests: sends what it is told, decodes and keeps what comes.
// With `freezable` it can stop reading its socket. A model of no particular proxy.

import * as http2 from 'node:http2'
import { connect as connectTcp } from 'node:net'
import type { Socket } from 'node:net'
import { duplexPair } from 'node:stream'
import type { Duplex } from 'node:stream'
import { connect as connectTls } from 'node:tls'
import { decodeEntry } from '../../src/wire/entry.js'
import { FrameParser, frameMessage } from '../../src/wire/grpc-frames.js'
import { Reader } from '../../src/wire/reader.js'

const SERVICE = '/envoy.service.discovery.v3.AggregatedDiscoveryService'

/** Short type names of the recorded conversations. */
const shortTypes: Readonly<Record<string, string>> = {
  Address: 'type.googleapis.com/istio.workload.Address',
  Workload: 'type.googleapis.com/istio.workload.Workload',
  Authorization: 'type.googleapis.com/istio.security.Authorization',
}

export interface NodeFields {
  readonly id: string
  readonly metadata?: Readonly<Record<string, string>>
}

/** Fields of a request; what is left out is not written. */
export interface RequestFields {
  /** A type URL, or its short name. */
  readonly type: string
  readonly subscribe?: readonly string[]
  readonly unsubscribe?: readonly string[]
  readonly initial?: Readonly<Record<string, string>> | ReadonlyMap<string, string>
  readonly nonce?: string
  readonly error?: { readonly code?: number; readonly message?: string }
  /** null = none; left out = the client's own, until a request of the type was sent. */
  readonly node?: NodeFields | null
  /** State-of-the-world stream only. */
  readonly names?: readonly string[]
}

export interface ReceivedResource {
  readonly name: string
  readonly version: string
  readonly aliases: readonly string[]
  /** The bytes inside the Any. */
  readonly hex: string
}

export interface ReceivedResponse {
  /** Short where there is a short name. */
  readonly type: string
  readonly nonce: string
  readonly systemVersion: string
  readonly resources: readonly ReceivedResource[]
  readonly removed: readonly string[]
  readonly bytes: number
}

export interface XdsClientOptions {
  readonly port: number
  readonly host?: string
  /** PEM of the root that signed the server's certificate: TLS. */
  readonly ca?: string
  readonly serverName?: string
  /** Certificate and key of the client, PEM. */
  readonly certificate?: { readonly cert: string; readonly key: string }
  readonly node?: NodeFields
  /** Default auto: every response is acknowledged at once. */
  readonly ack?: 'auto' | 'manual'
  readonly sotw?: boolean
  readonly freezable?: boolean
  /** Do not keep decoded responses, only count them. */
  readonly forgetful?: boolean
  readonly headers?: Readonly<Record<string, string>>
  readonly windowBytes?: number
}

export const ztunnelNode = (name = 'ztunnel-a', nodeName = 'node-ztunnel'): NodeFields => ({
  id: `ztunnel~10.9.9.9~${name}.istio-system~istio-system.svc.cluster.local`,
  metadata: { NAME: name, NAMESPACE: 'istio-system', INSTANCE_IPS: '10.9.9.9', NODE_NAME: nodeName },
})

export class XdsClient {
  readonly responses: ReceivedResponse[] = []
  /** All responses, kept or not. */
  received = 0
  /** How the server ended the stream; -1 = without a gRPC status. */
  ended: { readonly code: number; readonly message: string } | undefined
  goaway: number | undefined
  readonly #options: XdsClientOptions
  readonly #session: http2.ClientHttp2Session
  readonly #stream: http2.ClientHttp2Stream
  readonly #socket: Socket | undefined
  readonly #inner: Duplex | undefined
  readonly #parser = new FrameParser(1 << 30)
  readonly #sentTypes = new Set<string>()
  #waiting: { readonly isReady: () => boolean; readonly resolve: () => void }[] = []
  #headersStatus: number | undefined
  #headersMessage = ''

  constructor(options: XdsClientOptions) {
    this.#options = options
    const { host = '127.0.0.1', port, ca, windowBytes = 2 * 1024 * 1024 } = options
    const scheme = ca === undefined ? 'http' : 'https'
    const settings = { enablePush: false, initialWindowSize: windowBytes }
    const base: http2.ClientSessionOptions | http2.SecureClientSessionOptions = { settings, maxSessionMemory: 64 }
    const tls =
      ca === undefined
        ? {}
        : { ca, servername: options.serverName ?? 'localhost', ALPNProtocols: ['h2'], ...options.certificate }
    let createConnection: (() => Duplex) | undefined
    if (options.freezable === true) {
      this.#socket = ca === undefined ? connectTcp(port, host) : connectTls({ host, port, ...tls })
      const [outer, inner] = duplexPair()
      this.#inner = inner
      this.#socket.on('error', () => outer.destroy())
      this.#socket.on('close', () => outer.destroy())
      outer.on('close', () => this.#socket?.destroy())
      inner.on('error', () => undefined)
      this.#socket.pipe(inner)
      inner.pipe(this.#socket)
      createConnection = () => outer
    }
    this.#session = http2.connect(`${scheme}://${host}:${port}`, {
      ...base,
      ...tls,
      ...(createConnection === undefined ? {} : { createConnection }),
    })
    this.#session.on('error', () => undefined)
    this.#session.on('goaway', (code: number) => (this.goaway = code))
    this.#session.on('connect', () => {
      if (!this.#session.destroyed) this.#session.setLocalWindowSize(Math.min(windowBytes * 2, 0x7fffffff))
    })
    this.#stream = this.#session.request({
      ':method': 'POST',
      ':path': `${SERVICE}/${options.sotw === true ? 'Stream' : 'Delta'}AggregatedResources`,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...options.headers,
    })
    this.#listen()
  }

  #listen(): void {
    const stream = this.#stream
    stream.on('error', () => undefined)
    stream.on('response', (headers) => this.#status(headers))
    stream.on('trailers', (headers) => this.#status(headers))
    stream.on('data', (chunk: Buffer) => {
      for (const message of this.#parser.push(chunk)) this.#take(message)
    })
    stream.on('close', () => {
      this.ended ??= { code: this.#headersStatus ?? -1, message: this.#headersMessage }
      this.#wake()
    })
    stream.on('end', () => stream.end())
  }

  #status(headers: http2.IncomingHttpHeaders): void {
    const status = headers['grpc-status']
    if (typeof status !== 'string') return
    this.#headersStatus = Number(status)
    this.#headersMessage = decodeURIComponent(String(headers['grpc-message'] ?? ''))
  }

  #take(message: Uint8Array): void {
    const response = this.#options.sotw === true ? decodeSotw(message) : decodeDelta(message)
    this.received++
    if (this.#options.forgetful !== true) this.responses.push(response)
    if ((this.#options.ack ?? 'auto') === 'auto') this.send({ type: response.type, nonce: response.nonce, node: null })
    this.#wake()
  }

  /** Sends one request. */
  send(fields: RequestFields): void {
    const typeUrl = shortTypes[fields.type] ?? fields.type
    const node =
      fields.node === undefined
        ? this.#sentTypes.has(typeUrl)
          ? null
          : (this.#options.node ?? ztunnelNode())
        : fields.node
    this.#sentTypes.add(typeUrl)
    const full = { ...fields, type: typeUrl, node }
    this.sendMessage(this.#options.sotw === true ? encodeSotwRequest(full) : encodeDeltaRequest(full))
  }

  /** Sends these bytes as one gRPC message. */
  sendMessage(message: Uint8Array): void {
    this.sendBytes(frameMessage(message))
  }

  /** Sends these bytes as they are. */
  sendBytes(bytes: Uint8Array): void {
    if (!this.#stream.destroyed && !this.#stream.writableEnded) this.#stream.write(bytes)
  }

  /** Resolves when so many responses came in all, or the stream ended. Rejects after `timeoutMs` of real time. */
  async receivedAtLeast(count: number, timeoutMs = 10_000): Promise<void> {
    await this.until(() => this.received >= count, `${count} responses`, timeoutMs)
  }

  async untilEnded(timeoutMs = 10_000): Promise<{ readonly code: number; readonly message: string }> {
    await this.until(() => this.ended !== undefined, 'the end of the stream', timeoutMs)
    return this.ended ?? { code: -1, message: '' }
  }

  async until(isReady: () => boolean, what: string, timeoutMs = 10_000): Promise<void> {
    if (isReady()) return
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error(`waited ${timeoutMs} ms for ${what}, have ${this.received}`)),
        timeoutMs,
      )
      this.#waiting.push({
        isReady: () => isReady() || this.ended !== undefined,
        resolve: () => {
          clearTimeout(timer)
          resolve()
        },
      })
    })
  }

  #wake(): void {
    const ready = this.#waiting.filter((w) => w.isReady())
    if (ready.length === 0) return
    this.#waiting = this.#waiting.filter((w) => !ready.includes(w))
    for (const w of ready) w.resolve()
  }

  /** One round trip on the connection; all that the server wrote before it has arrived then. */
  async ping(): Promise<void> {
    if (this.#session.destroyed || this.#session.closed) return
    if (this.#session.connecting) await new Promise<void>((resolve) => this.#session.once('connect', () => resolve()))
    await new Promise<void>((resolve) => {
      const done = (): void => {
        this.#session.off('close', done)
        resolve()
      }
      this.#session.once('close', done)
      if (!this.#session.ping(done)) done()
    })
  }

  /** Bytes that wait for the server to take them. */
  get unsent(): number {
    return this.#stream.writableLength
  }

  /** Sends nothing more; still reads. */
  halfClose(): void {
    this.#stream.end()
  }

  /** Stops to read this stream; the connection lives. */
  pauseStream(): void {
    this.#stream.pause()
  }

  resumeStream(): void {
    this.#stream.resume()
  }

  /** Stops to read the socket: no pings are answered either. Needs `freezable`. */
  freeze(): void {
    if (this.#socket === undefined) throw new Error('this client was not made freezable')
    this.#socket.unpipe()
    this.#socket.pause()
  }

  /** Reads the socket again after freeze(). */
  thaw(): void {
    if (this.#socket === undefined || this.#inner === undefined) throw new Error('this client was not made freezable')
    this.#socket.pipe(this.#inner)
    this.#socket.resume()
  }

  /** Resets the stream. */
  reset(): void {
    this.#stream.close(http2.constants.NGHTTP2_CANCEL)
  }

  /** Drops the connection. */
  destroy(): void {
    this.#session.destroy()
    this.#socket?.destroy()
  }

  /** Ends in good order. */
  async close(): Promise<void> {
    this.#stream.end()
    if (!this.#stream.closed) this.#stream.close()
    if (!this.#session.destroyed) await new Promise<void>((resolve) => this.#session.close(resolve))
    this.#socket?.destroy()
  }
}

/** What a client holds after these responses, on top of what it held. Name to version. */
export function applyResponses(
  responses: readonly ReceivedResponse[],
  type = 'Address',
  held: Map<string, ReceivedResource> = new Map(),
): Map<string, ReceivedResource> {
  for (const response of responses) {
    if (response.type !== type) continue
    for (const resource of response.resources) held.set(resource.name, resource)
    for (const name of response.removed) held.delete(name)
  }
  return held
}

// --- bytes -------------------------------------------------------------------------------------------------------

function varint(value: number): Buffer {
  const bytes: number[] = []
  let rest = value
  for (; rest > 0x7f; rest >>>= 7) bytes.push((rest & 0x7f) | 0x80)
  bytes.push(rest)
  return Buffer.from(bytes)
}

function bytesField(field: number, bytes: Uint8Array): Buffer {
  return Buffer.concat([varint((field << 3) | 2), varint(bytes.length), bytes])
}

const textField = (field: number, text: string): Buffer => bytesField(field, Buffer.from(text))

function encodeNode(node: NodeFields): Buffer {
  const fields = Object.entries(node.metadata ?? {}).map(([key, value]) =>
    bytesField(1, Buffer.concat([textField(1, key), bytesField(2, textField(3, value))])),
  )
  return Buffer.concat([textField(1, node.id), bytesField(3, Buffer.concat(fields))])
}

function encodeStatus(error: { readonly code?: number; readonly message?: string }): Buffer {
  const code =
    error.code === undefined || error.code === 0 ? Buffer.alloc(0) : Buffer.concat([varint(8), varint(error.code)])
  return Buffer.concat([code, error.message === undefined ? Buffer.alloc(0) : textField(2, error.message)])
}

type FullFields = Omit<RequestFields, 'node'> & { readonly node: NodeFields | null }

/** A DeltaDiscoveryRequest. */
export function encodeDeltaRequest(fields: FullFields): Buffer {
  const { initial } = fields
  const versions = initial instanceof Map ? [...initial] : Object.entries(initial ?? {})
  return Buffer.concat([
    ...(fields.node === null ? [] : [bytesField(1, encodeNode(fields.node))]),
    textField(2, fields.type),
    ...(fields.subscribe ?? []).map((name) => textField(3, name)),
    ...(fields.unsubscribe ?? []).map((name) => textField(4, name)),
    ...versions.map(([name, version]) => bytesField(5, Buffer.concat([textField(1, name), textField(2, version)]))),
    ...(fields.nonce === undefined ? [] : [textField(6, fields.nonce)]),
    ...(fields.error === undefined ? [] : [bytesField(7, encodeStatus(fields.error))]),
  ])
}

/** A DiscoveryRequest. */
export function encodeSotwRequest(fields: FullFields): Buffer {
  return Buffer.concat([
    ...(fields.node === null ? [] : [bytesField(2, encodeNode(fields.node))]),
    ...(fields.names ?? []).map((name) => textField(3, name)),
    textField(4, fields.type),
    ...(fields.nonce === undefined ? [] : [textField(5, fields.nonce)]),
    ...(fields.error === undefined ? [] : [bytesField(6, encodeStatus(fields.error))]),
  ])
}

function toShort(typeUrl: string): string {
  for (const [short, long] of Object.entries(shortTypes)) if (long === typeUrl) return short
  return typeUrl
}

function decodeResource(bytes: Uint8Array): ReceivedResource {
  const { name, version, body } = decodeEntry(bytes)
  const aliases: string[] = []
  const reader = new Reader(bytes, 'Resource')
  while (reader.next()) {
    if (reader.field === 4) aliases.push(reader.string())
    else reader.skip()
  }
  return { name, version, aliases, hex: Buffer.from(body).toString('hex') }
}

function decodeDelta(message: Uint8Array): ReceivedResponse {
  const found = { type: '', nonce: '', systemVersion: '' }
  const resources: ReceivedResource[] = []
  const removed: string[] = []
  const reader = new Reader(message, 'DeltaDiscoveryResponse')
  while (reader.next()) {
    if (reader.field === 1) found.systemVersion = reader.string()
    else if (reader.field === 2) resources.push(decodeResource(reader.bytes()))
    else if (reader.field === 4) found.type = toShort(reader.string())
    else if (reader.field === 5) found.nonce = reader.string()
    else if (reader.field === 6) removed.push(reader.string())
    else reader.skip()
  }
  return { ...found, resources, removed, bytes: message.length }
}

function decodeSotw(message: Uint8Array): ReceivedResponse {
  const found = { type: '', nonce: '', systemVersion: '' }
  const resources: ReceivedResource[] = []
  const reader = new Reader(message, 'DiscoveryResponse')
  while (reader.next()) {
    if (reader.field === 1) found.systemVersion = reader.string()
    else if (reader.field === 2) {
      let hex = ''
      const any = reader.message('Any')
      while (any.next()) {
        if (any.field === 2) hex = Buffer.from(any.bytes()).toString('hex')
        else any.skip()
      }
      resources.push({ name: '', version: '', aliases: [], hex })
    } else if (reader.field === 4) found.type = toShort(reader.string())
    else if (reader.field === 5) found.nonce = reader.string()
    else reader.skip()
  }
  return { ...found, resources, removed: [], bytes: message.length }
}
