// SPDX-License-Identifier: Apache-2.0
// Plays ztunnel's part of a recorded conversation against our server and compares what the server says. Time is the recording's.

import type { FakeClock } from '../../support/fake-clock.js'
import type { Heard, ScriptedZtunnel } from '../../support/scripted-ztunnel.js'
import { decodeRequest, encodeAck } from '../../support/zds-messages.js'
import { ZdsRoom } from '../../node-agent/zds/zds-room.js'
import type { Netns } from '../../../src/node-agent/netns/netns.js'
import type { PodIdentity } from '../../../src/node-agent/contracts.js'

export interface Entry {
  readonly ms: number
  readonly event?: string
  readonly observe?: string
  readonly dir?: 'ztunnel->agent' | 'agent->ztunnel'
  readonly conn?: string
  readonly zt?: string
  readonly operation?: string
  readonly uid?: string | null
  readonly error?: string | null
  readonly seconds?: number
  readonly code?: number
  readonly hex?: string | null
  readonly bytes?: number
  readonly fds?: number
  readonly fdOf?: readonly string[]
  readonly status?: number
  readonly values?: Readonly<Record<string, number>>
  readonly message?: {
    readonly add?: {
      readonly uid: string
      readonly workloadInfo?: Pick<PodIdentity, 'name' | 'namespace' | 'serviceAccount'>
    }
    readonly ack?: { readonly error: string }
  } | null
}

export interface RecordedConversation {
  readonly about: string
  readonly side: string
  readonly setup: readonly { readonly pod?: string }[]
  readonly conversation: readonly Entry[]
  readonly deviation?: { readonly expect: Readonly<Record<string, unknown>> }
}

interface Operation {
  readonly uid: string
  readonly outcome: Promise<string | null>
  isSettled: boolean
  expected?: { readonly fails: boolean }
}

/** Differences, empty when the server says what was recorded. */
export async function playZtunnel(recorded: RecordedConversation, clock: FakeClock): Promise<readonly string[]> {
  const player = new Player(recorded, clock)
  try {
    return await player.play()
  } finally {
    player.room.close()
  }
}

class Player {
  readonly room: ZdsRoom
  readonly #recorded: RecordedConversation
  readonly #clock: FakeClock
  readonly #expect: Readonly<Record<string, unknown>>
  readonly #differences: string[] = []
  readonly #connections = new Map<string, ScriptedZtunnel>()
  readonly #closed = new Set<string>()
  readonly #namespaces = new Map<string, Netns>()
  readonly #operations: Operation[] = []
  /** Records of the server that were acknowledged, by connection: their repetition may be left out. */
  readonly #acknowledged = new Set<string>()
  readonly #skipAnswers = new Map<string, number>()
  readonly #snapshots = new Map<string, Entry[]>()
  /** The entry that is being played. */
  #at = 0

  constructor(recorded: RecordedConversation, clock: FakeClock) {
    this.#recorded = recorded
    this.#clock = clock
    this.#expect = recorded.deviation?.expect ?? {}
    this.room = new ZdsRoom({ clock, limits: { acceptsPerSecond: 5, acceptBurst: 2 } })
    for (const { pod } of recorded.setup) if (pod !== undefined) this.#namespaces.set(pod, this.room.netns(pod))
  }

  async play(): Promise<readonly string[]> {
    const entries = this.#recorded.conversation
    const start = this.#clock.monotonic()
    for (const [at, entry] of entries.entries()) {
      this.#at = at
      await this.#clock.advance(Math.max(0, start + entry.ms - this.#clock.monotonic()), async () => {
        await settle()
        // What is said beside the recording must not wait for its acknowledgement until time has moved on.
        for (const name of this.#connections.keys()) if (!this.#closed.has(name)) await this.#passExtras(name)
      })
      await this.#perform(entry, at)
    }
    await this.#finish(true)
    for (const [name, connection] of this.#connections) {
      if (this.#closed.has(name)) continue
      for (const heard of connection.waiting) {
        if (heard !== 'end' && !this.#isExtra(heard)) this.#differences.push(`${name}: also said ${heard.hex}`)
      }
    }
    return this.#differences
  }

  async #perform(entry: Entry, at: number): Promise<void> {
    const name = entry.conn ?? ''
    if (this.#closed.has(name)) return
    if (entry.dir === 'agent->ztunnel') return this.#hear(name, entry)
    if (entry.dir === 'ztunnel->agent') return this.#say(name, entry)
    switch (entry.event) {
      case 'agent has its socket':
        this.room.server.listen()
        return
      case 'agent begins to accept':
        this.room.server.open()
        return
      case 'ztunnel connects':
        this.#connections.set(name, this.room.script())
        this.#snapshots.set(name, this.#snapshotOf(name, at))
        return
      case 'ztunnel closes':
        this.#connections.get(name)?.close()
        this.#closed.add(name)
        return
      case 'agent operation begins':
        await this.#finish(false)
        this.#begin(entry, at)
        return
      case 'agent operation ends': {
        const operation = this.#operations.findLast(({ uid, expected }) => uid === (entry.uid ?? '') && !expected)
        if (operation !== undefined) operation.expected = { fails: (entry.error ?? null) !== null }
        return
      }
      case 'nothing received within':
        await settle()
        await this.#passExtras(name)
        for (const heard of this.#connections.get(name)?.waiting ?? []) {
          if (heard === 'end' && this.#mayClose()) continue
          this.#differences.push(`${name}: said ${formatHeard(heard)} where nothing was recorded`)
        }
        return
      case 'end of stream': {
        const heard = await this.#next(name)
        if (heard !== 'end') this.#differences.push(`${name}: said ${formatHeard(heard)} instead of the end`)
        this.#closed.add(name)
        return
      }
      default:
        throw new Error(`the player does not know how to do "${entry.event ?? entry.observe ?? ''}"`)
    }
  }

  #begin({ operation, uid }: Entry, at: number): void {
    const id = uid ?? ''
    const track = (outcome: Promise<unknown>): void => {
      const settled = outcome.then(
        () => null,
        (error: unknown) => String(error),
      )
      const tracked: Operation = { uid: id, outcome: settled, isSettled: false }
      void settled.then(() => (tracked.isSettled = true))
      this.#operations.push(tracked)
    }
    const { pod, netns } = this.#podOf(id, at)
    switch (operation) {
      case 'cached':
        this.room.want(pod, netns)
        {
          track(Promise.resolve())
          return
        }
      case 'ensure':
        this.room.wantWithout(pod)
        {
          track(Promise.resolve())
          return
        }
      case 'add': {
        track(this.room.enrol(pod, netns))
        return
      }
      case 'del':
        this.room.wanted.delete(id)
        {
          track(this.room.server.remove(id))
          return
        }
      case 'stop':
        this.room.server.close()
        {
          track(Promise.resolve())
          return
        }
      default:
        throw new Error(`the player does not know the operation "${operation ?? ''}"`)
    }
  }

  /** Names and namespace as the next message about the pod has them. */
  #podOf(uid: string, at: number): { pod: PodIdentity; netns: Netns } {
    const told = this.#recorded.conversation.slice(at).find(({ message }) => message?.add?.uid === uid)
    const { name, namespace, serviceAccount } = told?.message?.add?.workloadInfo ?? {
      name: `pod-of-${uid}`,
      namespace: 'default',
      serviceAccount: 'sa',
    }
    const netns = this.#namespaces.get(told?.fdOf?.[0] ?? '') ?? [...this.#namespaces.values()][0] ?? this.room.netns()
    return { pod: { uid, name, namespace, serviceAccount }, netns }
  }

  /** Adds and keeps that were recorded between the greeting of a connection and the end of its snapshot. */
  #snapshotOf(name: string, at: number): Entry[] {
    const said = this.#recorded.conversation
      .slice(at)
      .filter(({ conn, dir }) => conn === name && dir?.startsWith('agent'))
    const end = said.findIndex(({ hex }) => hex === '1a00')
    return end < 0 ? [] : said.slice(0, end)
  }

  async #say(name: string, { hex, bytes }: Entry): Promise<void> {
    const skipped = this.#skipAnswers.get(name) ?? 0
    if (skipped > 0) {
      this.#skipAnswers.set(name, skipped - 1)
      return
    }
    const record = hex ?? Buffer.from(encodeAckOf(bytes ?? 0)).toString('hex')
    // The server may have hung up, which the next look at the connection shows.
    await this.#connections
      .get(name)
      ?.say(record)
      .catch(() => undefined)
  }

  async #hear(name: string, entry: Entry): Promise<void> {
    const key = this.#formatEntry(entry)
    const operation = this.#operations.findLast(({ uid }) => uid === entry.message?.add?.uid)
    const mayBeLeftOut = this.#acknowledged.has(`${name} ${key}`) && operation !== undefined
    const heard = await this.#next(name, mayBeLeftOut ? operation : undefined)
    if (heard === 'left out') {
      this.#skipAnswers.set(name, 1)
      return
    }
    if (heard === 'end' && this.#mayClose()) {
      this.#closed.add(name)
      return
    }
    const snapshot = this.#snapshots.get(name) ?? []
    const inSnapshot = snapshot.findIndex((told) => this.#formatEntry(told) === formatHeard(heard))
    if (inSnapshot >= 0) snapshot.splice(inSnapshot, 1)
    else if (formatHeard(heard) !== key) this.#differences.push(`${name}: said ${formatHeard(heard)} instead of ${key}`)
    this.#acknowledged.add(`${name} ${formatHeard(heard)}`)
  }

  /** The next record that counts; `left out` as soon as the operation that might have caused it is over. */
  async #next(name: string, operation?: Operation): Promise<Heard | 'end' | 'left out'> {
    for (let turn = 0; turn < 200; turn++) {
      await this.#passExtras(name)
      const connection = this.#connections.get(name)
      if (connection === undefined) throw new Error(`${name} was never opened`)
      if (connection.waiting.length > 0) return connection.next()
      if (operation?.isSettled === true) return 'left out'
      await settle()
      // What the original did at once we may do a little later.
      if (turn > 10) await this.#clock.advance(50, settle)
    }
    return { hex: '(nothing)', inodes: [] }
  }

  /** Acknowledges what may be said beside the recording. */
  async #passExtras(name: string): Promise<void> {
    const next = this.#recorded.conversation
      .slice(this.#at)
      .find(({ conn, dir }) => conn === name && dir === 'agent->ztunnel')
    const wanted = next === undefined ? undefined : this.#formatEntry(next)
    const connection = this.#connections.get(name)
    for (let first = connection?.waiting[0]; first !== undefined; first = connection?.waiting[0]) {
      if (first === 'end' || formatHeard(first) === wanted || !this.#isExtra(first)) return
      await connection?.acknowledge()
      await settle()
    }
  }

  #formatEntry({ hex, fdOf = [] }: Entry): string {
    return formatHeard({ hex: hex ?? '', inodes: fdOf.map((pod) => this.#namespaces.get(pod)?.inode ?? 0n) })
  }

  #isExtra({ hex }: Heard): boolean {
    const request = decodeRequest(Buffer.from(hex, 'hex'))
    if (request === undefined || request.kind === 'snapshotSent') return false
    return ((this.#expect['mayAlsoSend'] ?? []) as readonly string[]).includes(`${request.kind} ${request.uid}`)
  }

  #mayClose(): boolean {
    return ['closed', 'mayClose', 'mayCloseAtOnce'].some((key) => this.#expect[key] === true)
  }

  /** Compares the outcome of operations whose end was recorded. */
  async #finish(all: boolean): Promise<void> {
    for (const operation of [...this.#operations]) {
      if (operation.expected === undefined && !all) continue
      for (let turn = 0; turn < 200 && !operation.isSettled; turn++) {
        await settle()
        if (turn > 10) await this.#clock.advance(50, settle)
      }
      if (!operation.isSettled) this.#differences.push(`the operation about ${operation.uid} does not end`)
      const error = operation.isSettled ? await operation.outcome : null
      const fails = operation.expected?.fails
      const isSame = fails === undefined || fails === (error !== null)
      const isNoticed = this.#expect['mayNotice'] === true && fails === true && error === null
      if (!isSame && !isNoticed)
        this.#differences.push(`the operation about ${operation.uid} ends with ${String(error)}`)
      this.#operations.splice(this.#operations.indexOf(operation), 1)
    }
  }
}

/** Lets sockets catch up: as many turns of the loop as any exchange needs. */
async function settle(): Promise<void> {
  for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve))
}

function formatHeard(heard: Heard | 'end' | 'left out'): string {
  return typeof heard === 'string' ? heard : `${heard.hex} with [${heard.inodes.join(', ')}]`
}

/** An acknowledgement with an error that makes it just so long. */
function encodeAckOf(bytes: number): Uint8Array {
  let text = 'x'.repeat(Math.max(0, bytes - 10))
  while (encodeAck(text).length < bytes) text += 'x'
  return encodeAck(text)
}
