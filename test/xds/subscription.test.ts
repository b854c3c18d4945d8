// SPDX-License-Identifier: Apache-2.0
import { beforeEach, describe, expect, test } from '@jest/globals'
import { Registry } from 'prom-client'
import { InitialVersions } from '../../src/wire/initial-versions.js'
import { ADDRESS_TYPE, AUTHORIZATION_TYPE, WORKLOAD_TYPE } from '../../src/wire/messages.js'
import { Frames, FrameStore } from '../../src/xds/frames.js'
import { XdsMetrics } from '../../src/xds/metrics.js'
import { Subscription } from '../../src/xds/subscription.js'
import type { Ask, Reply } from '../../src/xds/reply.js'
import { Topic } from '../../src/xds/topic.js'
import { FakeClock } from '../support/fake-clock.js'
import { ToyStore } from './toy-store.js'
import type { Toy } from './toy-store.js'

/** What a response says: names in order of the alphabet, a `+` where aliases go along. */
interface Said {
  readonly told: readonly string[]
  readonly removed: readonly string[]
}

const said = (told: readonly string[], removed: readonly string[] = []): Said => ({ told, removed })

/** One stream's conversation about one type, without a stream. */
class Conversation {
  readonly store: ToyStore
  readonly topic: Topic
  readonly #subscription: Subscription
  #nonces = 0

  constructor(store: ToyStore, topic: Topic, node = '') {
    this.store = store
    this.topic = topic
    this.#subscription = new Subscription(topic, node, { push: () => true })
  }

  get subscription(): Subscription {
    return this.#subscription
  }

  /** Sends a request; gives the answer and whatever is due after it. */
  send(
    fields: Partial<Omit<Ask, 'initialVersions'>> & { readonly initial?: Readonly<Record<string, string>> } = {},
  ): Said[] {
    const ask: Ask = {
      subscribe: fields.subscribe ?? [],
      unsubscribe: fields.unsubscribe ?? [],
      nonce: fields.nonce ?? '',
      error: fields.error,
      initialVersions: toVersions(fields.initial ?? {}),
    }
    this.#subscription.judge(ask)
    const answer = this.#subscription.ask(ask)
    return [...(answer === undefined ? [] : this.#say(answer)), ...this.pushed()]
  }

  /** Everything that is due now. */
  pushed(): Said[] {
    const list: Said[] = []
    const parts = this.topic.splits ? (['changed', 'removed'] as const) : (['all'] as const)
    for (const part of parts) {
      const reply = this.#subscription.push(part)
      if (reply !== undefined) list.push(...this.#say(reply))
      const ranges = part === 'removed' ? undefined : this.#subscription.pushRanges()
      if (ranges !== undefined) list.push(...this.#say(ranges))
    }
    this.topic.trim()
    return list
  }

  #say(reply: Reply): Said[] {
    const resolved = resolve(this.topic, reply)
    if (resolved === undefined) return []
    this.#nonces++
    this.#subscription.sentNonce = `n${this.#nonces}`
    return [resolved]
  }
}

function resolve(topic: Topic, reply: Reply): Said | undefined {
  if (reply.kind === 'selection') {
    const told = reply.resources.map((r) => (reply.aliases && r.aliases.length > 0 ? `${r.name}+` : r.name))
    return said(told.sort(), [...reply.removed].sort())
  }
  if (reply.kind === 'snapshot') {
    const all = [...(topic.source?.all() ?? [])].filter((r) => r.entry !== undefined)
    return said(all.map((r) => r.name).sort(), [...reply.removed].sort())
  }
  const names = reply.kind === 'ranges' ? topic.ranges.since(reply.from) : topic.log.since(reply.from)
  const told = names.filter((name) => topic.get(name)?.entry !== undefined).sort()
  if (reply.kind === 'ranges') return told.length === 0 ? undefined : said(told)
  const gone = names.filter((name) => topic.get(name)?.entry === undefined).sort()
  const [shown, hidden] = [reply.part === 'removed' ? [] : told, reply.part === 'changed' ? [] : gone]
  return shown.length + hidden.length === 0 ? undefined : said(shown, hidden)
}

function toVersions(initial: Readonly<Record<string, string>>): InitialVersions {
  const pairs = Object.entries(initial)
  const versions = new InitialVersions(Buffer.from(pairs.flat().join('')))
  let at = 0
  for (const [name, version] of pairs) {
    const nameEnd = at + Buffer.byteLength(name)
    const versionEnd = nameEnd + Buffer.byteLength(version)
    versions.add(at, nameEnd, nameEnd, versionEnd)
    at = versionEnd
  }
  return versions
}

function makeTopic(store: ToyStore, typeUrl: string, served = true): Topic {
  const frames = new FrameStore(new FakeClock(), 't', 1000)
  const cells = new XdsMetrics(new Registry()).type(typeUrl)
  const topic = new Topic(typeUrl, served ? store.source(typeUrl) : undefined, (t) => new Frames(frames, t, cells))
  store.onCommit((changes) => {
    const list = changes.get(typeUrl)
    if (list !== undefined) topic.commit(list)
  })
  return topic
}

/** Two pods behind a service with one VIP, and a third that stands alone. */
const web: Toy = { name: 'pod/web', content: '1', aliases: ['/10.0.0.1'], parents: ['shop/web'], node: 'n1' }
const web2: Toy = { name: 'pod/web-2', content: '1', aliases: ['/10.0.0.2'], parents: ['shop/web'], node: 'n2' }
const api: Toy = { name: 'pod/api', content: '1', aliases: ['/10.0.0.3'], node: 'n2' }
const service: Toy = { name: 'shop/web', content: '1', aliases: ['/10.96.0.1'] }
const everything = ['pod/api', 'pod/web', 'pod/web-2', 'shop/web']

let store: ToyStore
let topic: Topic
beforeEach(() => {
  store = new ToyStore([ADDRESS_TYPE, AUTHORIZATION_TYPE, WORKLOAD_TYPE])
  topic = makeTopic(store, ADDRESS_TYPE)
  store.commit([web, web2, api, service])
})

const versionOf = (name: string): string => store.source(ADDRESS_TYPE)!.get(name)!.version

describe('the first request of a type', () => {
  test('with nothing in it is answered with everything [4.2]', () => {
    expect(new Conversation(store, topic).send()).toEqual([said(everything)])
  })

  test('for * is answered with everything, aliases left out [4.2]', () => {
    expect(new Conversation(store, topic).send({ subscribe: ['*'] })).toEqual([said(everything)])
  })

  test('that takes * and gives it back asks for nothing and is answered with nothing [4.2]', () => {
    expect(new Conversation(store, topic).send({ subscribe: ['*'], unsubscribe: ['*'] })).toEqual([said([])])
  })

  test('counts whatever nonce it carries [4.2]', () => {
    expect(new Conversation(store, topic).send({ nonce: 'from-another-life' })).toEqual([said(everything)])
  })

  test('for * and names lists those that are no primary name, aliases too [4.2]', () => {
    const conversation = new Conversation(store, topic)
    expect(conversation.send({ subscribe: ['*', 'pod/web', '/10.0.0.3', 'nobody'] })).toEqual([
      said(everything, ['/10.0.0.3', 'nobody']),
    ])
  })

  test('that is a rejection counts as a first request, and its text is kept [4.1]', () => {
    const conversation = new Conversation(store, topic)
    expect(conversation.send({ error: { message: 'no' } })).toEqual([said(everything)])
    expect(conversation.subscription.view().lastError).toBe('no')
  })

  test('of a type that nobody makes is answered with nothing, and no later one is [3.10]', () => {
    const nobody = new Conversation(store, makeTopic(store, 'example.Nothing', false))
    expect(nobody.send({ subscribe: ['x'] })).toEqual([said([])])
    expect(nobody.send({ subscribe: ['y'] })).toEqual([])
  })
})

describe('a client that comes back with versions', () => {
  test('as a wildcard is sent what differs and what is gone [5.4]', () => {
    const initial = { 'pod/web': versionOf('pod/web'), 'pod/api': 'old', 'pod/ghost': '1', 'shop/web': '' }
    expect(new Conversation(store, topic).send({ initial })).toEqual([
      said(['pod/api', 'pod/web-2', 'shop/web'], ['pod/ghost']),
    ])
  })

  test('is sent nothing when nothing changed, and is answered all the same [5.4]', () => {
    const initial = Object.fromEntries(everything.map((name) => [name, versionOf(name)]))
    expect(new Conversation(store, topic).send({ initial })).toEqual([said([])])
    expect(new Conversation(store, topic).send({ initial, subscribe: ['*'] })).toEqual([said([])])
  })

  test('is sent what stands in subscribe whatever version came along [4.2]', () => {
    const initial = Object.fromEntries(everything.map((name) => [name, versionOf(name)]))
    expect(new Conversation(store, topic).send({ initial, subscribe: ['*', 'pod/api'] })).toEqual([said(['pod/api'])])
    expect(new Conversation(store, topic).send({ initial, subscribe: ['pod/api'] })).toEqual([said(['pod/api+'])])
  })

  test('on demand is sent of its names what differs, and told of those that find nothing [4.2]', () => {
    const conversation = new Conversation(store, topic)
    const initial = { 'pod/web': versionOf('pod/web'), 'pod/api': 'old', '/10.0.0.9': '' }
    expect(conversation.send({ subscribe: ['*'], unsubscribe: ['*'], initial })).toEqual([
      said(['pod/api+'], ['/10.0.0.9']),
    ])
    store.commit([{ ...web, content: '2' }])
    expect(conversation.pushed()).toEqual([said(['pod/web+'])])
  })

  test('without versions of the type is sent everything again [4.10]', () => {
    const policies = makeTopic(store, AUTHORIZATION_TYPE)
    store.commit([{ name: 'a/p', version: '' }], [], AUTHORIZATION_TYPE)
    expect(new Conversation(store, policies).send({ initial: { 'a/p': '', 'a/q': '' } })).toEqual([
      said(['a/p'], ['a/q']),
    ])
  })
})

describe('a wildcard', () => {
  let conversation: Conversation
  beforeEach(() => {
    conversation = new Conversation(store, topic)
    conversation.send()
  })

  test('is told what changed, what came and what went, once [5.5]', () => {
    store.commit([{ ...web, content: '2' }, { name: 'pod/new' }], ['pod/api'])
    expect(conversation.pushed()).toEqual([said(['pod/new', 'pod/web'], ['pod/api'])])
    expect(conversation.pushed()).toEqual([])
  })

  test('that lags is told once, of the newest [7.3]', () => {
    store.commit([{ ...web, content: '2' }])
    store.commit([{ ...web, content: '3' }], ['pod/api'])
    store.commit([{ ...api, content: '4' }])
    expect(conversation.pushed()).toEqual([said(['pod/api', 'pod/web'])])
  })

  test('is answered for a name alone, and goes on [4.5]', () => {
    expect(conversation.send({ subscribe: ['/10.0.0.3', '/10.0.0.77'] })).toEqual([
      said(['pod/api'], ['/10.0.0.3', '/10.0.0.77']),
    ])
    store.commit([{ ...web, content: '2' }])
    expect(conversation.pushed()).toEqual([said(['pod/web'])])
  })

  test('is silent about a name that is given back, and goes on [4.5]', () => {
    conversation.send({ subscribe: ['pod/web'] })
    expect(conversation.send({ unsubscribe: ['pod/web'] })).toEqual([])
    store.commit([{ ...web, content: '2' }])
    expect(conversation.pushed()).toEqual([said(['pod/web'])])
  })

  test('that gives * back is silent and keeps its names [4.5]', () => {
    conversation.send({ subscribe: ['pod/web'] })
    expect(conversation.send({ unsubscribe: ['*'] })).toEqual([])
    store.commit([
      { ...web, content: '2' },
      { ...api, content: '2' },
    ])
    expect(conversation.pushed()).toEqual([said(['pod/web+'])])
  })

  test('that takes * again is sent everything again [4.5]', () => {
    expect(conversation.send({ subscribe: ['*'] })).toEqual([said(everything)])
  })

  test('is silent at an empty request [4.5]', () => {
    expect(conversation.send()).toEqual([])
  })

  test('holds nothing of the past once it has caught up', () => {
    store.commit([{ ...web, content: '2' }], ['pod/api'])
    conversation.pushed()
    expect(topic.log.size).toBe(0)
  })
})

describe('on demand', () => {
  let conversation: Conversation
  beforeEach(() => {
    conversation = new Conversation(store, topic)
    conversation.send({ subscribe: ['*'], unsubscribe: ['*'] })
  })
  const ask = (...subscribe: string[]): Said[] => conversation.send({ subscribe })

  test('a name brings the resource with its aliases [6.5]', () => {
    expect(ask('pod/api')).toEqual([said(['pod/api+'])])
  })

  test('an alias is listed as removed beside what it found [6.8]', () => {
    expect(ask('/10.0.0.3')).toEqual([said(['pod/api+'], ['/10.0.0.3'])])
  })

  test('a service brings its members, by name and by address [6.3]', () => {
    expect(ask('shop/web')).toEqual([said(['pod/web+', 'pod/web-2+', 'shop/web+'])])
    expect(ask('/10.96.0.1')).toEqual([said(['pod/web+', 'pod/web-2+', 'shop/web+'], ['/10.96.0.1'])])
  })

  test('a miss is answered, and answered again [6.9]', () => {
    expect(ask('/10.0.0.77')).toEqual([said([], ['/10.0.0.77'])])
    expect(ask('/10.0.0.77')).toEqual([said([], ['/10.0.0.77'])])
  })

  test('a name that is known is answered again [4.5]', () => {
    ask('pod/api')
    expect(ask('pod/api')).toEqual([said(['pod/api+'])])
  })

  test('an address that was missed is sent the moment somebody has it, without a word about the alias [6.7]', () => {
    ask('/10.0.0.77')
    store.commit([{ name: 'pod/late', aliases: ['/10.0.0.77'] }])
    expect(conversation.pushed()).toEqual([said(['pod/late+'])])
  })

  test('an address that moves takes its new owner along [6.7]', () => {
    ask('/10.0.0.3')
    store.commit([{ name: 'pod/next', aliases: ['/10.0.0.3'] }], ['pod/api'])
    expect(conversation.pushed()).toEqual([said(['pod/next+'], ['pod/api'])])
  })

  test('a pod that joins what was asked for is sent, and told when it leaves [6.7]', () => {
    ask('/10.96.0.1')
    store.commit([{ ...api, content: '2', parents: ['shop/web'] }])
    expect(conversation.pushed()).toEqual([said(['pod/api+'])])
    store.commit([{ ...api, content: '3' }])
    expect(conversation.pushed()).toEqual([said(['pod/api+'])])
  })

  test('an address that comes to a service brings members that did not change', () => {
    ask('/10.96.0.9')
    store.commit([{ ...service, content: '2', aliases: ['/10.96.0.1', '/10.96.0.9'] }])
    expect(conversation.pushed()).toEqual([said(['pod/web+', 'pod/web-2+', 'shop/web+'])])
  })

  test('what nobody asked for is not told [6.7]', () => {
    ask('pod/api')
    store.commit([{ ...web, content: '2' }], ['shop/web'])
    expect(conversation.pushed()).toEqual([])
  })

  test('what goes is told once and comes back unasked [6.7]', () => {
    ask('pod/api')
    store.commit([], ['pod/api'])
    expect(conversation.pushed()).toEqual([said([], ['pod/api'])])
    store.commit([api])
    expect(conversation.pushed()).toEqual([said(['pod/api+'])])
  })

  test('a name given back is silent and stays so [6.5]', () => {
    ask('pod/web', 'pod/api')
    expect(conversation.send({ unsubscribe: ['pod/web'] })).toEqual([])
    store.commit([
      { ...web, content: '2' },
      { ...api, content: '2' },
    ])
    expect(conversation.pushed()).toEqual([said(['pod/api+'])])
  })

  test('a name in both lists is given back [0]', () => {
    expect(conversation.send({ subscribe: ['pod/web'], unsubscribe: ['pod/web'] })).toEqual([])
  })

  test('names that ride on an old nonce or on a rejection count [4.1, 4.3]', () => {
    expect(conversation.send({ subscribe: ['pod/api'], nonce: 'old' })).toEqual([said(['pod/api+'])])
    expect(conversation.send({ subscribe: ['pod/web'], error: { message: 'no' } })).toEqual([said(['pod/web+'])])
  })

  test('a later * sends everything and makes a wildcard [4.5]', () => {
    ask('pod/api')
    expect(ask('*')).toEqual([said(everything)])
    store.commit([{ ...web, content: '2' }])
    expect(conversation.pushed()).toEqual([said(['pod/web'])])
  })

  test('two names in one request are one answer, a thing found twice is sent once [0]', () => {
    expect(ask('shop/web', '/10.0.0.1', 'nobody')).toEqual([
      said(['pod/web+', 'pod/web-2+', 'shop/web+'], ['/10.0.0.1', 'nobody']),
    ])
  })
})

describe('the node of an on-demand client', () => {
  test('comes along with every answer and push, unasked [6.6]', () => {
    const conversation = new Conversation(store, topic, 'n1')
    expect(conversation.send({ subscribe: ['*'], unsubscribe: ['*'] })).toEqual([said(['pod/web+'])])
    expect(conversation.send({ subscribe: ['pod/api'] })).toEqual([said(['pod/api+'])])
    store.commit([
      { name: 'pod/near', node: 'n1' },
      { name: 'pod/far', node: 'n9' },
    ])
    expect(conversation.pushed()).toEqual([said(['pod/near'])])
    store.commit([], ['pod/web'])
    expect(conversation.pushed()).toEqual([said([], ['pod/web'])])
  })
})

describe('nonces', () => {
  test('tell an acknowledgement, a rejection and an old answer apart [4.1, 4.3, 4.4]', () => {
    const conversation = new Conversation(store, topic)
    conversation.send()
    store.commit([{ ...web, content: '2' }])
    conversation.pushed()
    const { subscription } = conversation
    expect(subscription.judge({ nonce: 'n1', error: undefined })).toBe('stale')
    expect(subscription.view().ackedNonce).toBe('')
    expect(subscription.judge({ nonce: 'n2', error: { message: 'cannot decode' } })).toBe('rejected')
    expect([subscription.view().ackedNonce, subscription.view().lastError]).toEqual(['', 'cannot decode'])
    expect(subscription.judge({ nonce: 'n2', error: undefined })).toBe('acknowledged')
    expect([subscription.view().ackedNonce, subscription.view().lastError]).toEqual(['n2', ''])
    expect(conversation.pushed()).toEqual([])
  })
})

describe('a service with a range', () => {
  const ranged: Toy = { name: 'shop/range', ranges: ['10.50.0.0/24'] }
  const member: Toy = { name: 'pod/m', content: '1', parents: ['shop/range'] }
  beforeEach(() => void store.commit([ranged, member], [...everything]))

  test('is sent once more, alone, after everything [8.4]', () => {
    expect(new Conversation(store, topic).send()).toEqual([said(['pod/m', 'shop/range']), said(['shop/range'])])
  })

  test('is sent once more when a member changed, came or went, and not otherwise [8.4]', () => {
    const conversation = new Conversation(store, topic)
    conversation.send()
    store.commit([{ ...member, content: '2' }])
    expect(conversation.pushed()).toEqual([said(['pod/m']), said(['shop/range'])])
    store.commit([], ['pod/m'])
    expect(conversation.pushed()).toEqual([said([], ['pod/m']), said(['shop/range'])])
    store.commit([{ name: 'pod/other' }])
    expect(conversation.pushed()).toEqual([said(['pod/other'])])
    store.commit([], ['shop/range'])
    expect(conversation.pushed()).toEqual([said([], ['shop/range'])])
  })

  test('is found by an address inside, and by the range itself [6.2]', () => {
    const conversation = new Conversation(store, topic)
    conversation.send({ subscribe: ['*'], unsubscribe: ['*'] })
    expect(conversation.send({ subscribe: ['/10.50.0.7'] })).toEqual([
      said(['pod/m', 'shop/range+'], ['/10.50.0.7']),
      said(['shop/range+']),
    ])
    store.commit([{ name: 'pod/m2', parents: ['shop/range'] }])
    expect(conversation.pushed()).toEqual([said(['pod/m2']), said(['shop/range+'])])
  })

  test('that comes to hold an address which was missed is sent with its members', () => {
    const conversation = new Conversation(store, topic)
    conversation.send({ subscribe: ['/10.60.0.7'] })
    store.commit([{ ...ranged, content: '2', ranges: ['10.60.0.0/16'] }])
    expect(conversation.pushed()).toEqual([said(['pod/m', 'shop/range+']), said(['shop/range+'])])
  })

  test('is taken anew after a name that is gone, whatever that was [8.4]', () => {
    const initial = { 'shop/range': versionOf('shop/range'), 'pod/m': versionOf('pod/m'), 'pod/gone': '1' }
    expect(new Conversation(store, topic).send({ initial })).toEqual([said([], ['pod/gone']), said(['shop/range'])])
  })
})

describe('a service that brings its members', () => {
  test('takes them along when it changed, at a reconnect too, though they did not [8.4]', () => {
    const bringing = { ...service, bringsMembers: true, content: '2' }
    const conversation = new Conversation(store, topic)
    conversation.send()
    store.commit([bringing])
    expect(conversation.pushed()).toEqual([said(['pod/web', 'pod/web-2', 'shop/web'])])
    const initial = Object.fromEntries(everything.map((name) => [name, name === 'shop/web' ? 'old' : versionOf(name)]))
    expect(new Conversation(store, topic).send({ initial })).toEqual([said(['pod/web', 'pod/web-2', 'shop/web'])])
  })
})

describe('the type Workload', () => {
  test('finds members by a service, which is known and never written [5.2]', () => {
    const workloads = makeTopic(store, WORKLOAD_TYPE)
    store.commit([web, api, { ...service, written: false }], [], WORKLOAD_TYPE)
    expect(new Conversation(store, workloads).send()).toEqual([said(['pod/api', 'pod/web'])])
    const asking = new Conversation(store, workloads)
    expect(asking.send({ subscribe: ['shop/web'] })).toEqual([said(['pod/web+'])])
    const all = new Conversation(store, workloads)
    all.send()
    store.commit([{ ...web, content: '2', parents: [] }], ['shop/web'], WORKLOAD_TYPE)
    expect(all.pushed()).toEqual([said(['pod/web'])])
  })
})

describe('policies', () => {
  test('that come go first, those that go last [7.5]', () => {
    const policies = makeTopic(store, AUTHORIZATION_TYPE)
    store.commit([{ name: 'a/old' }], [], AUTHORIZATION_TYPE)
    const conversation = new Conversation(store, policies)
    conversation.send()
    store.commit([{ name: 'a/new' }], ['a/old'], AUTHORIZATION_TYPE)
    expect(conversation.pushed()).toEqual([said(['a/new']), said([], ['a/old'])])
  })
})
