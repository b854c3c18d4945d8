// SPDX-License-Identifier: Apache-2.0
// The reading of an API server over real sockets: what is in the rows, and exactly what was asked for.

import { afterEach, describe, expect, test } from '@jest/globals'
import { kubeLimits } from '../../src/kube/kube-feed.js'
import { until } from '../support/fake-apiserver-taken.js'
import { createWorld, makeObject, makePod, stopWorlds, type World } from './support-reflect.js'

afterEach(stopWorlds)

const pods = (world: World): string[] =>
  [...world.table('Pod').rows.values()].map((p) => `${p.name} ${p.ips[0]}`).sort()
const podRequests = (world: World): { list: number; watch: number; any: number } => world.server.requests('Pod')

async function startWithPods(...names: string[]): Promise<World> {
  const world = await createWorld({
    prepare: (server) => server.upsert(...names.map((name, i) => makePod(name, `10.0.0.${i + 1}`))),
  })
  world.server.resetRequests()
  world.table('Pod').log.length = 0
  return world
}

describe('a kind is listed once and then watched', () => {
  test('with one request each', async () => {
    const world = await createWorld({ prepare: (server) => server.upsert(makePod('a', '10.0.0.1')) })
    expect(podRequests(world)).toStrictEqual({ list: 1, watch: 1, any: 2 })
    expect(world.table('Pod').log).toStrictEqual(['replace c/shop/a'])
    expect(world.feed.pending()).toStrictEqual([])
  })

  test('and follows every event', async () => {
    const world = await startWithPods('a', 'b')
    world.server.upsert(makePod('c', '10.0.0.3'))
    world.server.patch({ kind: 'Pod', namespace: 'shop', name: 'a', merge: { status: { phase: 'Succeeded' } } })
    world.server.remove({ kind: 'Pod', namespace: 'shop', name: 'b' })
    await world.settle()
    expect(world.table('Pod').log).toStrictEqual(['set c/shop/c', 'set c/shop/a', 'delete c/shop/b'])
    expect(world.table('Pod').get('c/shop/a')?.phase).toBe('Succeeded')
    expect(podRequests(world)).toStrictEqual({ list: 0, watch: 0, any: 0 })
  })

  test('a pod that fails leaves, though nobody deleted it [F3]', async () => {
    const world = await startWithPods('a', 'b')
    world.server.patch({ kind: 'Pod', namespace: 'shop', name: 'a', merge: { status: { phase: 'Failed' } } })
    await world.settle()
    expect(world.table('Pod').log).toStrictEqual(['delete c/shop/a'])
  })

  test('only the mesh ConfigMap of the system namespace is read', async () => {
    const map = (name: string, namespace: string) => ({
      kind: 'ConfigMap',
      metadata: { name, namespace },
      data: { mesh: name },
    })
    const world = await createWorld({
      prepare: (server) =>
        server.upsert(map('istio', 'istio-system'), map('istio', 'other'), map('more', 'istio-system')),
    })
    expect([...world.table('ConfigMap').rows.keys()]).toStrictEqual(['c/istio-system/istio'])
  })

  test('a pod that came back under its name with another uid is the new one, whole', async () => {
    const world = await startWithPods('a')
    world.server.relist(['Pod'], () => {
      world.server.remove({ kind: 'Pod', namespace: 'shop', name: 'a' })
      world.server.upsert(makePod('a', '10.0.0.9', { uid: 'another' }))
    })
    await world.settle()
    expect([...world.table('Pod').rows.values()].map((p) => [p.uid, p.ips])).toStrictEqual([['another', ['10.0.0.9']]])
  })
})

describe('a long list comes in pages', () => {
  test('and is put in place as one', async () => {
    const world = await createWorld({
      prepare: (server) => {
        server.upsert(makePod('a', '10.0.0.1'), makePod('b', '10.0.0.2'), makePod('c', '10.0.0.3'))
        server.pages(['Pod'], { size: 2 })
      },
    })
    expect(podRequests(world)).toStrictEqual({ list: 2, watch: 1, any: 3 })
    expect(world.table('Pod').log).toStrictEqual(['replace c/shop/a c/shop/b c/shop/c'])
  })

  test.each([410, 500])(
    'and a page that fails with %i makes it start anew, with nothing lost on the way',
    async (status) => {
      const world = await startWithPods('a', 'b', 'c')
      world.server.pages(['Pod'], { size: 2, failAfter: 1, with: status })
      world.server.relist(['Pod'], () => {
        world.server.remove({ kind: 'Pod', namespace: 'shop', name: 'c' })
        world.server.upsert(makePod('d', '10.0.0.4'), makePod('e', '10.0.0.5'))
      })
      await world.settle()
      expect(world.table('Pod').log).toStrictEqual([])
      expect(podRequests(world)).toStrictEqual({ list: 2, watch: 0, any: 2 })
      await world.advance(kubeLimits.backoffMaxMs)
      expect(world.table('Pod').log).toStrictEqual(['replace c/shop/a c/shop/b c/shop/d c/shop/e'])
      expect(podRequests(world)).toStrictEqual({ list: 4, watch: 1, any: 5 })
    },
  )

  test('and what happens between two pages is not missed', async () => {
    const world = await startWithPods('a', 'b', 'c')
    world.server.pages(['Pod'], { size: 2 })
    world.server.relist(['Pod'])
    await until(() => podRequests(world).list >= 1, 'the first page')
    world.server.upsert(makePod('d', '10.0.0.4'))
    await world.settle()
    expect(pods(world)).toStrictEqual(['a 10.0.0.1', 'b 10.0.0.2', 'c 10.0.0.3', 'd 10.0.0.4'])
  })
})

describe('history that is gone leads to a new list that is compared', () => {
  test('when the open watch says so', async () => {
    const world = await startWithPods('a', 'b')
    world.server.relist(['Pod'], () => {
      world.server.remove({ kind: 'Pod', namespace: 'shop', name: 'b' })
      world.server.upsert(makePod('c', '10.0.0.3'))
    })
    await world.settle()
    expect(world.table('Pod').log).toStrictEqual(['replace c/shop/a c/shop/c'])
    expect(podRequests(world)).toStrictEqual({ list: 1, watch: 1, any: 2 })
  })

  test('when opening a watch is answered so', async () => {
    const world = await startWithPods('a', 'b')
    world.server.watch(['Pod'], 'goneOnConnect')
    world.server.remove({ kind: 'Pod', namespace: 'shop', name: 'b' })
    await world.advance(kubeLimits.backoffMaxMs)
    expect(world.table('Pod').log).toStrictEqual(['replace c/shop/a'])
    expect(podRequests(world)).toStrictEqual({ list: 1, watch: 2, any: 3 })
  })

  test('and a server that says so each time is asked about once a second at most', async () => {
    const world = await startWithPods('a')
    const end = world.clock.now() + 10_000
    while (world.clock.now() < end) {
      world.server.relist(['Pod'])
      await world.advance(400)
    }
    expect(podRequests(world).list).toBeLessThanOrEqual(10)
    expect(podRequests(world).list).toBeGreaterThanOrEqual(2)
  })

  test('so does any other error inside a watch, and bytes that are no event', async () => {
    const world = await startWithPods('a')
    world.server.failWatches(['Pod'], 500, 'InternalError')
    await world.advance(5_000)
    world.server.writeRaw(['Pod'], '{"type": "ADDED", "object": \n')
    await world.advance(5_000)
    expect(world.table('Pod').log).toStrictEqual(['replace c/shop/a', 'replace c/shop/a'])
    expect(podRequests(world)).toStrictEqual({ list: 2, watch: 2, any: 4 })
  })
})

describe('a watch that ends is resumed without a list', () => {
  test.each(['close', 'reset'] as const)('after a %s', async (how) => {
    const world = await startWithPods('a', 'b')
    world.server.watch(['Pod'], how)
    world.server.remove({ kind: 'Pod', namespace: 'shop', name: 'b' })
    await world.settle()
    expect(world.table('Pod').log).toStrictEqual(['delete c/shop/b'])
    expect(podRequests(world)).toStrictEqual({ list: 0, watch: 1, any: 1 })
  })

  test('from the version of the last bookmark', async () => {
    const world = await startWithPods('a')
    world.server.upsert(makeObject('Service', 's'))
    world.server.bookmark(['Pod'])
    await world.settle()
    expect(world.feed.seen('Pod')).toBe(String(world.server.store.version))
    world.server.store.compact('Pod')
    world.server.watch(['Pod'], 'close')
    await world.settle()
    expect(podRequests(world)).toStrictEqual({ list: 0, watch: 1, any: 1 })
  })

  test('a server that ends each watch at once is asked about once a second at most', async () => {
    const world = await startWithPods('a')
    const end = world.clock.now() + 10_000
    while (world.clock.now() < end) {
      world.server.watch(['Pod'], 'close')
      await world.advance(400)
    }
    expect(podRequests(world).list).toBe(0)
    expect(podRequests(world).watch).toBeLessThanOrEqual(10)
  })

  test('each watch ends by itself after some minutes', async () => {
    const world = await startWithPods('a')
    await world.advance(2 * kubeLimits.watchTimeoutSeconds * 1000)
    expect(podRequests(world)).toStrictEqual({ list: 0, watch: 1, any: 1 })
  })

  test('a server that restarts is found again, on kept and on new connections', async () => {
    const world = await startWithPods('a')
    await world.server.stop()
    world.server.store.put(makePod('b', '10.0.0.2'))
    await world.advance(5_000)
    await world.server.start()
    await world.advance(kubeLimits.backoffMaxMs)
    expect(pods(world)).toStrictEqual(['a 10.0.0.1', 'b 10.0.0.2'])
    expect(podRequests(world)).toStrictEqual({ list: 0, watch: 1, any: 1 })
  })
})

describe('a watch that is silent for too long is not trusted', () => {
  test('and what it missed is found without a list, other kinds undisturbed', async () => {
    const world = await startWithPods('a', 'b')
    world.server.watch(['Pod'], 'silent')
    world.server.remove({ kind: 'Pod', namespace: 'shop', name: 'b' })
    world.server.upsert(makePod('c', '10.0.0.3'), makeObject('Service', 's'))
    await world.settle()
    expect([pods(world), world.table('Service').size]).toStrictEqual([['a 10.0.0.1', 'b 10.0.0.2'], 1])
    await world.advance(kubeLimits.watchdogMs + 1)
    expect(world.table('Pod').log).toStrictEqual(['delete c/shop/b', 'set c/shop/c'])
    expect(podRequests(world)).toStrictEqual({ list: 0, watch: 1, any: 1 })
    expect(world.server.requests('Service')).toStrictEqual({ list: 0, watch: 0, any: 0 })
  })

  test('a second silence leads to a list', async () => {
    const world = await startWithPods('a')
    world.server.watch(['Pod'], 'silent')
    await world.advance(kubeLimits.watchdogMs)
    world.server.watch(['Pod'], 'silent')
    await world.advance(kubeLimits.watchdogMs)
    expect(podRequests(world)).toStrictEqual({ list: 1, watch: 2, any: 3 })
  })

  test('bookmarks are enough to be trusted', async () => {
    const world = await startWithPods('a')
    await world.advance(kubeLimits.watchTimeoutSeconds * 1000)
    expect(podRequests(world)).toStrictEqual({ list: 0, watch: 0, any: 0 })
  })
})

describe('an API server that answers with errors', () => {
  test('is asked at growing intervals, and what is known stays', async () => {
    const world = await startWithPods('a', 'b')
    world.server.watch(['Pod'], 'refuse', 503)
    world.server.remove({ kind: 'Pod', namespace: 'shop', name: 'a' })
    await world.advance(10_000)
    expect(world.table('Pod').log).toStrictEqual([])
    expect(podRequests(world).any).toBeLessThanOrEqual(6)
    world.server.watch(['Pod'], 'resume')
    await world.advance(kubeLimits.backoffMaxMs)
    expect(world.table('Pod').log).toStrictEqual(['delete c/shop/a'])
    expect(podRequests(world).list).toBe(0)
  })

  test('and asks to wait is given the time it asks for', async () => {
    const world = await createWorld({
      wait: false,
      prepare: (server) => server.api({ verb: 'list', kind: 'Pod', answer: 429, retryAfterSeconds: 20 }),
    })
    await world.advance(19_900)
    expect(podRequests(world).list).toBe(1)
    await world.advance(200)
    expect(podRequests(world).list).toBe(2)
    await world.feed.synced
  })

  test.each([401, 403])('because it denies access with %i is reported with what is missing', async (status) => {
    const world = await createWorld({
      wait: false,
      prepare: (server) => server.api({ verb: 'list', kind: 'EndpointSlice', answer: status }),
    })
    await until(() => world.logs.some((l) => l.level === 'error'), 'an error is logged')
    const { fields, message } = world.logs.find((l) => l.level === 'error')!
    expect([message, fields.verb, fields.resource, fields.hint]).toStrictEqual([
      'the API server denies access',
      'list',
      'endpointslices.discovery.k8s.io',
      'grant list and watch on endpointslices.discovery.k8s.io to the account this program runs as',
    ])
    await world.settle()
    expect(world.feed.pending()).toStrictEqual(['EndpointSlice'])
    await world.advance(kubeLimits.backoffMaxMs)
    expect(world.feed.pending()).toStrictEqual([])
  })

  test('or does not answer a list is given up after a while and asked again', async () => {
    const world = await createWorld({
      wait: false,
      prepare: (server) => server.api({ verb: 'list', kind: 'Pod', answer: 'timeout' }),
    })
    await world.advance(kubeLimits.listTimeoutMs - 1)
    expect([podRequests(world).list, world.feed.pending()]).toStrictEqual([1, ['Pod']])
    await world.advance(kubeLimits.backoffMaxMs)
    expect([podRequests(world).list, world.feed.pending()]).toStrictEqual([2, []])
  })

  test('or does not answer the opening of a watch, likewise', async () => {
    const world = await startWithPods('a')
    world.server.api({ verb: 'watch', kind: 'Pod', answer: 'timeout' })
    world.server.watch(['Pod'], 'close')
    world.server.upsert(makePod('b', '10.0.0.2'))
    await world.advance(kubeLimits.connectTimeoutMs + kubeLimits.backoffMaxMs)
    expect(pods(world)).toStrictEqual(['a 10.0.0.1', 'b 10.0.0.2'])
    expect(podRequests(world)).toStrictEqual({ list: 0, watch: 2, any: 2 })
  })

  test('holds back one kind: the feed is synced only when that was read, too', async () => {
    const world = await createWorld({ wait: false, prepare: (server) => server.watch(['EndpointSlice'], 'hold') })
    await world.advance(20_000)
    expect(world.feed.pending()).toStrictEqual(['EndpointSlice'])
    world.server.watch(['EndpointSlice'], 'resume')
    await world.settle()
    expect(world.feed.pending()).toStrictEqual([])
    await world.feed.synced
  })
})

describe('a kind without a definition', () => {
  test('counts as empty, and is read soon after the definition appears', async () => {
    const world = await createWorld({ absent: ['Gateway', 'GatewayClass'] })
    expect([world.table('Gateway').log, world.server.requests('Gateway')]).toStrictEqual([
      ['replace'],
      { list: 0, watch: 0, any: 0 },
    ])
    world.server.define('Gateway')
    world.server.upsert(makeObject('Gateway', 'g'))
    await world.advance(kubeLimits.absentRecheckMs)
    expect([...world.table('Gateway').rows.keys()]).toStrictEqual(['c/shop/g'])
    expect(world.server.openWatches('Gateway')).toBe(1)
    // The other kind of the group is still not there: it is asked for at each look.
    expect(world.table('GatewayClass').size).toBe(0)
  })

  test('is empty again when the definition goes', async () => {
    const world = await createWorld({ prepare: (server) => server.upsert(makeObject('ServiceEntry', 'e')) })
    expect(world.table('ServiceEntry').size).toBe(1)
    world.server.undefine('ServiceEntry')
    await world.advance(kubeLimits.absentRecheckMs)
    expect([world.table('ServiceEntry').size, world.feed.pending()]).toStrictEqual([0, []])
  })

  test('is not believed gone at the first word when there are objects', async () => {
    const world = await createWorld({ prepare: (server) => server.upsert(makeObject('ServiceEntry', 'e')) })
    world.server.api({ verb: 'watch', kind: 'ServiceEntry', answer: 404 })
    world.server.api({ verb: 'list', kind: 'ServiceEntry', answer: 404 })
    world.server.watch(['ServiceEntry'], 'close')
    await world.advance(kubeLimits.backoffMaxMs)
    expect(world.table('ServiceEntry').log).toStrictEqual(['replace c/shop/e', 'replace c/shop/e'])
  })

  test('is read in an older version when the server has no newer one', async () => {
    const world = await createWorld({
      unserved: ['networking.istio.io/v1', 'networking.istio.io/v1beta1', 'gateway.networking.k8s.io/v1'],
      prepare: (server) => server.upsert(makeObject('ServiceEntry', 'e'), makeObject('Gateway', 'g')),
    })
    expect([world.table('ServiceEntry').size, world.table('Gateway').size]).toStrictEqual([1, 1])
    expect(world.server.requests('ServiceEntry')).toStrictEqual({ list: 1, watch: 1, any: 2 })
  })
})

describe('an object that cannot be read', () => {
  const broken = makeObject('ServiceEntry', 'bad', { spec: { hosts: 'not a list' } })
  const warnings = (world: World): unknown[] =>
    world.logs.filter((l) => l.level === 'warn').map((l) => [l.message, l.fields.kind, l.fields.object, l.fields.error])
  const warning = [
    'an object cannot be read and is skipped',
    'ServiceEntry',
    'c/shop/bad',
    'ServiceEntry shop/bad: spec.hosts must be a list, it is a string',
  ]

  test('is skipped with one warning, in a list and in an event', async () => {
    const world = await createWorld({ prepare: (server) => server.upsert(broken, makeObject('ServiceEntry', 'good')) })
    expect([...world.table('ServiceEntry').rows.keys()]).toStrictEqual(['c/shop/good'])
    world.server.patch({
      kind: 'ServiceEntry',
      namespace: 'shop',
      name: 'bad',
      merge: { metadata: { labels: { a: 'b' } } },
    })
    world.server.relist(['ServiceEntry'])
    await world.settle()
    expect(warnings(world)).toStrictEqual([warning])
  })

  test('keeps its last good row, and takes the next good one', async () => {
    const good = makeObject('ServiceEntry', 'bad', { spec: { hosts: ['a'] } })
    const world = await createWorld({ prepare: (server) => server.upsert(good) })
    const hosts = (): unknown => world.table('ServiceEntry').get('c/shop/bad')?.hosts
    world.server.upsert(broken)
    await world.settle()
    expect(hosts()).toStrictEqual(['a'])
    world.server.relist(['ServiceEntry'])
    await world.settle()
    expect([hosts(), warnings(world)]).toStrictEqual([['a'], [warning]])
    world.server.upsert({ ...good, spec: { hosts: ['b'] } })
    await world.settle()
    expect(hosts()).toStrictEqual(['b'])
  })

  test('loses it when another object has taken the name', async () => {
    const good = makeObject('ServiceEntry', 'bad', { spec: { hosts: ['a'] } })
    const world = await createWorld({ prepare: (server) => server.upsert(good) })
    world.server.upsert({ ...broken, metadata: { ...broken.metadata, uid: 'another' } })
    await world.settle()
    expect(world.table('ServiceEntry').size).toBe(0)
  })
})

test('an address that is none is told once, with the object, and again when it is another', async () => {
  const gateway = (value: string): ReturnType<typeof makeObject> =>
    makeObject('Gateway', 'door', { status: { addresses: [{ type: 'IPAddress', value }] } })
  const world = await createWorld({ prepare: (server) => server.upsert(gateway('10.0.0.300')) })
  world.server.relist(['Gateway'])
  await world.settle()
  for (const value of ['10.0.0.3', '10.0.0.301']) {
    world.server.upsert(gateway(value))
    await world.settle()
  }
  expect(world.logs.filter((l) => l.level === 'warn').map((l) => [l.message, l.fields])).toStrictEqual(
    ['10.0.0.300', '10.0.0.301'].map((text) => [
      'an object has an address that is none',
      expect.objectContaining({
        kind: 'Gateway',
        object: 'c/shop/door',
        reason: `status.addresses has "${text}", which is no address`,
      }),
    ]),
  )
})

test('events are counted under the names that operators know', async () => {
  const world = await startWithPods('a', 'b')
  world.server.upsert(makePod('c', '10.0.0.3'), makeObject('ServiceEntry', 'e'))
  world.server.remove({ kind: 'Pod', namespace: 'shop', name: 'a' })
  await world.settle()
  const counted = async (name: string): Promise<unknown[]> =>
    ((await world.registry.getSingleMetric(name)?.get())?.values ?? []).map((v) => [
      v.labels.type,
      v.labels.event,
      v.value,
    ])
  expect(await counted('pilot_k8s_reg_events')).toStrictEqual([
    ['Pods', 'add', 3],
    ['Pods', 'delete', 1],
  ])
  expect(await counted('pilot_k8s_cfg_events')).toStrictEqual([['ServiceEntry', 'add', 1]])
})

test('stopping ends every request and leaves no timer', async () => {
  const world = await startWithPods('a')
  await world.stop()
  expect(world.clock.pending).toBe(0)
})
