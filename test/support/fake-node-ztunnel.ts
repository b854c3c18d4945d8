// SPDX-License-Identifier: Apache-2.0
// A ztunnel as the node agent meets it: it greets, takes pods and their namespaces, acknowledges, comes back when it is cut off, and stops its process at
// the faults that stop the original. It can be told to misbehave. With `listeners` it enters the namespaces and listens there.

import { closeSync, fstatSync } from 'node:fs'
import { spawnSync } from 'node:child_process'
import type { Clock, Timer } from '../../src/base/clock.js'
import { systemClock } from '../../src/base/clock.js'
import { formatError } from '../../src/base/errors.js'
import { RecordSocket } from '../../src/node-agent/zds/record-socket.js'
import { connectTo } from '../../src/node-agent/zds/seqpacket.js'
import type { ReceivedRecord } from '../../src/node-agent/zds/seqpacket.js'
import { NetnsListeners } from './netns-listeners.js'
import { decodeRequest, encodeAck, helloV1 } from './zds-messages.js'
import type { ZdsRequest } from './zds-messages.js'

/** `close`, `garbage`, `long`, `twice` break the rules; `after`: the acknowledgement takes so many milliseconds. */
export type Answer =
  'ok' | 'silence' | 'close' | 'garbage' | 'long' | 'twice' | { readonly error: string } | { readonly after: number }

export interface FakeNodeZtunnelOptions {
  /** Path of the agent's socket. */
  readonly zds: string
  /** By uid, `snapshot` for the end of the snapshot, `*` for all else. */
  readonly answers?: Readonly<Record<string, Answer>>
  /** undefined: it says nothing. */
  readonly hello?: Uint8Array | undefined
  /** Comes back when the connection ends. Default true. */
  readonly reconnect?: boolean
  /** Listens on 15001, 15006 and 15008 in each namespace (needs root). */
  readonly listeners?: boolean
  readonly clock?: Clock
}

/** One record of the agent. */
export interface SeenRecord {
  readonly connection: number
  readonly kind: ZdsRequest['kind'] | 'unreadable'
  readonly uid: string
  readonly hex: string
  /** Of the namespaces that came with it. */
  readonly inodes: readonly bigint[]
}

interface Proxy {
  readonly fd: number
  readonly inode: bigint
  readonly device: bigint
}

const reconnectPause = { firstMs: 20, longestMs: 15_000 }
const retryMs = 5000

export class FakeNodeZtunnel {
  readonly records: SeenRecord[] = []
  /** Connections made so far. */
  connections = 0
  /** As its readiness probe would say. */
  isReady = false
  /** Set when a fault stopped the process. */
  exitCode: number | undefined
  /** Called after everything that changes what can be seen here. */
  onChange: () => void = () => undefined
  readonly #options: FakeNodeZtunnelOptions
  readonly #clock: Clock
  readonly #answers: Map<string, Answer>
  readonly #proxies = new Map<string, Proxy>()
  readonly #pending = new Map<string, Proxy>()
  readonly #listeners = new NetnsListeners()
  readonly #waiters = new Set<() => void>()
  #snapshot: Set<string> | undefined
  #socket: RecordSocket | undefined
  #turn: Promise<void> = Promise.resolve()
  #isStopped = true
  #pauseMs = reconnectPause.firstMs
  #pause: Timer | undefined
  #retry: Timer | undefined

  constructor(options: FakeNodeZtunnelOptions) {
    this.#options = { hello: helloV1, ...options }
    this.#clock = options.clock ?? systemClock
    this.#answers = new Map(Object.entries(options.answers ?? {}))
  }

  /** uid to the inode of the namespace, of the pods that it serves. */
  get holds(): ReadonlyMap<string, bigint> {
    return new Map([...this.#proxies].map(([uid, { inode }]) => [uid, inode]))
  }

  /** uids whose start failed. */
  get pending(): readonly string[] {
    return [...this.#pending.keys()]
  }

  get isConnected(): boolean {
    return this.#socket !== undefined
  }

  /** From now on. */
  answer(key: string, answer: Answer): void {
    this.#answers.set(key, answer)
  }

  /** These alone, from now on. */
  setAnswers(answers: Readonly<Record<string, Answer>>): void {
    this.#answers.clear()
    for (const [key, answer] of Object.entries(answers)) this.answer(key, answer)
  }

  /** Idempotent. */
  start(): void {
    if (!this.#isStopped) return
    this.#isStopped = false
    this.#connect()
  }

  /** As at SIGTERM without open connections. */
  stop(): void {
    this.#isStopped = true
    this.#pause?.cancel()
    this.#retry?.cancel()
    this.#socket?.close()
    this.#socket = undefined
    for (const uid of [...this.#proxies.keys()]) this.#drop(this.#proxies, uid)
    for (const uid of [...this.#pending.keys()]) this.#drop(this.#pending, uid)
    this.#isNotReady()
  }

  /** Ends the connection; comes back at once if it is to. */
  disconnect(): void {
    this.#socket?.close()
    this.#onEnd()
  }

  /** Says something that nobody asked for. */
  async say(bytes: Uint8Array, descriptor?: number): Promise<void> {
    await this.#socket?.send(bytes, descriptor)
  }

  /** Runs a program inside the namespace of a pod and gives what it printed. Throws when it fails. */
  runInside(uid: string, command: readonly string[]): string {
    const proxy = this.#proxies.get(uid)
    if (proxy === undefined) throw new Error(`no pod ${uid} is held`)
    const { status, stdout, stderr } = spawnSync('nsenter', ['--net=/proc/self/fd/3', '--', ...command], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe', proxy.fd],
    })
    if (status !== 0) throw new Error(`${command.join(' ')}: ${stderr}`)
    return stdout
  }

  /** Resolves as soon as `isSo` holds. For tests, whose own limit of time ends a wait in vain. */
  async until(isSo: (ztunnel: this) => boolean): Promise<void> {
    while (!isSo(this)) await new Promise<void>((resolve) => this.#waiters.add(resolve))
  }

  #changed(): void {
    this.onChange()
    const waiting = [...this.#waiters]
    this.#waiters.clear()
    for (const wake of waiting) wake()
  }

  #connect(): void {
    if (this.#isStopped) return
    let socket: RecordSocket
    try {
      socket = new RecordSocket(connectTo(this.#options.zds))
    } catch {
      // No agent, or it is busy.
      this.#pause = this.#clock.after(this.#pauseMs, () => this.#connect())
      this.#pauseMs = Math.min(this.#pauseMs * 2, reconnectPause.longestMs)
      return
    }
    const connection = ++this.connections
    this.#pauseMs = reconnectPause.firstMs
    this.#socket = socket
    this.#snapshot = new Set()
    for (const uid of [...this.#pending.keys()]) this.#drop(this.#pending, uid)
    socket.start({
      onRecord: (record) => {
        this.#turn = this.#turn.then(() => this.#take(record, connection, socket))
      },
      onEnd: () => this.#onEnd(),
    })
    // The agent may close before it has read the greeting.
    if (this.#options.hello !== undefined) socket.send(this.#options.hello).catch(() => undefined)
    this.#changed()
  }

  #onEnd(): void {
    this.#socket = undefined
    this.#isNotReady()
    if (this.#options.reconnect !== false) setImmediate(() => this.#connect())
  }

  #isNotReady(): void {
    this.isReady = false
    this.#changed()
  }

  async #take(record: ReceivedRecord, connection: number, socket: RecordSocket): Promise<void> {
    const { bytes, descriptors } = record
    const request = toRequest(record)
    const uid = typeof request === 'string' || request.kind === 'snapshotSent' ? '' : request.uid
    const kind = typeof request === 'string' ? 'unreadable' : request.kind
    const inodes = descriptors.map((fd) => fstatSync(fd, { bigint: true }).ino)
    this.records.push({ connection, kind, uid, hex: bytes.toString('hex'), inodes })
    let kept: number | undefined
    try {
      if (typeof request === 'string') {
        await this.#reply(socket, encodeAck(`failure to read message : ${request}`))
        socket.close()
        if (socket === this.#socket) this.#onEnd()
        return
      }
      const answer = this.#answers.get(kind === 'snapshotSent' ? 'snapshot' : uid) ?? this.#answers.get('*') ?? 'ok'
      if (await this.#misbehave(answer, socket)) return
      if (typeof answer === 'object' && 'after' in answer) await this.#sleep(answer.after)
      const outcome = this.#process(request, descriptors[0], answer)
      if (outcome.tookDescriptor) kept = descriptors[0]
      await this.#reply(socket, encodeAck(outcome.error))
      if (answer === 'twice') await this.#reply(socket, encodeAck(''))
      if (outcome.isFatal) {
        this.exitCode = 1
        this.stop()
      }
    } finally {
      for (const fd of descriptors) if (fd !== kept) closeSync(fd)
      this.#changed()
    }
  }

  /** True when there will be no answer of the usual kind. */
  async #misbehave(answer: Answer, socket: RecordSocket): Promise<boolean> {
    if (answer === 'silence') return true
    if (answer === 'garbage') await this.#reply(socket, Uint8Array.of(0xff, 0xff))
    else if (answer === 'long') {
      // As long as the sender of the sockets allows; the agent reads less.
      await this.#reply(socket, encodeAck('x'.repeat(8000)))
    } else if (answer === 'close') {
      socket.close()
      if (socket === this.#socket) this.#onEnd()
    } else return false
    return true
  }

  #process(
    request: ZdsRequest,
    fd: number | undefined,
    answer: Answer,
  ): { error: string; isFatal?: boolean; tookDescriptor?: boolean } {
    const snapshot = this.#snapshot
    const injected = typeof answer === 'object' && 'error' in answer ? answer.error : undefined
    switch (request.kind) {
      case 'add': {
        if (request.pod === undefined) return { error: 'failure to process message : no workload', isFatal: true }
        if (fd === undefined) return { error: 'failure to process message : no namespace' }
        snapshot?.add(request.uid)
        return this.#add(request.uid, fd, injected)
      }
      case 'keep':
        if (snapshot === undefined) return { error: 'failure to process message : keep', isFatal: true }
        snapshot.add(request.uid)
        return this.#done(injected)
      case 'del':
        snapshot?.delete(request.uid)
        this.#drop(this.#pending, request.uid)
        if (snapshot === undefined) this.#drop(this.#proxies, request.uid)
        return this.#done(injected)
      case 'snapshotSent':
        if (snapshot === undefined) return { error: 'failure to process message : snapshot', isFatal: true }
        for (const uid of [...this.#proxies.keys()]) if (!snapshot.has(uid)) this.#drop(this.#proxies, uid)
        this.#snapshot = undefined
        return this.#done(injected)
    }
  }

  /** Its readiness is looked at only after what went well. */
  #done(error = ''): { error: string } {
    if (error === '') this.isReady = this.#snapshot === undefined && this.#pending.size === 0
    return { error }
  }

  #add(uid: string, fd: number, injected: string | undefined): { error: string; tookDescriptor?: boolean } {
    const { ino: inode, dev: device } = fstatSync(fd, { bigint: true })
    const running = this.#proxies.get(uid)
    if (running?.inode === inode && running.device === device && injected === undefined) return this.#done()
    this.#drop(this.#proxies, uid)
    const proxy = { fd, inode, device }
    const error = injected ?? this.#open(proxy)
    this.#drop(this.#pending, uid)
    if (error !== undefined) {
      this.#pending.set(uid, proxy)
      this.#retry ??= this.#clock.after(retryMs, () => this.#tryPending())
      return { error: `failure to start proxy : ${error}`, tookDescriptor: true }
    }
    this.#proxies.set(uid, proxy)
    return { ...this.#done(), tookDescriptor: true }
  }

  #open({ fd }: Proxy): string | undefined {
    if (this.#options.listeners !== true) return undefined
    try {
      this.#listeners.open(fd)
      return undefined
    } catch (error) {
      return formatError(error)
    }
  }

  #tryPending(): void {
    this.#retry = undefined
    for (const [uid, proxy] of [...this.#pending]) {
      const answer = this.#answers.get(uid) ?? this.#answers.get('*') ?? 'ok'
      if ((typeof answer === 'object' && 'error' in answer) || this.#open(proxy) !== undefined) continue
      this.#pending.delete(uid)
      this.#proxies.set(uid, proxy)
    }
    if (this.#pending.size === 0) this.isReady = this.#socket !== undefined && this.#snapshot === undefined
    else this.#retry = this.#clock.after(retryMs, () => this.#tryPending())
    this.#changed()
  }

  #drop(from: Map<string, Proxy>, uid: string): void {
    const proxy = from.get(uid)
    if (proxy === undefined) return
    from.delete(uid)
    this.#listeners.close(proxy.fd)
    closeSync(proxy.fd)
  }

  async #reply(socket: RecordSocket, bytes: Uint8Array): Promise<void> {
    // The agent may have hung up by now; then the end of the connection is on its way here.
    await socket.send(bytes).catch(() => undefined)
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.#clock.after(ms, resolve))
  }
}

/** The message, or why ztunnel would not read it. */
function toRequest({ bytes, descriptors, cut }: ReceivedRecord): ZdsRequest | string {
  if (cut || bytes.length > 1024) return 'the message is too long'
  if (descriptors.length > 1) return 'too many descriptors'
  let request: ZdsRequest | undefined
  try {
    request = decodeRequest(bytes)
  } catch (error) {
    return formatError(error)
  }
  if (request === undefined) return 'no payload'
  if ((request.kind === 'add') !== (descriptors.length === 1)) return 'a descriptor where none belongs, or none at all'
  return request
}
