// SPDX-License-Identifier: Apache-2.0
// No client that carries traffic ever holds a workload without the policies that the workload names: not for one response. By a random life of clients
// that ask as ztunnel does, addresses first, policies right behind.

import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { Registry } from 'prom-client'
import { silentLogger } from '../../src/base/log.js'
import { decodeEntry } from '../../src/wire/entry.js'
import { FrameParser } from '../../src/wire/grpc-frames.js'
import { ADDRESS_TYPE, AUTHORIZATION_TYPE } from '../../src/wire/messages.js'
import { Reader } from '../../src/wire/reader.js'
import { Frames, FrameStore } from '../../src/xds/frames.js'
import { XdsMetrics } from '../../src/xds/metrics.js'
import { Session } from '../../src/xds/session.js'
import type { SessionHost, Stream } from '../../src/xds/session-host.js'
import { Topic, type Pusher } from '../../src/xds/topic.js'
import { FakeClock } from '../support/fake-clock.js'
import { encodeDeltaRequest, ztunnelNode } from '../support/xds-client.js'
import { ToyStore } from './toy-store.js'

class World {
  readonly store = new ToyStore([ADDRESS_TYPE, AUTHORIZATION_TYPE])
  readonly clock = new FakeClock()
  readonly host: SessionHost
  readonly #topics: ReadonlyMap<string, Topic>

  constructor() {
    const metrics = new XdsMetrics(new Registry())
    const frames = new FrameStore(this.clock, 'p', 1_000_000)
    const make = (typeUrl: string): Topic =>
      new Topic(typeUrl, this.store.source(typeUrl), (t) => new Frames(frames, t, metrics.type(typeUrl)))
    this.#topics = new Map([ADDRESS_TYPE, AUTHORIZATION_TYPE].map((typeUrl) => [typeUrl, make(typeUrl)]))
    this.host = {
      clock: this.clock,
      log: silentLogger,
      metrics,
      debugTypes: undefined,
      maxNames: 1e6,
      topic: (typeUrl) => this.#topics.get(typeUrl) ?? make(typeUrl),
      opened: () => 'c',
      closed: () => undefined,
    }
    this.store.onCommit((changes) => {
      const pushers = new Set<Pusher>()
      for (const [typeUrl, list] of changes)
        for (const subscriber of this.#topics.get(typeUrl)!.commit(list)) pushers.add(subscriber.owner)
      for (const pusher of pushers) pusher.push()
      for (const topic of this.#topics.values()) topic.trim()
    })
  }
}

/** Remembers what it holds, over streams. Carries traffic from when it was first told of both types. */
class Client implements Stream {
  readonly peer = 'test'
  readonly asker = { secure: false, caller: undefined }
  readonly problems: string[] = []
  readonly order: string[] = []
  readonly #world: World
  readonly #onDemand: boolean
  readonly #held = new Map([
    [ADDRESS_TYPE, new Map<string, { readonly version: string; readonly needs: readonly string[] }>()],
    [AUTHORIZATION_TYPE, new Map<string, { readonly version: string; readonly needs: readonly string[] }>()],
  ])
  readonly #received = new Set<string>()
  #session: Session | undefined
  #slow = false
  #blocked = false

  constructor(world: World, onDemand: boolean) {
    this.#world = world
    this.#onDemand = onDemand
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
    const reader = new Reader(message, 'DeltaDiscoveryResponse')
    const told: [string, { version: string; needs: readonly string[] }][] = []
    const removed: string[] = []
    let typeUrl = ''
    while (reader.next()) {
      if (reader.field === 2) {
        const { name, version, body } = decodeEntry(reader.bytes())
        told.push([name, { version, needs: (JSON.parse(Buffer.from(body).toString()) as string[]).slice(6) }])
      } else if (reader.field === 4) typeUrl = reader.string()
      else if (reader.field === 6) removed.push(reader.string())
      else reader.skip()
    }
    const held = this.#held.get(typeUrl)!
    for (const [name, resource] of told) held.set(name, resource)
    for (const name of removed) held.delete(name)
    this.#received.add(typeUrl)
    this.order.push(
      `${typeUrl.slice(typeUrl.lastIndexOf('.') + 1)} ${told.map(([name]) => name).join()} -${removed.join()}`,
    )
    if (this.#received.size === 2) this.#check()
  }

  #check(): void {
    for (const [name, { needs }] of this.#held.get(ADDRESS_TYPE)!)
      for (const policy of needs)
        if (!this.#held.get(AUTHORIZATION_TYPE)!.has(policy)) this.problems.push(`${name} is open without ${policy}`)
  }

  /** `late`: the second request comes after others have had their turn. */
  connect(late: () => void = () => undefined): void {
    this.askForAddresses()
    late()
    this.#send({ type: AUTHORIZATION_TYPE, initial: this.#initial(AUTHORIZATION_TYPE), node: ztunnelNode('c', 'n1') })
  }

  /** The first half of coming back. */
  askForAddresses(): void {
    this.disconnect()
    this.#session = new Session(this, this.#world.host)
    const star = this.#onDemand ? { subscribe: ['*'], unsubscribe: ['*'] } : {}
    this.#send({ type: ADDRESS_TYPE, ...star, initial: this.#initial(ADDRESS_TYPE), node: ztunnelNode('c', 'n1') })
  }

  #initial(typeUrl: string): Map<string, string> {
    return new Map([...this.#held.get(typeUrl)!].map(([name, { version }]) => [name, version]))
  }

  disconnect(): void {
    this.#session?.closed()
    this.#session = undefined
    this.#blocked = false
  }

  ask(key: string): void {
    if (this.#session !== undefined) this.#send({ type: ADDRESS_TYPE, subscribe: [key], node: null })
  }

  setSlow(slow: boolean): void {
    this.#slow = slow
    if (!slow) this.drain()
  }

  drain(): void {
    if (!this.#blocked) return
    this.#blocked = false
    this.#session?.drained()
  }

  get names(): unknown {
    return [...this.#held.values()].map((held) => [...held.keys()].sort())
  }

  get idle(): boolean {
    return this.#session?.idle !== false
  }

  #send(fields: Parameters<typeof encodeDeltaRequest>[0]): void {
    this.#session?.receive(encodeDeltaRequest(fields))
  }
}

const policyNames = ['a/p', 'a/q', 'a/r']
const podNames = ['pod/a', 'pod/b', 'pod/c']

/** The whole state after a commit: a pod names only policies that are there. */
const state = fc.record({
  policies: fc.subarray(policyNames),
  content: fc.constantFrom('1', '2'),
  pods: fc.array(
    fc.record({ name: fc.constantFrom(...podNames), needs: fc.subarray(policyNames), node: fc.constantFrom('n1', '') }),
    { maxLength: 3 },
  ),
})
type State = typeof state extends fc.Arbitrary<infer T> ? T : never

function commit({ store }: World, { policies, content, pods }: State): void {
  const toys = pods.map((pod) => ({ ...pod, needs: pod.needs.filter((name) => policies.includes(name)) }))
  const goneOf = (all: readonly string[], now: readonly string[]): string[] => all.filter((name) => !now.includes(name))
  store.commitAll(
    new Map([
      [
        ADDRESS_TYPE,
        {
          toys,
          gone: goneOf(
            podNames,
            toys.map((toy) => toy.name),
          ),
        },
      ],
      [
        AUTHORIZATION_TYPE,
        { toys: policies.map((name) => ({ name, content, version: '' })), gone: goneOf(policyNames, policies) },
      ],
    ]),
  )
}

const clients = fc.nat({ max: 1 })
const event = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('commit' as const), state }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('ask' as const), key: fc.constantFrom(...podNames) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('disconnect' as const), client: clients }) },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('connect' as const), client: clients, between: fc.option(state) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('slow' as const), client: clients, slow: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('drain' as const), client: clients }) },
)

describe('a client that carries traffic', () => {
  test('never holds a workload without the policies that it names', () => {
    fc.assert(
      fc.property(fc.array(event, { minLength: 1, maxLength: 40 }), (events) => {
        const world = new World()
        const wildcard = new Client(world, false)
        const onDemand = new Client(world, true)
        const all = [wildcard, onDemand]
        for (const e of events) {
          if (e.kind === 'commit') commit(world, e.state)
          else if (e.kind === 'ask') onDemand.ask(e.key)
          else {
            const client = all[e.client]!
            const { between } = e.kind === 'connect' ? e : { between: null }
            if (e.kind === 'connect') client.connect(() => between !== null && commit(world, between))
            if (e.kind === 'disconnect') client.disconnect()
            if (e.kind === 'slow') client.setSlow(e.slow)
            if (e.kind === 'drain') client.drain()
          }
          expect(all.flatMap((client) => client.problems)).toEqual([])
        }
        wildcard.setSlow(false)
        wildcard.connect()
        const served = [ADDRESS_TYPE, AUTHORIZATION_TYPE].map((typeUrl) =>
          [...world.store.source(typeUrl)!.all()].map(({ name }) => name).sort(),
        )
        expect({ names: wildcard.names, problems: wildcard.problems, idle: wildcard.idle }).toEqual({
          names: served,
          problems: [],
          idle: true,
        })
      }),
      { numRuns: Number(process.env['XDS_PROPERTY_RUNS'] ?? 500), seed: Number(process.env['XDS_PROPERTY_SEED'] ?? 1) },
    )
  })

  const policies = (...names: string[]): State => ({ policies: names, content: '1', pods: [] })
  const pods = (needs: readonly string[], base: State): State => ({
    ...base,
    pods: [{ name: 'pod/a', needs: [...needs], node: '' }],
  })

  test('and comes back is told of policies before workloads that need them, and of their going after', () => {
    const world = new World()
    const client = new Client(world, false)
    commit(world, pods(['a/p'], policies('a/p')))
    client.connect()
    client.disconnect()
    commit(world, pods(['a/q'], policies('a/q')))
    client.connect()
    expect(client.order).toEqual([
      'Authorization a/p -',
      'Address pod/a -',
      'Authorization a/q -',
      'Address pod/a -',
      'Authorization  -a/p',
    ])
  })

  test('and comes back is answered in the order of its requests when nothing needs another', () => {
    const world = new World()
    const client = new Client(world, false)
    commit(world, pods(['a/p'], policies('a/p')))
    client.connect()
    client.disconnect()
    client.connect()
    expect(client.order.slice(2)).toEqual(['Address  -', 'Authorization a/p -'])
  })

  test('and never asks for policies is answered all the same, with what is there by then', async () => {
    const world = new World()
    const client = new Client(world, false)
    commit(world, pods(['a/p'], policies('a/p')))
    client.askForAddresses()
    expect([client.order, client.idle]).toEqual([[], false])
    commit(world, pods(['a/p', 'a/q'], policies('a/p', 'a/q')))
    await world.clock.advance(200)
    expect([client.order, client.idle]).toEqual([['Address pod/a -'], true])
    commit(world, policies('a/p', 'a/q'))
    expect([client.order.slice(1), world.clock.pending]).toEqual([['Address  -pod/a'], 1])
  })

  test('and leaves before it asked for policies leaves nothing behind', () => {
    const world = new World()
    const client = new Client(world, false)
    commit(world, pods(['a/p'], policies('a/p')))
    const before = world.clock.pending
    client.askForAddresses()
    client.disconnect()
    commit(world, pods([], policies('a/p')))
    expect([client.order, world.clock.pending]).toEqual([[], before])
  })
})
