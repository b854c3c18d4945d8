// SPDX-License-Identifier: Apache-2.0
// The fake ztunnel as a program: killed, started anew, inside real namespaces.

import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, expect, test } from '@jest/globals'
import { Registry } from 'prom-client'
import { systemClock } from '../../../src/base/clock.js'
import { silentLogger } from '../../../src/base/log.js'
import { createXdsServer } from '../../../src/xds/server.js'
import { Room } from '../../address/room.js'
import { openNetnsFile } from '../../../src/node-agent/netns/handle.js'
import { FakeNodeZtunnel } from '../../support/fake-node-ztunnel.js'
import { hostParts } from '../../support/host-parts.js'
import { testWith } from '../../support/optional.js'
import { createTestNetworks } from '../../support/test-netns.js'
import { ZdsRoom, toPod } from './zds-room.js'

const program = fileURLToPath(new URL('../../support/run-fake-ztunnel.mjs', import.meta.url))
const networks = createTestNetworks()
const children: ChildProcess[] = []
const rooms: ZdsRoom[] = []

afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
  for (const room of rooms.splice(0)) room.close()
})
afterAll(() => networks.close())

function openRoom(): ZdsRoom {
  const room = new ZdsRoom().open()
  rooms.push(room)
  return room
}

function start(room: ZdsRoom, ...flags: string[]): { child: ChildProcess; said: () => string } {
  const child = spawn(process.execPath, [program, '--zds', room.path, ...flags], { stdio: ['pipe', 'pipe', 'inherit'] })
  children.push(child)
  let said = ''
  child.stdout.on('data', (chunk) => (said += String(chunk)))
  return { child, said: () => said }
}

const exitOf = (child: ChildProcess): Promise<number | null> =>
  new Promise((resolve) => child.once('exit', (code) => resolve(code)))

test('a ztunnel that is killed and started anew ends with the right set, and is known to be another process', async () => {
  const room = openRoom()
  const netns = room.want(toPod(1))
  const first = start(room, '--answers', 'uid-2=error:no,uid-3=after:10')
  await room.until(() => room.server.ready === 1)
  expect([...room.server.held()].map(([uid, held]) => [uid, held?.inode])).toEqual([['uid-1', netns?.inode]])
  await expect(room.enrol(toPod(2))).rejects.toThrow('no')
  await room.enrol(toPod(3))
  first.child.kill('SIGKILL')
  await room.until(() => room.server.connected === 0)
  room.wantWithout(toPod(1))
  const second = start(room)
  await room.until(() => room.server.ready === 1)
  // The dead process held uid-1; this one cannot, whatever it keeps.
  expect([...room.server.held().keys()].sort()).toEqual(['uid-2', 'uid-3'])
  await room.until(() => second.said().includes('"isReady":true'))
  const states = second.said().trim().split('\n')
  expect(JSON.parse(states.at(-1) ?? '')).toMatchObject({ isReady: true, connections: 1, pending: [] })
  const ended = exitOf(second.child)
  second.child.kill('SIGTERM')
  expect(await ended).toBe(0)
})

test('the program obeys what is said to it', async () => {
  const room = openRoom()
  const { child } = start(room)
  await room.until(() => room.server.ready === 1)
  child.stdin?.write('answer uid-1 error:taken\n')
  child.stdin?.write('say 0a00\n')
  await room.until(() => room.lines('warn').length > 0)
  expect(room.lines('warn')).toMatchObject([{ why: 'ztunnel spoke unasked' }])
  await room.until(() => room.server.ready === 1)
  await expect(room.enrol(toPod(1))).rejects.toThrow('taken')
})

test('the program speaks both wires: it asks a control plane for addresses', async () => {
  const settings = {
    clusterId: 'Kubernetes',
    systemNamespace: 'istio-system',
    domain: 'cluster.local',
    revision: 'default',
  }
  const { store } = new Room(settings).address
  const xds = createXdsServer({ store, clock: systemClock, log: silentLogger, registry: new Registry() })
  const { port } = await xds.listen({ host: '127.0.0.1', port: 0 })
  const room = openRoom()
  const { child, said } = start(room, '--xds', `127.0.0.1:${port}`)
  await room.until(() => room.server.ready === 1)
  child.stdin?.write('resolve /10.9.8.7\n')
  await room.until(() => said().includes('resolved'))
  expect(said()).toContain('{"resolved":[]}')
  const ended = exitOf(child)
  child.kill('SIGTERM')
  await ended
  await xds.close()
})

testWith('root', hostParts.netns)(
  'it listens inside the namespaces that it is given, until they are taken away',
  async () => {
    const room = openRoom()
    const place = networks.add('fake')
    const netns = openNetnsFile(place.path)
    room.wanted.set('uid-1', { pod: toPod(1), netns })
    start(room, '--listeners')
    await room.until(() => room.server.ready === 1)
    const listening = (): string[] => {
      const lines = place.run(['ss', '-Hltn']).trim().split('\n')
      return lines.flatMap((line) => /:(\d+)\s/.exec(line)?.[1] ?? []).sort()
    }
    expect(listening()).toEqual(['15001', '15006', '15008'])
    // A second one beside it, as in an upgrade.
    const second = new FakeNodeZtunnel({ zds: room.path, listeners: true })
    second.start()
    await second.until(({ isReady }) => isReady)
    expect(second.runInside('uid-1', ['ip', '-o', 'link']).trim()).toMatch(/^1: lo:/)
    expect(listening()).toHaveLength(6)
    second.stop()
    room.wanted.delete('uid-1')
    await room.until(() => room.server.connected === 1)
    await room.server.remove('uid-1')
    netns.close()
    expect(listening()).toEqual([])
  },
)
