// SPDX-License-Identifier: Apache-2.0
// Random clients of the real program, over real sockets, while objects change: they subscribe, give back, reject, come back with versions, half-close, take back and vanish.
// Once all is quiet, every client that is left holds what a fresh one with the same wishes is given.
// More by hand: STORY_RUNS, STORY_SEED.
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { setTimeout as sleep } from 'node:timers/promises'
import { applyResponses, XdsClient, ztunnelNode, type ReceivedResource } from '../support/xds-client.js'
import { podManifest, Room, until } from './room.js'

const runs = Number(process.env['STORY_RUNS'] ?? 12)
const seed = process.env['STORY_SEED']

const room = new Room()
const crashes: unknown[] = []
const onCrash = (reason: unknown): void => void crashes.push(reason)
beforeAll(async () => {
  process.on('unhandledRejection', onCrash)
  await room.open(['--keepaliveMaxServerConnectionAge=10m'])
}, 60_000)
afterAll(async () => {
  process.off('unhandledRejection', onCrash)
  await room.close()
})

const pods = ['p0', 'p1', 'p2', 'p3', 'p4']
const services = ['s0', 's1']
const names = [
  '*',
  ...pods.map((pod) => `Kubernetes//Pod/story/${pod}`),
  ...services.map((service) => `story/${service}.story.svc.cluster.local`),
  ...[0, 1, 2, 3, 4, 5].map((i) => `/10.7.0.${i}`),
  ...[0, 1].map((i) => `/10.8.0.${i}`),
  'nobody/has.this.example',
  '/10.7.0.99',
]

/** A labelled pod on one of two nodes, the first of which clients live on. */
const pod = (name: string, ip: number, label: number): string =>
  podManifest(name, `10.7.0.${ip}`)
    .replace('metadata: {', `metadata: { labels: { app: s${label} },`)
    .replace('nodeName: node-1', `nodeName: node-${label}`)
const service = (name: string, ip: number, port: number): string => `apiVersion: v1
kind: Service
metadata: { name: ${name}, namespace: story, uid: uid-of-${name} }
spec: { clusterIP: 10.8.0.${ip}, selector: { app: ${name} }, ports: [{ port: ${port} }] }
`

type Step =
  | { readonly do: 'pod'; readonly which: number; readonly ip: number; readonly label: number }
  | { readonly do: 'service'; readonly which: number; readonly ip: number; readonly port: number }
  | { readonly do: 'remove'; readonly which: number }
  | {
      readonly do: 'ask'
      readonly client: number
      readonly subscribe: string[]
      readonly unsubscribe: string[]
      readonly nonce: string
    }
  | { readonly do: 'reject' | 'return' | 'vanish' | 'takeBack' | 'halfClose'; readonly client: number }
  | { readonly do: 'wait'; readonly ms: number }

const client = fc.nat(3)
const someNames = fc.array(fc.constantFrom(...names), { maxLength: 3 })
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant('pod' as const), which: fc.nat(4), ip: fc.nat(5), label: fc.nat(1) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('service' as const),
      which: fc.nat(1),
      ip: fc.nat(1),
      port: fc.integer({ min: 80, max: 81 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('remove' as const), which: fc.nat(6) }) },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('ask' as const),
      client,
      subscribe: someNames,
      unsubscribe: someNames,
      nonce: fc.constantFrom('', 'last', 'old', 'made-up'),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constantFrom('reject', 'return', 'vanish', 'takeBack', 'halfClose'), client }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(0, 5, 60, 120) }) },
)

/** What a client asked for, and what it was told, over all its streams. */
class RandomClient {
  stream: XdsClient | undefined
  isWildcard = false
  hasAsked = false
  /** It will say nothing more on this stream. */
  isLeaving = false
  readonly wishes = new Set<string>()
  held = new Map<string, ReceivedResource>()
  #taken = 0

  constructor(readonly name: string) {}

  take(): void {
    const { stream } = this
    if (stream === undefined) return
    applyResponses(stream.responses.slice(this.#taken), 'Address', this.held)
    this.#taken = stream.responses.length
  }

  open(): XdsClient {
    if (this.stream !== undefined && this.stream.ended === undefined && !this.isLeaving) return this.stream
    this.take()
    this.stream?.destroy()
    this.#taken = 0
    this.isLeaving = false
    this.stream = new XdsClient({ port: room.port, node: ztunnelNode(this.name, 'node-0') })
    if (!this.hasAsked) return this.stream
    // A client that comes back says what it wants and what it holds.
    const subscribe = [...(this.isWildcard ? ['*'] : []), ...this.wishes]
    const initial = new Map([...this.held.values()].map(({ name, version }) => [name, version]))
    if (subscribe.length > 0 || initial.size > 0) this.stream.send({ type: 'Address', subscribe, initial })
    else this.hasAsked = false
    // What it says it holds it also asks for.
    if (!this.isWildcard) for (const name of initial.keys()) this.wishes.add(name)
    return this.stream
  }

  ask(subscribe: readonly string[], unsubscribe: readonly string[], nonce: string): void {
    const stream = this.open()
    const isFirst = !this.hasAsked
    // A first message without names means everything; these clients say so.
    const asked = isFirst && subscribe.length === 0 ? ['*'] : subscribe
    this.hasAsked = true
    const said =
      nonce === 'last' ? stream.responses.at(-1)?.nonce : nonce === 'old' ? stream.responses[0]?.nonce : nonce
    stream.send({
      type: 'Address',
      subscribe: asked,
      unsubscribe,
      ...(said === undefined || said === '' ? {} : { nonce: said }),
    })
    for (const name of asked) {
      if (unsubscribe.includes(name)) continue
      if (name === '*') this.isWildcard = true
      else this.wishes.add(name)
    }
    for (const name of unsubscribe) {
      if (name === '*') this.isWildcard = false
      else this.wishes.delete(name)
    }
  }

  vanish(): void {
    this.take()
    this.stream?.destroy()
    this.stream = undefined
    this.#taken = 0
  }
}

function play(s: Step, clients: readonly RandomClient[]): void {
  if (s.do === 'pod') room.write(`${pods[s.which] ?? ''}.yaml`, pod(pods[s.which] ?? '', s.ip, s.label))
  else if (s.do === 'service') {
    room.write(`${services[s.which] ?? ''}.yaml`, service(services[s.which] ?? '', s.ip, s.port))
  } else if (s.do === 'remove') room.remove(`${[...pods, ...services][s.which] ?? ''}.yaml`)
  else if (s.do !== 'wait') {
    const it = clients[s.client]
    if (it === undefined) return
    if (s.do === 'ask') it.ask(s.subscribe, s.unsubscribe, s.nonce)
    else if (s.do === 'return') it.open()
    else if (s.do === 'vanish') it.vanish()
    else if (s.do === 'takeBack' || s.do === 'halfClose') {
      it.isLeaving = true
      if (s.do === 'takeBack') it.stream?.reset()
      else it.stream?.halfClose()
    } else {
      const last = it.stream?.responses.at(-1)
      if (last !== undefined) it.stream?.send({ type: 'Address', nonce: last.nonce, error: { code: 3, message: 'no' } })
    }
  }
}

/** Everything was read, committed, pushed and acknowledged. */
async function quiet(): Promise<void> {
  await room.beat()
  await room.beat()
  let before = -1
  let still = 0
  await until(async () => {
    const { uncommitted, unsent, activity } = room.server.work()
    still = !uncommitted && !unsent && activity === before ? still + 1 : 0
    before = activity
    await sleep(5)
    return still >= 4
  }, 'quiet')
}

/** What a fresh client with the same wishes on the same node is given. */
async function fresh(it: RandomClient): Promise<Map<string, ReceivedResource>> {
  const other = new XdsClient({ port: room.port, node: ztunnelNode('fresh', 'node-0') })
  // With no wish left, only what lives on the node comes: a name that nobody has asks for that.
  const subscribe = it.isWildcard ? ['*', ...it.wishes] : [...it.wishes, 'nobody/asks.for.this']
  other.send({ type: 'Address', subscribe })
  await other.receivedAtLeast(1)
  await quiet()
  other.destroy()
  return applyResponses(other.responses)
}

const toVersions = (held: ReadonlyMap<string, ReceivedResource>): string[] =>
  [...held.values()].map(({ name, version }) => `${name} ${version}`).sort()

test(
  'whatever clients do and whatever changes, those that are left hold what fresh ones are given',
  async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 60 }), async (steps) => {
        const clients = [0, 1, 2, 3].map((i) => new RandomClient(`random-${i}`))
        try {
          for (const s of steps) {
            if (s.do === 'wait') await sleep(s.ms)
            else play(s, clients)
          }
          for (const it of clients) if (it.hasAsked) it.open()
          await quiet()
          for (const it of clients) {
            if (!it.hasAsked) continue
            it.take()
            const wanted = toVersions(await fresh(it))
            it.take()
            const held = toVersions(it.held)
            if (it.isWildcard) {
              expect(held).toEqual(wanted)
              continue
            }
            // It may still hold what it gave back, as it last was; what it asks for by name it holds as it is, or not at all.
            expect(held).toEqual(expect.arrayContaining(wanted))
            const named = [...it.held.values()].filter(({ name }) => it.wishes.has(name))
            expect(wanted).toEqual(expect.arrayContaining(named.map(({ name, version }) => `${name} ${version}`)))
          }
          expect(crashes).toEqual([])
          expect(room.failures()).toEqual([])
        } finally {
          for (const it of clients) it.vanish()
          for (const name of [...pods, ...services]) room.remove(`${name}.yaml`)
        }
      }),
      {
        numRuns: runs,
        ...(seed === undefined ? {} : { seed: Number(seed) }),
        endOnFailure: process.env['CI'] !== undefined,
      },
    )
  },
  Math.max(180_000, runs * 8_000),
)

test('when all have gone, nothing of them is left', async () => {
  await until(() => room.server.parts.xds.clients().length === 1, 'the witness alone')
  expect(room.server.parts.xds.clients().map(({ proxy }) => proxy)).toEqual(['witness.istio-system'])
})
