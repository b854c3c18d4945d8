// SPDX-License-Identifier: Apache-2.0
// In-memory stand-ins for everything that enrolment works on: a host with namespaces and processes, rules, the probe set, ztunnels, the API server's
// annotations. All of it can be looked at, told to fail, and counts the handles it gave out.

import type { Clock, Timer } from '../../src/base/clock.js'
import { InvalidInput, Retryable } from '../../src/base/errors.js'
import type {
  NetnsFinder,
  PodAnnotator,
  PodIdentity,
  PodRuleOptions,
  PodRules,
  ProbeSet,
  Redirection,
  RuleState,
  SelectZdsPods,
  WantedPod,
  Ztunnels,
} from '../../src/node-agent/contracts.js'
import { isSameNetns, type Netns } from '../../src/node-agent/netns/netns.js'

/** A namespace of the fake kernel. */
export interface FakeNamespace {
  readonly name: string
  readonly inode: bigint
  /** What rules of ours are in there: the options they were made with, or an older set. */
  rules: PodRuleOptions | 'old' | undefined
  /** Rules of others: nobody may change this. */
  foreign: boolean
}

/** The kernel, the runtime's paths and /proc. What happens is noted in `journal`, one line a thing. */
export class FakeHost implements NetnsFinder {
  readonly journal: string[] = []
  /** Handles that nobody has closed. */
  openHandles = 0
  /** Scans of /proc. */
  scans = 0
  /** Next scans fail so. */
  scanError: Error | undefined
  readonly #namespaces = new Map<string, FakeNamespace>()
  readonly #processes = new Map<string, string>()
  readonly #hostPaths = new Set<string>(['host'])
  #inode = 4_026_532_000n

  /** Makes a namespace; its path is its name. */
  addNetns(name: string, rules?: FakeNamespace['rules'], foreign = false): FakeNamespace {
    const namespace: FakeNamespace = { name, inode: this.#inode++, rules, foreign }
    this.#namespaces.set(name, namespace)
    return namespace
  }

  removeNetns(name: string): void {
    this.#namespaces.delete(name)
    for (const [uid, at] of this.#processes) if (at === name) this.#processes.delete(uid)
  }

  netns(name: string): FakeNamespace {
    const found = this.#namespaces.get(name)
    if (found === undefined) throw new Error(`there is no namespace ${name}`)
    return found
  }

  netnsNames(): readonly string[] {
    return [...this.#namespaces.keys()]
  }

  /** A process of the pod runs in this namespace; undefined: none is seen. */
  setProcess(uid: string, name: string | undefined): void {
    if (name === undefined) this.#processes.delete(uid)
    else this.#processes.set(uid, name)
  }

  handle(name: string): Netns {
    const { inode } = this.netns(name)
    const count = (by: number): void => void (this.openHandles += by)
    const make = (): Netns => {
      let isOpen = true
      count(1)
      return {
        fd: Number(inode % 1000n),
        inode,
        device: 4n,
        share() {
          if (!isOpen) throw new Error('shared after it was closed')
          return make()
        },
        close() {
          if (isOpen) count(-1)
          isOpen = false
        },
      }
    }
    return make()
  }

  /** The namespace behind a handle. */
  at(netns: Netns): FakeNamespace | undefined {
    return [...this.#namespaces.values()].find(({ inode }) => inode === netns.inode)
  }

  nameOf(netns: Netns | undefined): string {
    return netns === undefined ? 'nowhere' : (this.at(netns)?.name ?? 'a dead one')
  }

  open(path: string): Promise<Netns> {
    if (this.#hostPaths.has(path)) return Promise.reject(new InvalidInput(`${path} is the namespace of the host`))
    if (!this.#namespaces.has(path)) return Promise.reject(new Retryable(`${path} is not there`))
    return Promise.resolve(this.handle(path))
  }

  /** A process in the namespace `elsewhere` is seen, and the namespace has no address of anybody. */
  find(pods: readonly WantedPod[], seen?: Set<string>): Promise<ReadonlyMap<string, Netns>> {
    this.scans++
    if (this.scanError !== undefined) return Promise.reject(this.scanError)
    const out = new Map<string, Netns>()
    for (const { uid, ips } of pods) {
      const name = this.#processes.get(uid)
      if (name !== undefined && name !== 'host') seen?.add(uid)
      if (name !== undefined && name !== 'host' && name !== 'elsewhere' && ips.length > 0)
        out.set(uid, this.handle(name))
    }
    return Promise.resolve(out)
  }
}

/** Rules in fake namespaces. */
export class FakePodRules implements PodRules {
  readonly backend = 'nftables'
  /** Namespaces in which making, looking or taking out fails. */
  readonly failApply = new Map<string, Error>()
  readonly failCheck = new Map<string, Error>()
  readonly failRemove = new Map<string, Error>()
  applied = 0

  constructor(private readonly host: FakeHost) {}

  async apply(netns: Netns, options: PodRuleOptions): Promise<void> {
    const at = this.#at(netns)
    this.host.journal.push(`rules into ${at.name}`)
    await Promise.resolve()
    throwIfAny(this.failApply.get(at.name))
    at.rules = options
    this.applied++
  }

  async check(netns: Netns, options: PodRuleOptions): Promise<RuleState> {
    const at = this.#at(netns)
    await Promise.resolve()
    throwIfAny(this.failCheck.get(at.name))
    if (at.rules === undefined) return 'absent'
    return JSON.stringify(at.rules) === JSON.stringify(options) ? 'complete' : 'different'
  }

  async remove(netns: Netns): Promise<void> {
    const at = this.#at(netns)
    this.host.journal.push(`rules out of ${at.name}`)
    await Promise.resolve()
    throwIfAny(this.failRemove.get(at.name))
    at.rules = undefined
  }

  #at(netns: Netns): FakeNamespace {
    const at = this.host.at(netns)
    if (at === undefined) throw new Retryable('the namespace has no processes any more')
    return at
  }
}

export class FakeProbeSet implements ProbeSet {
  readonly entries = new Map<string, string>()
  /** Everything fails so. */
  broken: Error | undefined
  /** Puts of these addresses fail. */
  readonly failPut = new Map<string, Error>()
  ensured = 0

  constructor(private readonly host: FakeHost) {}

  async ensure(): Promise<void> {
    await Promise.resolve()
    throwIfAny(this.broken)
    this.ensured++
  }

  async put(ip: string, uid: string): Promise<void> {
    this.host.journal.push(`probe ${ip} for ${uid}`)
    await Promise.resolve()
    throwIfAny(this.broken ?? this.failPut.get(ip))
    this.entries.set(ip, uid)
  }

  async remove(uid: string): Promise<void> {
    this.host.journal.push(`probe set without ${uid}`)
    await Promise.resolve()
    throwIfAny(this.broken)
    for (const [ip, owner] of this.entries) if (owner === uid) this.entries.delete(ip)
  }

  async list(): Promise<ReadonlyMap<string, string>> {
    await Promise.resolve()
    throwIfAny(this.broken)
    return new Map(this.entries)
  }

  async destroy(): Promise<void> {
    await Promise.resolve()
    this.entries.clear()
  }
}

/** What a fake ztunnel answers to an add: nothing at all, or an error text. */
export type FakeAnswer = 'ok' | 'silence' | { readonly error: string }

interface FakeConnection {
  readonly name: string
  readonly held: Map<string, Netns>
  ready: boolean
}

const ackTimeoutMs = 5_000

/** Ztunnels with their connections; the newest is the last. Messages are noted in `messages` and in the host's journal. */
export class FakeZtunnels implements Ztunnels {
  readonly messages: string[] = []
  /** By uid, for adds; `*` for all others. */
  readonly answers = new Map<string, FakeAnswer>()
  /** The next removals fail so. */
  removeError: Error | undefined
  readonly #connections: FakeConnection[] = []
  readonly #cut = new Map<FakeConnection, Set<(error: Error) => void>>()

  constructor(
    private readonly host: FakeHost,
    private readonly clock: Clock,
    private readonly select: SelectZdsPods,
  ) {}

  get connected(): number {
    return this.#connections.length
  }

  get ready(): number {
    return this.#connections.filter(({ ready }) => ready).length
  }

  /** Says hello and gets its snapshot at once. */
  connect(name: string): void {
    const connection: FakeConnection = { name, held: new Map(), ready: false }
    this.#connections.push(connection)
    this.#cut.set(connection, new Set())
    this.#sendSnapshot(connection)
    this.messages.push(`${name} snapshot sent`)
    connection.ready = true
  }

  /** Ends; the one before it becomes the newest and gets what it missed. */
  close(name: string): void {
    const at = this.#connections.findIndex((c) => c.name === name)
    const [connection] = at < 0 ? [] : this.#connections.splice(at, 1)
    if (connection === undefined) return
    for (const netns of connection.held.values()) netns.close()
    for (const cut of this.#cut.get(connection) ?? []) cut(new Retryable(`ztunnel ${name} went away`))
    this.#cut.delete(connection)
    const newest = this.#connections.at(-1)
    if (newest !== undefined && at === this.#connections.length) this.#sendSnapshot(newest)
  }

  closeAll(): void {
    for (const { name } of [...this.#connections]) this.close(name)
  }

  async add(pod: PodIdentity, netns: Netns, signal?: AbortSignal): Promise<void> {
    const newest = this.#connections.at(-1)
    if (newest === undefined) throw new Retryable('no ztunnel is connected')
    const handle = netns.share()
    try {
      this.#note(`${newest.name} add ${pod.uid} ${this.host.nameOf(netns)}`)
      const answer = this.#answer(pod.uid)
      if (answer === 'silence') await this.#silence(newest, signal)
      else await Promise.resolve()
      if (typeof answer === 'object') throw new Retryable(`ztunnel refuses the pod: ${answer.error}`)
      if (!this.#connections.includes(newest)) throw new Retryable(`ztunnel ${newest.name} went away`)
      this.#hold(newest, pod.uid, handle.share())
    } finally {
      handle.close()
    }
  }

  async remove(uid: string): Promise<void> {
    for (const { name } of this.#connections) this.#note(`${name} del ${uid}`)
    await Promise.resolve()
    throwIfAny(this.removeError)
    for (const { held } of this.#connections) {
      held.get(uid)?.close()
      held.delete(uid)
    }
  }

  held(): ReadonlyMap<string, Netns | undefined> {
    return this.#connections.at(-1)?.held ?? new Map()
  }

  /** Uid to name of the namespace, of one ztunnel or of the newest. */
  holds(name?: string): Readonly<Record<string, string>> {
    const connection = name === undefined ? this.#connections.at(-1) : this.#connections.find((c) => c.name === name)
    return Object.fromEntries([...(connection?.held ?? [])].map(([uid, netns]) => [uid, this.host.nameOf(netns)]))
  }

  #sendSnapshot(connection: FakeConnection): void {
    const wanted = this.select()
    for (const { pod, netns } of wanted) {
      if (netns === undefined) {
        this.messages.push(`${connection.name} keep ${pod.uid}`)
        continue
      }
      const held = connection.held.get(pod.uid)
      if (held !== undefined && isSameNetns(held, netns)) continue
      this.messages.push(`${connection.name} add ${pod.uid} ${this.host.nameOf(netns)}`)
      if (this.#answer(pod.uid) === 'ok') this.#hold(connection, pod.uid, netns.share())
    }
    const uids = new Set(wanted.map(({ pod }) => pod.uid))
    for (const [uid, netns] of connection.held) {
      if (uids.has(uid)) continue
      netns.close()
      connection.held.delete(uid)
    }
  }

  #hold({ held }: FakeConnection, uid: string, netns: Netns): void {
    held.get(uid)?.close()
    held.set(uid, netns)
  }

  #answer(uid: string): FakeAnswer {
    return this.answers.get(uid) ?? this.answers.get('*') ?? 'ok'
  }

  /** Waits for an answer that does not come: until the time is up, which closes the connection, until it ends, or until nobody waits. */
  #silence(connection: FakeConnection, signal: AbortSignal | undefined): Promise<never> {
    return new Promise((_, reject) => {
      let timer: Timer | undefined = undefined
      const end = (error: Error): void => {
        timer?.cancel()
        signal?.removeEventListener('abort', onAbort)
        this.#cut.get(connection)?.delete(end)
        reject(error)
      }
      const onAbort = (): void => end(signal?.reason as Error)
      this.#cut.get(connection)?.add(end)
      timer = this.clock.after(ackTimeoutMs, () => {
        end(new Retryable('ztunnel did not answer in time'))
        this.close(connection.name)
      })
      if (signal?.aborted === true) onAbort()
      else signal?.addEventListener('abort', onAbort, { once: true })
    })
  }

  #note(line: string): void {
    this.messages.push(line)
    this.host.journal.push(line)
  }
}

/** Takes patches; what to do with them is the test's. */
export class FakeAnnotator implements PodAnnotator {
  /** `uid value` of each patch, refused ones too. */
  readonly patches: string[] = []
  /** The next patches get these answers. */
  readonly answers: ('gone' | Error)[] = []
  /** Every patch gets this answer. */
  always: 'gone' | Error | undefined

  constructor(
    private readonly host: FakeHost,
    private readonly write: (pod: PodIdentity, value: Redirection | undefined) => boolean = () => true,
  ) {}

  async annotate(pod: PodIdentity, value: Redirection | undefined): Promise<'written' | 'gone'> {
    const line = `${pod.uid} ${value ?? 'none'}`
    this.patches.push(line)
    this.host.journal.push(`annotation ${line}`)
    await Promise.resolve()
    const answer = this.answers.shift() ?? this.always
    if (answer instanceof Error) throw answer
    if (answer === 'gone') return 'gone'
    return this.write(pod, value) ? 'written' : 'gone'
  }
}

function throwIfAny(error: Error | undefined): void {
  if (error !== undefined) throw error
}
