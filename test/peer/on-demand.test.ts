// SPDX-License-Identifier: Apache-2.0
// A real ztunnel that asks only for what its connections need: every way of asking is answered, so that no connection waits for ever.

import { afterEach, describe, expect } from '@jest/globals'
import type { Socket } from 'node:net'
import { testWith } from '../support/optional.js'
import { namespace, nameOf, pod, service } from './objects.js'
import { expectHeld, expectReady, Room } from './room.js'
import { until, whyNoZtunnel, type Ztunnel } from './ztunnel.js'

const maybe = testWith('ztunnel', whyNoZtunnel())

let room: Room | undefined
afterEach(async () => {
  await room?.close()
  room = undefined
})

const appPort = 8080
/** Says what it hears, with a greeting before it. */
const echo = (socket: Socket): void =>
  void socket.on('data', (bytes: Buffer) => socket.end(`heard ${bytes.toString()}`))

const caller = pod('a/web', { ip: '10.1.0.1' })
/** Addresses that lead to the application, whoever has them. */
const addresses = ['10.1.1.2', '10.1.1.3', '10.55.0.9']
const target = pod('a/target', { ip: '10.1.1.2', node: 'node2', captured: false })
const second = pod('a/second', { ip: '10.1.1.3', node: 'node2', captured: false, labels: { app: 'target' } })
const targetService = service('a/target', '10.96.0.2')

async function start(): Promise<Ztunnel> {
  room = await Room.open([namespace('a'), caller, target, targetService])
  const space = await room.openSpace({ [appPort]: echo })
  for (const ip of addresses) space.run('ip', 'addr', 'add', `${ip}/32`, 'dev', 'lo')
  const ztunnel = room.startZtunnel(space, {
    PROXY_MODE: 'dedicated',
    PROXY_WORKLOAD_INFO: 'a/web/web',
    AUTH_TOKEN: await room.token('istio-system', 'ztunnel'),
    XDS_ON_DEMAND: 'true',
    ISTIO_META_DNS_CAPTURE: 'false',
    UNSTABLE_ENABLE_SOCKS5: 'true',
  })
  await expectReady(ztunnel)
  await expectHeld(ztunnel, () => room!.expected('node1'))
  return ztunnel
}

const uidsOf = async (ztunnel: Ztunnel): Promise<unknown[]> =>
  (await ztunnel.held()).workloads.map((workload) => (workload as { uid: string }).uid)

describe('a real ztunnel that asks on demand', () => {
  maybe('reaches a pod by its address the first time, and is told of the pod', async () => {
    const ztunnel = await start()
    expect(await ztunnel.ask('10.1.1.2', appPort, 'hello')).toBe('heard hello')
    expect(await uidsOf(ztunnel)).toEqual(['Kubernetes//Pod/a/target', 'Kubernetes//Pod/a/web'])
  })

  maybe('reaches a service by its virtual address the first time, members included', async () => {
    const ztunnel = await start()
    expect(await ztunnel.ask('10.96.0.2', 80, 'hello')).toBe('heard hello')
    const { services } = await ztunnel.held()
    expect(services).toMatchObject([{ hostname: 'target.a.svc.cluster.local' }])
    expect(services).toEqual(room!.expected().services)
  })

  maybe('passes a connection to an address that nobody has through, again and again', async () => {
    const ztunnel = await start()
    for (const word of ['one', 'two', 'three']) {
      expect(await ztunnel.ask('10.55.0.9', appPort, word)).toBe(`heard ${word}`)
    }
    expect(await uidsOf(ztunnel)).toEqual(['Kubernetes//Pod/a/web'])
  })

  maybe('is told, unasked, when an address that it missed gets an owner', async () => {
    const ztunnel = await start()
    expect(await ztunnel.ask('10.55.0.9', appPort, 'before')).toBe('heard before')
    room!.change([pod('a/late', { ip: '10.55.0.9', node: 'node2', captured: false })])
    await until(
      async () => (await uidsOf(ztunnel)).includes('Kubernetes//Pod/a/late'),
      () => 'the new owner',
    )
    expect(await ztunnel.ask('10.55.0.9', appPort, 'after')).toBe('heard after')
  })

  maybe('is told, unasked, of a pod that joins a service it asked for, and of one that leaves', async () => {
    const ztunnel = await start()
    expect(await ztunnel.ask('10.96.0.2', 80, 'hello')).toBe('heard hello')
    room!.change([second])
    await until(
      async () => (await uidsOf(ztunnel)).includes('Kubernetes//Pod/a/second'),
      () => 'the member that joined',
    )
    room!.change([], [nameOf(target)])
    await until(
      async () => !(await uidsOf(ztunnel)).includes('Kubernetes//Pod/a/target'),
      () => 'the member that left',
    )
    const { services } = await ztunnel.held()
    expect(services).toEqual(room!.expected().services)
    expect(await ztunnel.ask('10.96.0.2', 80, 'again')).toBe('heard again')
  })

  maybe('keeps what it asked for over a restart of addressd, and is told what changed meanwhile', async () => {
    const ztunnel = await start()
    expect(await ztunnel.ask('10.96.0.2', 80, 'hello')).toBe('heard hello')
    await room!.stopServer(room!.server)
    room!.change([second], [nameOf(target)])
    await room!.startServer()
    await until(
      async () => (await uidsOf(ztunnel)).join() === 'Kubernetes//Pod/a/second,Kubernetes//Pod/a/web',
      () => 'what changed',
    )
    expect((await ztunnel.held()).services).toEqual(room!.expected().services)
    expect(await ztunnel.ask('10.55.0.9', appPort, 'unknown')).toBe('heard unknown')
  })
})
