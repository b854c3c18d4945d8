// SPDX-License-Identifier: Apache-2.0
// Which kinds a feed asks an API server for, and which pods: all of the mesh, or what one node needs.

import { afterEach, describe, expect, test } from '@jest/globals'
import { kinds } from '../../src/kube/inputs.js'
import { createWorld, makePod, stopWorlds, type World } from './support-reflect.js'

afterEach(stopWorlds)

const onNode = (nodeName: string | undefined, name: string, phase = 'Running'): any => {
  const pod = makePod(name, '10.0.0.1', { phase })
  return { ...pod, spec: { ...pod.spec, nodeName } }
}

const ofNode = { kinds: ['Namespace', 'Pod', 'ConfigMap'], node: 'node-1' } as const

const pods = (world: World): string[] =>
  [...world.table('Pod').rows.values()].map(({ name, phase }) => `${name} ${phase}`).sort()

function requests(world: World): Record<string, object> {
  const all = kinds.map((kind) => [kind, world.server.requests(kind)] as const)
  return Object.fromEntries(all.filter(([, { any }]) => any > 0))
}

describe('kinds', () => {
  test('are all asked for when none are named', async () => {
    const world = await createWorld()
    expect(Object.keys(requests(world))).toStrictEqual([...kinds])
  })

  test('that are not named are not asked for, and nobody waits for them', async () => {
    const world = await createWorld({
      only: ofNode,
      prepare: (server) => {
        server.upsert({ kind: 'Namespace', metadata: { name: 'shop' } }, onNode('node-1', 'a'))
        server.upsert({ kind: 'Service', metadata: { name: 'web', namespace: 'shop' }, spec: {} })
      },
    })
    const once = { list: 1, watch: 1, any: 2 }
    expect(requests(world)).toStrictEqual({ Namespace: once, Pod: once, ConfigMap: once })
    expect(world.table('Namespace').log).toStrictEqual(['replace c/shop'])
    expect(world.table('Service').log).toStrictEqual([])
    expect(world.feed.pending()).toStrictEqual([])
    expect([world.feed.seen('Service'), world.feed.seen('Pod') === '']).toStrictEqual(['', false])
  })

  test('are waited for by name', async () => {
    const world = await createWorld({ only: ofNode, wait: false, prepare: (server) => server.watch(['Pod'], 'hold') })
    await world.settle()
    expect(world.feed.pending()).toStrictEqual(['Pod'])
  })
})

describe('pods of one node', () => {
  const prepare = (server: World['server']): void => {
    server.upsert(onNode('node-1', 'mine'), onNode('node-2', 'far'), onNode(undefined, 'waiting', 'Pending'))
    server.upsert(onNode('node-1', 'done', 'Succeeded'), onNode('node-1', 'broken', 'Failed'))
  }

  test('are those bound to it, finished ones too', async () => {
    const world = await createWorld({ only: ofNode, prepare })
    expect(pods(world)).toStrictEqual(['broken Failed', 'done Succeeded', 'mine Running'])
  })

  test('come when they are bound, and are seen to fail', async () => {
    const world = await createWorld({ only: ofNode, prepare })
    world.table('Pod').log.length = 0
    const at = { kind: 'Pod', namespace: 'shop' }
    world.server.patch({ ...at, name: 'waiting', merge: { spec: { nodeName: 'node-1' } } })
    world.server.patch({ ...at, name: 'far', merge: { status: { phase: 'Failed' } } })
    world.server.patch({ ...at, name: 'mine', merge: { status: { phase: 'Failed' } } })
    await world.settle()
    expect(world.table('Pod').log).toStrictEqual(['set c/shop/waiting', 'set c/shop/mine'])
    expect(pods(world)).toStrictEqual(['broken Failed', 'done Succeeded', 'mine Failed', 'waiting Pending'])
  })

  test('go when they are bound to another one', async () => {
    const world = await createWorld({ only: ofNode, prepare })
    world.table('Pod').log.length = 0
    const moved = { kind: 'Pod', namespace: 'shop', name: 'mine', merge: { spec: { nodeName: 'node-2' } } }
    world.server.patch(moved)
    await world.settle()
    expect(world.table('Pod').log).toStrictEqual(['delete c/shop/mine'])
  })

  test('without a node are all but the failed ones', async () => {
    const world = await createWorld({ only: { kinds: ['Pod'] }, prepare })
    expect(pods(world)).toStrictEqual(['done Succeeded', 'far Running', 'mine Running', 'waiting Pending'])
  })
})
