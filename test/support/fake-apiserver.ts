// SPDX-License-Identifier: Apache-2.0
// An API server on loopback that can be told to misbehave: real HTTP, real lists, watches and patches over objects in memory. For every test
// of a program that reads or writes Kubernetes objects. Time (bookmarks, watch timeouts) goes through the clock it is given.

import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { systemClock, type Clock, type Timer } from '../../src/base/clock.js'
import { sendJson, sendStatus, toStatus } from './fake-apiserver-answer.js'
import { canWriteProtobuf, toProtobufList } from './fake-apiserver-protobuf.js'
import { parseRoute, storedTypes, type Route, type Verb } from './fake-apiserver-route.js'
import { FakeStore, mergePatch, type Json, type ObjectRef } from './fake-apiserver-store.js'
import { ticks, until, waitForRead } from './fake-apiserver-taken.js'
import { FakeWatch, isSelected, type Selectors } from './fake-apiserver-watch.js'
import { answerWrite, type SeenWrite } from './fake-apiserver-write.js'

/** How often open watches get a bookmark. */
export const bookmarkMs = 60_000

export type WatchFault = 'silent' | 'close' | 'reset' | 'goneOnConnect' | 'refuse' | 'hold' | 'resume'
export type Kinds = readonly string[] | 'all'

/** The next `times` (1) requests that match are answered with this status, or not at all. */
export interface ApiFault {
  readonly verb?: Verb
  readonly kind?: string
  readonly namespace?: string
  readonly name?: string
  readonly subresource?: string
  readonly answer: number | 'timeout'
  readonly times?: number
  readonly retryAfterSeconds?: number
}

export interface PagesFault {
  readonly size: number
  readonly failAfter?: number
  readonly with?: number
}

export interface FakeApiServerOptions {
  readonly clock?: Clock
  /** Kinds of CRDs that are not defined. */
  readonly absent?: readonly string[]
  /** Versions that are not served, as `group/version`. */
  readonly unserved?: readonly string[]
  /** Answer in protobuf when asked to. */
  readonly protobuf?: boolean
  /** When set, requests without this bearer token get 401. */
  readonly token?: string
}

interface KindState {
  refuse: number | undefined
  hold: boolean
  goneOnConnect: boolean
  pages: { size: number; failAfter: number; with: number } | undefined
  list: number
  watch: number
  other: number
}

interface Snapshot {
  readonly items: Json[]
  readonly version: string
  pagesServed: number
}

export class FakeApiServer {
  readonly store = new FakeStore()
  /** Every write over HTTP, in order. */
  readonly writes: SeenWrite[] = []
  /** Answers a create of this kind instead of storing it, such as a TokenReview's. */
  readonly createAnswers = new Map<string, (object: Json) => Json>()
  /** Kinds whose conditions are one field to server-side apply: there is one owner for all of them. */
  readonly wholeConditions = new Set<string>()
  token: string | undefined
  /** Counts requests and connections, so that one can tell when nothing moves. */
  activity = 0
  readonly #clock: Clock
  readonly #protobuf: boolean
  readonly #absent: Set<string>
  readonly #unserved: Set<string>
  readonly #states = new Map<string, KindState>()
  readonly #watches = new Set<FakeWatch>()
  readonly #sockets = new Set<Socket>()
  readonly #snapshots = new Map<string, Snapshot>()
  readonly #held: { kind: string; answer: () => void }[] = []
  #faults: { fault: ApiFault; left: number }[] = []
  #server: http.Server | undefined
  #port = 0
  #bookmarks: Timer | undefined

  constructor(options: FakeApiServerOptions = {}) {
    this.#clock = options.clock ?? systemClock
    this.#protobuf = options.protobuf ?? false
    this.#absent = new Set(options.absent)
    this.#unserved = new Set(options.unserved)
    this.token = options.token
    this.store.onChange = (change) => {
      for (const watch of this.#watches) if (watch.kind === change.kind) watch.show(change)
    }
  }

  /** Listens on loopback; again on the same port after stop(). */
  async start(): Promise<void> {
    const server = http.createServer((request, response) => void this.#answer(request, response))
    server.keepAliveTimeout = 0
    server.requestTimeout = 0
    server.on('connection', (socket) => {
      this.activity++
      this.#sockets.add(socket)
      socket.on('data', () => this.activity++)
      socket.on('error', () => undefined) // a client may vanish
      socket.on('close', () => this.#sockets.delete(socket))
    })
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(this.#port, '127.0.0.1', resolve)
    })
    this.#port = (server.address() as AddressInfo).port
    this.#server = server
    this.#scheduleBookmarks()
  }

  /** Drops every connection. What is stored stays. */
  async stop(): Promise<void> {
    for (const watch of this.#watches) watch.stop()
    this.#watches.clear()
    const server = this.#server
    if (server === undefined) return
    this.#server = undefined
    this.#bookmarks?.cancel()
    const closed = new Promise((resolve) => server.close(resolve))
    server.closeAllConnections()
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  upsert(...objects: readonly Json[]): void {
    for (const object of objects) this.store.put(object)
  }

  /** JSON merge patch on stored objects. */
  patch(...patches: readonly (ObjectRef & { merge: Json })[]): void {
    for (const { merge, ...ref } of patches) {
      const before = this.store.get(ref)
      if (before === undefined) throw new Error(`no ${ref.kind} ${ref.namespace ?? ''}/${ref.name} to patch`)
      this.store.put(mergePatch(before, merge))
    }
  }

  remove(...refs: readonly ObjectRef[]): void {
    for (const ref of refs) {
      if (!this.store.delete(ref)) throw new Error(`no ${ref.kind} ${ref.namespace ?? ''}/${ref.name} to delete`)
    }
  }

  get(kind: string, namespace: string | undefined, name: string): Json | undefined {
    return this.store.get({ kind, namespace, name })
  }

  /** Ends the watches of these kinds with an in-stream 410; no watch of theirs shows the changes of `meanwhile`. */
  relist(kinds: Kinds, meanwhile: () => void = () => undefined): void {
    const ended = this.#take(kinds)
    meanwhile()
    for (const kind of this.#names(kinds)) this.store.compact(kind)
    for (const watch of ended) watch.fail(toStatus(410, 'Expired', 'too old resource version'))
  }

  watch(kinds: Kinds, how: WatchFault, status = 503): void {
    const names = this.#names(kinds)
    const states = names.map((name) => this.#state(name))
    if (how === 'silent') {
      for (const watch of this.#watches) if (names.includes(watch.kind)) watch.silence()
      return
    }
    if (how === 'resume') {
      for (const state of states) Object.assign(state, { refuse: undefined, hold: false, goneOnConnect: false })
      for (const held of this.#held.splice(0)) {
        if (names.includes(held.kind)) held.answer()
        else this.#held.push(held)
      }
      return
    }
    for (const state of states) {
      if (how === 'refuse') state.refuse = status
      if (how === 'hold') state.hold = true
      if (how === 'goneOnConnect') state.goneOnConnect = true
    }
    for (const watch of this.#take(kinds)) {
      if (how === 'reset') watch.reset()
      else watch.close()
    }
  }

  /** Sends a bookmark with the present version to the open watches. */
  bookmark(kinds: Kinds): void {
    for (const watch of this.#open(kinds)) watch.bookmark(this.store.version)
  }

  /** Sends an in-stream error to the open watches and ends them. */
  failWatches(kinds: Kinds, code: number, reason: string): void {
    for (const watch of this.#take(kinds)) watch.fail(toStatus(code, reason, reason))
  }

  /** Writes bytes that are no event to the open watches. */
  writeRaw(kinds: Kinds, bytes: string | Buffer): void {
    for (const watch of this.#open(kinds)) watch.writeRaw(bytes)
  }

  /** The next list comes in pages of `size`; after `failAfter` of them the next page is once answered with status `with`. */
  pages(kinds: Kinds, fault: PagesFault): void {
    for (const kind of this.#names(kinds)) {
      this.#state(kind).pages = { size: fault.size, failAfter: fault.failAfter ?? 0, with: fault.with ?? 0 }
    }
  }

  api(fault: ApiFault): void {
    this.#faults.push({ fault, left: fault.times ?? 1 })
  }

  /** A CRD comes, with its objects if there are any. */
  define(kind: string): void {
    this.#absent.delete(kind)
  }

  /** A CRD goes: its objects are deleted, its watches end. */
  undefine(kind: string): void {
    for (const { metadata } of this.store.list(kind)) this.store.delete({ kind, ...metadata } as ObjectRef)
    this.#absent.add(kind)
    for (const watch of this.#take([kind])) watch.close()
  }

  /** Requests since the last resetRequests(). */
  requests(kind: string): { list: number; watch: number; any: number } {
    const { list, watch, other } = this.#state(kind)
    return { list, watch, any: list + watch + other }
  }

  resetRequests(): void {
    for (const state of this.#states.values()) Object.assign(state, { list: 0, watch: 0, other: 0 })
  }

  openWatches(kind: string): number {
    return this.#open([kind]).length
  }

  /** Requests that are held and not answered. */
  get heldRequests(): number {
    return this.#held.length
  }

  /** Resolves when everything written so far has been read by the clients, whichever process they are in. */
  async waitForTaken(): Promise<void> {
    await ticks(2)
    await waitForRead([...this.#sockets])
  }

  /**
   * Resolves when a client in this process has taken in the last change of every kind that an open watch shows. `seen` gives the version a
   * kind has been read up to.
   */
  async waitForSeen(seen: (kind: string) => string): Promise<void> {
    await until(
      () => [...this.#watches].every((w) => !w.open || w.sent === 0 || Number(seen(w.kind)) >= w.sent),
      'every event is taken in',
    )
  }

  /** One timer for all watches: a clock that is moved by hand has little to do. */
  #scheduleBookmarks(): void {
    this.#bookmarks = this.#clock.after(bookmarkMs, () => {
      this.bookmark('all')
      this.#scheduleBookmarks()
    })
  }

  #names(kinds: Kinds): readonly string[] {
    return kinds === 'all' ? storedTypes.map((t) => t.kind) : kinds
  }

  #state(kind: string): KindState {
    const known = this.#states.get(kind)
    if (known !== undefined) return known
    const fresh: KindState = {
      refuse: undefined,
      hold: false,
      goneOnConnect: false,
      pages: undefined,
      list: 0,
      watch: 0,
      other: 0,
    }
    this.#states.set(kind, fresh)
    return fresh
  }

  #open(kinds: Kinds): FakeWatch[] {
    const names = this.#names(kinds)
    return [...this.#watches].filter((w) => names.includes(w.kind) && w.open)
  }

  /** Takes the watches of these kinds out of the set that changes are shown to. */
  #take(kinds: Kinds): FakeWatch[] {
    const names = this.#names(kinds)
    const taken = [...this.#watches].filter((w) => names.includes(w.kind))
    for (const watch of taken) this.#watches.delete(watch)
    return taken
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.activity++
    const body = await readText(request)
    const route = parseRoute(request.method ?? 'GET', request.url ?? '/')
    if (this.token !== undefined && request.headers.authorization !== `Bearer ${this.token}`) {
      sendStatus(response, 401, 'Unauthorized', 'Unauthorized')
      return
    }
    if (route === undefined) {
      sendStatus(response, 404, 'NotFound', 'the server could not find the requested resource')
      return
    }
    if ('group' in route) {
      this.#answerGroup(route.group, response)
      return
    }
    const state = this.#state(route.type.kind)
    if (route.verb === 'list') state.list++
    else if (route.verb === 'watch') state.watch++
    else state.other++
    const fault = this.#selectFault(route)
    if (fault?.answer === 'timeout') return
    if (fault !== undefined) {
      sendStatus(response, fault.answer, 'Fault', 'as told', fault.retryAfterSeconds)
      return
    }
    if (this.#absent.has(route.type.kind) || this.#unserved.has(`${route.type.group}/${route.version}`)) {
      sendStatus(response, 404, 'NotFound', 'the server could not find the requested resource')
      return
    }
    const proceed = (): void => {
      if (route.verb === 'list') this.#answerList(route, request, response)
      else if (route.verb === 'watch') this.#answerWatch(route, request, response)
      else answerWrite(this, route, { body, contentType: request.headers['content-type'] ?? '' }, response)
    }
    if (route.verb !== 'list' && route.verb !== 'watch') proceed()
    else if (state.refuse !== undefined) sendStatus(response, state.refuse, 'Refused', 'as told')
    else if (state.hold) this.#held.push({ kind: route.type.kind, answer: proceed })
    else proceed()
  }

  #answerGroup(group: string, response: ServerResponse): void {
    const here = storedTypes.filter((t) => t.group === group && !this.#absent.has(t.kind))
    const names = [...new Set(here.flatMap((t) => t.versions))].filter((v) => !this.#unserved.has(`${group}/${v}`))
    if (names.length === 0) sendStatus(response, 404, 'NotFound', 'the server could not find the requested resource')
    else
      sendJson(response, 200, {
        kind: 'APIGroup',
        name: group,
        versions: names.map((version) => ({ groupVersion: `${group}/${version}`, version })),
      })
  }

  #selectFault(route: Route): ApiFault | undefined {
    const found = this.#faults.find(
      ({ fault }) =>
        (fault.verb === undefined || fault.verb === route.verb) &&
        (fault.kind === undefined || fault.kind === route.type.kind) &&
        (fault.namespace === undefined || fault.namespace === route.namespace) &&
        (fault.name === undefined || fault.name === route.name) &&
        (fault.subresource === undefined || fault.subresource === route.subresource),
    )
    if (found === undefined) return undefined
    found.left--
    if (found.left === 0) this.#faults = this.#faults.filter((f) => f !== found)
    return found.fault
  }

  #isProtobuf(kind: string, request: IncomingMessage): boolean {
    return (
      this.#protobuf && canWriteProtobuf(kind) && (request.headers.accept ?? '').includes('vnd.kubernetes.protobuf')
    )
  }

  #answerList(route: Route, request: IncomingMessage, response: ServerResponse): void {
    const { kind } = route.type
    const state = this.#state(kind)
    const token = route.query.get('continue') ?? ''
    const [id = '', from = '0'] = token === '' ? [`s${this.#snapshots.size}`] : token.split(':')
    if (token === '') {
      const items = this.store.list(kind).filter((o) => isSelected(o, toSelectors(route)))
      this.#snapshots.set(id, { items, version: String(this.store.version), pagesServed: 0 })
    }
    const snapshot = this.#snapshots.get(id)
    if (snapshot === undefined) {
      sendStatus(response, 410, 'Expired', 'the continue token has expired')
      return
    }
    const { pages } = state
    if (pages !== undefined && pages.with > 0 && snapshot.pagesServed >= pages.failAfter) {
      const status = pages.with
      pages.with = 0
      sendStatus(response, status, status === 410 ? 'Expired' : 'Fault', 'as told')
      return
    }
    snapshot.pagesServed++
    const limit = Math.min(pages?.size ?? Infinity, Number(route.query.get('limit') ?? 0) || Infinity)
    const end = Math.min(snapshot.items.length, Number(from) + limit)
    const items = snapshot.items.slice(Number(from), end)
    const next = end < snapshot.items.length ? `${id}:${end}` : ''
    if (this.#isProtobuf(kind, request)) {
      response.writeHead(200, { 'content-type': 'application/vnd.kubernetes.protobuf' })
      response.end(toProtobufList(kind, items, { version: snapshot.version, next }))
      return
    }
    const metadata = { resourceVersion: snapshot.version, ...(next === '' ? {} : { continue: next }) }
    sendJson(response, 200, { kind: `${kind}List`, apiVersion: formatApiVersion(route), metadata, items })
  }

  #answerWatch(route: Route, request: IncomingMessage, response: ServerResponse): void {
    const { kind } = route.type
    const state = this.#state(kind)
    const version = route.query.get('resourceVersion') ?? ''
    if (version !== '' && state.goneOnConnect) {
      state.goneOnConnect = false
      this.store.compact(kind)
      sendStatus(response, 410, 'Gone', 'too old resource version')
      return
    }
    const missed = version === '' ? [] : this.store.since(kind, Number(version))
    if (missed === undefined) {
      sendStatus(response, 410, 'Gone', 'too old resource version')
      return
    }
    const watch = new FakeWatch(
      {
        kind,
        apiVersion: formatApiVersion(route),
        selectors: toSelectors(route),
        bookmarks: route.query.get('allowWatchBookmarks') === 'true',
        timeoutSeconds: Number(route.query.get('timeoutSeconds') ?? 0),
        protobuf: this.#isProtobuf(kind, request),
      },
      response,
      this.#clock,
    )
    this.#watches.add(watch)
    response.on('close', () => this.#watches.delete(watch))
    for (const change of missed) watch.show(change)
  }
}

function toSelectors(route: Route): Selectors {
  return {
    namespace: route.namespace,
    fields: route.query.get('fieldSelector') ?? '',
    labels: route.query.get('labelSelector') ?? '',
  }
}

function formatApiVersion(route: Route): string {
  return route.type.group === '' ? route.version : `${route.type.group}/${route.version}`
}

async function readText(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks).toString('utf8')
}
