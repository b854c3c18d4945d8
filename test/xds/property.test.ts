// SPDX-License-Identifier: Apache-2.0
// Clients that are fed by deltas, lose their streams, read slowly and ask for this and that hold in the end what a client would hold that asked just now.

import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { Registry } from 'prom-client'
import { silentLogger } from '../../src/base/log.js'
import { decodeEntry } from '../../src/wire/entry.js'
import { FrameParser } from '../../src/wire/grpc-frames.js'
import { ADDRESS_TYPE } from '../../src/wire/messages.js'
import { Reader } from '../../src/wire/reader.js'
import { Frames, FrameStore } from '../../src/xds/frames.js'
import { XdsMetrics } from '../../src/xds/metrics.js'
import { Session } from '../../src/xds/session.js'
import type { SessionHost, Stream } from '../../src/xds/session-host.js'
import { Topic } from '../../src/xds/topic.js'
import type { Pusher } from '../../src/xds/topic.js'
import { FakeClock } from '../support/fake-clock.js'
import { encodeDeltaRequest, ztunnelNode } from '../support/xds-client.js'
import { ToyStore } from './toy-store.js'
import type { Toy } from './toy-store.js'

/** Sessions over a store, without sockets. */
class World {
  readonly store = new ToyStore()
  readonly topic: Topic
  readonly host: SessionHost

  constructor() {
    const clock = new FakeClock()
    const metrics = new XdsMetrics(new Registry())
    const frames = new FrameStore(clock, 'p', 1_000_000)
    const source = this.store.source(ADDRESS_TYPE)
    this.topic = new Topic(ADDRESS_TYPE, source, (t) => new Frames(frames, t, metrics.type(ADDRESS_TYPE)))
    let count = 0
    this.host = {
      clock,
      log: silentLogger,
      metrics,
      debugTypes: undefined,
      maxNames: 1e6,
      topic: (typeUrl) =>
        typeUrl === ADDRESS_TYPE
          ? this.topic
          : new Topic(typeUrl, undefined, (t) => new Frames(frames, t, metrics.type(typeUrl))),
      opened: () => `c-${count++}`,
      closed: () => undefined,
    }
    this.store.onCommit((changes) => {
      const pushers = new Set<Pusher>()
      for (const subscriber of this.topic.commit(changes.get(ADDRESS_TYPE) ?? [])) pushers.add(subscriber.owner)
      for (const pusher of pushers) pusher.push()
      this.topic.trim()
    })
  }
}

/** A client as a proxy is one: name to version and bytes; ranges by what their members were when the range itself came. */
class Client implements Stream {
  readonly peer = 'test'
  readonly asker = { secure: false, caller: undefined }
  readonly held = new Map<string, { readonly version: string; readonly body: string }>()
  /** Keys it asked for and was not given back. */
  readonly wanted = new Set<string>()
  /** Of each range: the members that were there the last time it was told. */
  readonly rangeMembers = new Map<string, string>()
  readonly nonces = new Set<string>()
  readonly #world: World
  readonly #node: string
  readonly #wildcard: boolean
  #session: Session | undefined
  #slow = false
  #blocked = false
  #cutShort = false
  problems: string[] = []

  constructor(world: World, wildcard: boolean, node: string) {
    this.#world = world
    this.#wildcard = wildcard
    this.#node = node
  }

  write(parts: readonly Uint8Array[]): boolean {
    if (this.#blocked) this.problems.push('written to while blocked')
    for (const message of new FrameParser(1e9).push(Buffer.concat(parts))) this.#apply(message)
    this.#blocked = this.#slow
    return !this.#blocked
  }

  setReading(): void {
    // It sends nothing while it is not read.
  }

  end(status: number, message: string): void {
    this.problems.push(`ended with ${status} ${message}`)
  }

  #apply(message: Uint8Array): void {
    const before = new Map(this.held)
    const reader = new Reader(message, 'DeltaDiscoveryResponse')
    const removed: string[] = []
    const told: string[] = []
    while (reader.next()) {
      if (reader.field === 2) {
        const { name, version, body } = decodeEntry(reader.bytes())
        if (told.includes(name)) this.problems.push(`${name} twice in a response`)
        told.push(name)
        this.held.set(name, { version, body: Buffer.from(body).toString() })
      } else if (reader.field === 6) removed.push(reader.string())
      else if (reader.field === 5) {
        const nonce = reader.string()
        if (this.nonces.has(nonce)) this.problems.push(`nonce ${nonce} twice`)
        this.nonces.add(nonce)
      } else reader.skip()
    }
    for (const name of removed) {
      if (told.includes(name)) this.problems.push(`${name} told and removed`)
      this.held.delete(name)
    }
    // Endpoints of one response are applied after its resources: a range learns of members that were there before it.
    for (const name of told) if (this.#isRange(name)) this.rangeMembers.set(name, membersOf(name, before))
  }

  #isRange(name: string): boolean {
    return name.startsWith('range/')
  }

  /** Every range it holds was told after its present members were. */
  checkRanges(): void {
    if (this.#cutShort) return
    for (const name of this.held.keys()) {
      if (!this.#isRange(name)) continue
      const members = membersOf(name, this.held)
      if (members !== '' && this.rangeMembers.get(name) !== members)
        this.problems.push(`${name} does not know its members`)
    }
  }

  connect(): void {
    this.disconnect()
    this.#noteLeavers()
    this.nonces.clear()
    this.#blocked = false
    this.#session = new Session(this, this.#world.host)
    const initial = new Map([...this.held].map(([name, { version }]) => [name, version]))
    for (const key of this.wanted) if (!initial.has(key)) initial.set(key, '')
    const star = this.#wildcard ? {} : { subscribe: ['*'], unsubscribe: ['*'] }
    this.#send({ ...star, initial, node: ztunnelNode('c', this.#node) })
  }

  /** What left a range while the client was away, and still exists, looks to the server like any other change. */
  #noteLeavers(): void {
    for (const [name, { body }] of this.held) {
      const parents = ((JSON.parse(body) as unknown[][])[3] ?? []) as string[]
      const served = this.#world.topic.get(name)
      if (served !== undefined && parents.some((p) => this.#isRange(p) && !served.parents.includes(p)))
        this.#cutShort = true
    }
  }

  disconnect(): void {
    // A stream lost right between members and the range that must follow them: no later stream can know of that.
    if (this.#blocked) this.#cutShort = true
    this.#session?.closed()
    this.#session = undefined
  }

  ask(key: string): void {
    this.wanted.add(key)
    this.#send({ subscribe: [key] })
  }

  setSlow(slow: boolean): void {
    this.#slow = slow
    if (slow) return
    this.drain()
  }

  drain(): void {
    if (!this.#blocked) return
    this.#blocked = false
    this.#session?.drained()
  }

  #send(fields: Partial<Parameters<typeof encodeDeltaRequest>[0]>): void {
    this.#session?.receive(encodeDeltaRequest({ type: ADDRESS_TYPE, node: null, ...fields }))
  }

  get connected(): boolean {
    return this.#session !== undefined
  }
}

/** The members of a range among these, with their versions. */
function membersOf(
  range: string,
  held: ReadonlyMap<string, { readonly version: string; readonly body: string }>,
): string {
  return [...held]
    .filter(([, { body }]) => (JSON.parse(body) as unknown[][])[3]?.includes(range))
    .map(([name, { version }]) => `${name}@${version}`)
    .sort()
    .join(' ')
}

const podNames = ['pod/a', 'pod/b', 'pod/c', 'pod/d']
const serviceNames = ['shop/a', 'shop/b', 'range/a']
const ips = ['/10.0.0.1', '/10.0.0.2', '/10.0.0.3']
const vips = ['/10.96.0.1', '/10.96.0.2']
const keys = [...podNames, ...serviceNames, ...ips, ...vips, '/10.50.0.7', '/10.60.0.7', 'nobody']

const pod = fc.record({
  name: fc.constantFrom(...podNames),
  content: fc.constantFrom('1', '2', '3'),
  aliases: fc.subarray(ips, { maxLength: 2 }),
  parents: fc.subarray(serviceNames),
  node: fc.constantFrom('', 'n1', 'n2'),
})
const service = fc.record({
  name: fc.constantFrom('shop/a', 'shop/b'),
  content: fc.constantFrom('1', '2'),
  aliases: fc.subarray(vips),
  bringsMembers: fc.boolean(),
})
const range = fc.record({
  name: fc.constant('range/a'),
  content: fc.constantFrom('1', '2'),
  ranges: fc.constantFrom(['10.50.0.0/24'], ['10.60.0.0/16'], ['10.50.0.0/24', '10.60.0.0/16']),
})
const toy: fc.Arbitrary<Toy> = fc.oneof({ weight: 4, arbitrary: pod }, { weight: 2, arbitrary: service }, range)

const clients = fc.nat({ max: 3 })
const event = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('commit' as const),
      toys: fc.array(toy, { maxLength: 4 }),
      gone: fc.subarray([...podNames, ...serviceNames], { maxLength: 3 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('ask' as const), client: clients, key: fc.constantFrom(...keys) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('disconnect' as const), client: clients }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('connect' as const), client: clients }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('slow' as const), client: clients, slow: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('drain' as const), client: clients }) },
)

/** What a client that asks for all this at this moment is told. */
function fresh(world: World, wildcard: boolean, node: string, wanted: ReadonlySet<string>): Map<string, string> {
  const client = new Client(world, wildcard, node)
  client.connect()
  for (const key of wanted) client.ask(key)
  client.disconnect()
  return new Map([...client.held].map(([name, { body }]) => [name, body]))
}

describe('what clients hold in the end', () => {
  test('is what a fresh client is told', () => {
    fc.assert(
      fc.property(fc.array(event, { minLength: 1, maxLength: 40 }), (events) => {
        const world = new World()
        const kinds = [
          [true, ''],
          [true, 'n1'],
          [false, ''],
          [false, 'n1'],
        ] as const
        const all = kinds.map(([wildcard, node]) => new Client(world, wildcard, node))
        for (const client of all) client.connect()
        for (const e of events) {
          if (e.kind === 'commit') {
            world.store.commit(
              e.toys,
              e.gone.filter((name) => !e.toys.some((t) => t.name === name)),
            )
            continue
          }
          const client = all[e.client]!
          if (e.kind === 'ask' && client.connected) client.ask(e.key)
          if (e.kind === 'disconnect') client.disconnect()
          if (e.kind === 'connect') client.connect()
          if (e.kind === 'slow') client.setSlow(e.slow)
          if (e.kind === 'drain') client.drain()
        }
        for (const [i, client] of all.entries()) {
          const [wildcard, node] = kinds[i]!
          client.setSlow(false)
          if (!client.connected) client.connect()
          client.checkRanges()
          expect(client.problems).toEqual([])
          const expected = fresh(world, wildcard, node, client.wanted)
          for (const [name, body] of expected) expect([name, client.held.get(name)?.body]).toEqual([name, body])
          // Of what it held and did not give back it goes on to hear: nothing it holds is stale or gone.
          for (const [name, { body }] of client.held) {
            const served = world.store.source(ADDRESS_TYPE)!.get(name)
            expect([name, served && Buffer.from(decodeEntry(served.entry!).body).toString()]).toEqual([name, body])
          }
          if (wildcard) expect(client.held.size).toBe(expected.size)
        }
        for (const client of all) client.disconnect()
        world.topic.trim()
        expect([world.topic.log.size, world.topic.wildcards.size, world.topic.keys.isEmpty]).toEqual([0, 0, true])
      }),
      { numRuns: Number(process.env['XDS_PROPERTY_RUNS'] ?? 500), seed: Number(process.env['XDS_PROPERTY_SEED'] ?? 1) },
    )
  })
})
