// SPDX-License-Identifier: Apache-2.0
// The conversations of the tests with a real ztunnel, held by a fake one, so that every machine holds them.

import { afterEach, describe, expect, test } from '@jest/globals'
import type { KubeObject } from '../address/room.js'
import { FakeZtunnel } from '../support/fake-ztunnel.js'
import { toExpected } from './expected.js'
import { nameOf, namespace, pod, service } from './objects.js'
import { Room } from './room.js'
import { script } from './script.js'
import { until } from './ztunnel.js'

let room: Room | undefined
let fake: FakeZtunnel | undefined
afterEach(async () => {
  fake?.close()
  await room?.close()
})

async function start(objects: readonly KubeObject[], onDemand: boolean): Promise<FakeZtunnel> {
  room = await Room.open(objects)
  const port = room.server.bound.secureGrpc?.port ?? 0
  const token = await room.token('istio-system', 'ztunnel')
  fake = new FakeZtunnel({ port, root: room.root, token, node: 'node1', onDemand })
  await fake.ready()
  return fake
}

async function untilHeld(ztunnel: FakeZtunnel, isSo: (names: readonly string[]) => boolean): Promise<void> {
  const names = (): string[] =>
    toExpected(ztunnel.store()).workloads.map((workload) => (workload as { uid: string }).uid)
  await until(
    () => Promise.resolve(isSo(names())),
    () => `what it holds: ${names().join()}`,
  )
}

const uid = (name: string): string => `Kubernetes//Pod/a/${name}`
const target = pod('a/target', { ip: '10.1.1.2', node: 'node2' })
const second = pod('a/second', { ip: '10.1.1.3', node: 'node2', labels: { app: 'target' } })
const objects = [namespace('a'), pod('a/web', { ip: '10.1.0.1' }), target, service('a/target', '10.96.0.2')]
const hostname = 'a/target.a.svc.cluster.local'

describe('a fake ztunnel', () => {
  test(`holds what we serve after each of ${script.length} changes`, async () => {
    const ztunnel = await start([namespace('a')], false)
    for (const [index, [what, changed, gone = []]] of script.entries()) {
      const ip = `10.99.0.${index + 1}`
      room!.change([...changed, pod('beat/beat', { ip })], gone.map(nameOf))
      await until(
        () => Promise.resolve(JSON.stringify(toExpected(ztunnel.store())).includes(`"${ip}"`)),
        () => what,
      )
      expect({ what, ...toExpected(ztunnel.store()) }).toEqual({ what, ...room!.expected() })
    }
  })

  test('that asks on demand waits for nothing: addresses of pods and services, and those that nobody has', async () => {
    const ztunnel = await start(objects, true)
    expect(await ztunnel.resolve('/10.1.1.2')).toEqual([uid('target')])
    expect(await ztunnel.resolve('/10.96.0.2')).toEqual([hostname])
    for (let count = 0; count < 3; count++) expect(await ztunnel.resolve('/10.55.0.9')).toEqual([])
    await untilHeld(ztunnel, (names) => names.join() === [uid('target'), uid('web')].join())
  })

  test('that asks on demand is told of a late owner, of members that join and leave, over a restart too', async () => {
    const ztunnel = await start(objects, true)
    expect(await ztunnel.resolve('/10.55.0.9')).toEqual([])
    expect(await ztunnel.resolve('/10.96.0.2')).toEqual([hostname])
    room!.change([pod('a/late', { ip: '10.55.0.9', node: 'node2' }), second])
    await untilHeld(ztunnel, (names) => names.includes(uid('late')) && names.includes(uid('second')))
    await room!.stopServer(room!.server)
    room!.change([], [nameOf(target)])
    const server = await room!.startServer()
    await ztunnel.reconnect(server.bound.secureGrpc?.port ?? 0)
    await untilHeld(ztunnel, (names) => !names.includes(uid('target')))
    expect(toExpected(ztunnel.store())).toEqual(room!.expected())
  })
})
