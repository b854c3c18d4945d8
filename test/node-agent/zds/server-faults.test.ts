// SPDX-License-Identifier: Apache-2.0
// ztunnels that break rules, are slow, restart or are nobody's: each costs only itself.

import { spawn } from 'node:child_process'
import { chmodSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { Retryable } from '../../../src/base/errors.js'
import type { ProcessIdentity, Processes } from '../../../src/node-agent/zds/processes.js'
import { FakeClock } from '../../support/fake-clock.js'
import { hostParts } from '../../support/host-parts.js'
import { testWith } from '../../support/optional.js'
import { ZdsRoom, countDescriptors, toPod } from './zds-room.js'

let rooms: ZdsRoom[]
let descriptorsBefore: number

beforeEach(() => {
  rooms = []
  descriptorsBefore = countDescriptors()
})

afterEach(() => {
  for (const room of rooms) room.close()
  expect(countDescriptors()).toBe(descriptorsBefore)
})

function openRoom(options: ConstructorParameters<typeof ZdsRoom>[0] = {}): ZdsRoom {
  const room = new ZdsRoom(options)
  rooms.push(room)
  return room.open()
}

const outcomeOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => 'done',
    (error: unknown) => (error instanceof Retryable ? `retryable: ${error.message}` : String(error)),
  )

describe('a ZDS server', () => {
  test('closes a connection that does not say hello within five seconds [1.5]', async () => {
    const clock = new FakeClock()
    const room = openRoom({ clock })
    const script = room.script()
    await room.until(() => clock.pending === 1)
    await clock.advance(4999)
    expect(script.waiting).toEqual([])
    await clock.advance(1)
    expect(await script.next()).toBe('end')
    expect(room.lines('warn')).toMatchObject([{ reason: 'timeout', why: 'no hello within 5000 ms' }])
  })

  test('closes a connection whose hello cannot be read, and takes one of another version [1.5]', async () => {
    const room = openRoom()
    const bad = room.script()
    await bad.say('ffff')
    expect(await bad.next()).toBe('end')
    const other = room.script()
    await other.say('0807')
    expect(await other.next()).toEqual({ hex: '1a00', inodes: [] })
  })

  test('closes a connection that does not acknowledge in time, so that no late answer is taken for another [Q-1]', async () => {
    const clock = new FakeClock()
    const room = openRoom({ clock })
    const script = await room.greetedScript()
    const adding = outcomeOf(room.enrol(toPod(1)))
    await script.next()
    await clock.advance(5000)
    expect(await adding).toBe('retryable: the connection to ztunnel is over: no acknowledgement within 5000 ms')
    expect(await script.next()).toBe('end')
    expect(clock.pending).toBe(0)
    expect((await room.metric('addressd_node_zds_messages_total')).at(-1)).toEqual({
      labels: { message: 'add', outcome: 'timeout' },
      value: 1,
    })
  })

  test.each([
    ['silence in a snapshot', 'snapshot', 'silence'],
    ['garbage', 'uid-1', 'garbage'],
    ['an answer longer than it reads', 'uid-1', 'long'],
    ['a second answer', 'uid-1', 'twice'],
    ['the end of the connection', 'uid-1', 'close'],
  ] as const)('lives with %s: ztunnel comes back and ends with the right set', async (_, key, answer) => {
    const room = openRoom({ limits: { ackTimeoutMs: 50 } })
    const ztunnel = room.ztunnel({ answers: { [key]: answer } })
    await room.until(() => room.server.connected === 1)
    const adding = outcomeOf(room.enrol(toPod(1)))
    await adding
    await ztunnel.until(({ connections }) => connections > 1)
    ztunnel.answer(key, 'ok')
    await ztunnel.until(({ isReady, holds }) => isReady && holds.has('uid-1'))
    await room.until(() => room.server.held().has('uid-1'))
    await room.enrol(toPod(2))
    expect([...ztunnel.holds.keys()]).toEqual(['uid-1', 'uid-2'])
  })

  test('closes a connection that speaks unasked, also when an add comes at that moment [Q-1]', async () => {
    const room = openRoom()
    const script = await room.greetedScript()
    await script.say('0a070a057374726179')
    const adding = outcomeOf(room.enrol(toPod(1)))
    expect(await script.next()).toBe('end')
    expect(await adding).toBe('retryable: the connection to ztunnel is over: ztunnel spoke unasked')
  })

  test('closes descriptors that it is sent, and the connection with them', async () => {
    const room = openRoom()
    const script = await room.greetedScript()
    const before = countDescriptors()
    const adding = outcomeOf(room.enrol(toPod(1), room.netns()))
    await script.next()
    await script.say('0a00', room.wanted.get('uid-1')?.netns?.fd)
    expect(await adding).toBe('retryable: the connection to ztunnel is over: ztunnel sent a descriptor')
    script.close()
    // Both ends are gone, the namespace has come.
    expect(countDescriptors()).toBe(before - 2 + 1)
  })

  test('fails what waits on a connection at once when it dies, and one that never answers delays nobody else', async () => {
    const clock = new FakeClock()
    const room = openRoom({ clock })
    const silent = await room.greetedScript()
    const newer = await room.readyZtunnel({ reconnect: false })
    const removing = outcomeOf(room.server.remove('uid-9'))
    const removingToo = outcomeOf(room.server.remove('uid-8'))
    // The older one says nothing to its removal; adds go to the newer, and a third may come, as if nothing were.
    await room.enrol(toPod(1))
    const third = await room.readyZtunnel({ reconnect: false })
    await room.enrol(toPod(2))
    expect([[...newer.holds.keys()], [...third.holds.keys()]]).toEqual([['uid-1'], ['uid-1', 'uid-2']])
    silent.close()
    const gone = 'retryable: the connection to ztunnel is over: ztunnel closed the connection'
    expect(await Promise.all([removing, removingToo])).toEqual([gone, gone])
    await room.server.remove('uid-9')
  })

  test('passes over a ztunnel that failed and came back, while there is another, until it takes a snapshot', async () => {
    const room = openRoom({ limits: { ackTimeoutMs: 50 } })
    const good = await room.readyZtunnel()
    const bad = room.ztunnel({ answers: { snapshot: 'silence' } })
    await bad.until(({ connections }) => connections > 1)
    await room.until(() => room.server.connected === 2)
    await room.enrol(toPod(1))
    expect([...good.holds.keys()]).toEqual(['uid-1'])
    bad.answer('snapshot', 'ok')
    await bad.until(({ isReady }) => isReady)
    await room.until(() => room.server.ready === 2)
    await room.enrol(toPod(2))
    expect([[...good.holds.keys()], [...bad.holds.keys()]]).toEqual([['uid-1'], ['uid-1', 'uid-2']])
  })

  test('sends no snapshot at all when it cannot know what is wanted', async () => {
    let isBroken = true
    const room = openRoom({
      select: () => {
        if (isBroken) throw new Error('no list of pods')
        return []
      },
    })
    const ztunnel = room.ztunnel()
    await ztunnel.until(({ connections }) => connections > 2)
    expect(ztunnel.records).toEqual([])
    expect(room.lines('error')[0]).toMatchObject({ error: 'no list of pods' })
    isBroken = false
    await ztunnel.until(({ isReady }) => isReady)
  })

  test('accepts two at once, then one every 200 ms [1.6]', async () => {
    const clock = new FakeClock()
    const room = openRoom({ clock, limits: { acceptsPerSecond: 5, acceptBurst: 2 } })
    for (let i = 0; i < 4; i++) await room.script().say('0801')
    await room.until(() => room.server.connected === 2)
    await clock.advance(199)
    expect(room.server.connected).toBe(2)
    await clock.advance(1)
    await room.until(() => room.server.connected === 3)
    await clock.advance(200)
    await room.until(() => room.server.connected === 4)
  })

  testWith('root', hostParts.root)('turns away processes of other users, naming process and user', async () => {
    const room = openRoom({ allowedUid: 0 })
    chmodSync(room.folder, 0o755)
    chmodSync(room.path, 0o777)
    const script = `import os,socket,sys
os.setuid(65534)
s=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET);s.connect(sys.argv[1])
heard = 0
try:
  s.send(bytes([8,1]))
  heard = len(s.recv(100))
except OSError: pass
sys.stdout.write(str(os.getpid())+' '+str(heard))`
    const child = spawn('python3', ['-c', script, room.path], { stdio: ['ignore', 'pipe', 'inherit'] })
    let said = ''
    for await (const chunk of child.stdout) said += String(chunk)
    expect(said).toBe(`${child.pid ?? ''} 0`)
    expect(room.lines('warn')).toEqual([
      {
        level: 'warn',
        message: 'refused a connection of another user',
        pid: child.pid,
        uid: 65534,
        allowedUid: 0,
      },
    ])
    expect(room.server.connected).toBe(0)
    await room.readyZtunnel()
  })

  test('drops the connection of a process that is gone as soon as another comes, and does not believe a new one to hold what it keeps', async () => {
    const running = new Set(['1@50'])
    let next: ProcessIdentity = { pid: 1, startTicks: 50n }
    const processes: Processes = {
      own: { pid: 9, startTicks: 100n },
      identify: () => next,
      isRunning: ({ pid, startTicks }) => running.has(`${pid}@${startTicks}`),
    }
    const room = openRoom({ processes })
    room.wantWithout(toPod(1))
    const netns = room.want(toPod(2))
    const old = await room.readyZtunnel({ reconnect: false })
    // It ran before this agent did: what it keeps it may well have.
    expect([...room.server.held()].map(([uid, held]) => [uid, held?.inode])).toEqual([
      ['uid-1', undefined],
      ['uid-2', netns?.inode],
    ])
    // The same number, started anew.
    next = { pid: 1, startTicks: 200n }
    running.clear()
    running.add('1@200')
    const young = room.ztunnel()
    await old.until(({ isConnected }) => !isConnected)
    await young.until(({ isReady }) => isReady)
    await room.until(() => room.server.ready === 1)
    expect(room.server.connected).toBe(1)
    expect([...room.server.held().keys()]).toEqual(['uid-2'])
    expect(room.lines('warn')).toMatchObject([{ reason: 'stale', why: 'process 1@50 is gone' }])
  })

  test('knows what a process that comes back still holds while its snapshot is under way', async () => {
    const processes: Processes = {
      own: { pid: 9, startTicks: 100n },
      identify: () => ({ pid: 1, startTicks: 200n }),
      isRunning: () => true,
    }
    const room = openRoom({ processes })
    room.want(toPod(1))
    room.want(toPod(2))
    const ztunnel = await room.readyZtunnel()
    room.wantWithout(toPod(1))
    room.wanted.delete('uid-2')
    ztunnel.answer('snapshot', { after: 100 })
    ztunnel.disconnect()
    await ztunnel.until(({ records }) => records.at(-1)?.kind === 'snapshotSent' && records.at(-1)?.connection === 2)
    expect([...room.server.held().keys()]).toEqual(['uid-1', 'uid-2'])
    await room.until(() => room.server.ready === 1)
    expect([...room.server.held().keys()]).toEqual(['uid-1'])
  })

  test('ends with the right set after kills, restarts and two at a time', async () => {
    const room = openRoom()
    for (let n = 1; n <= 5; n++) room.want(toPod(n))
    const first = await room.readyZtunnel()
    const second = await room.readyZtunnel()
    const work = Promise.all(
      Array.from({ length: 40 }, async (_, i) => {
        const pod = toPod(10 + i)
        await outcomeOf(room.enrol(pod))
        if (i % 3 === 0) {
          room.wanted.delete(pod.uid)
          while ((await outcomeOf(room.server.remove(pod.uid))) !== 'done');
        }
        if (i === 7) second.disconnect()
        if (i === 15) {
          first.stop()
          first.start()
        }
        if (i === 30) second.stop()
      }),
    )
    await work
    for (const { pod, netns } of room.wanted.values()) await room.server.add(pod, netns!)
    await room.until(() => room.server.connected === 1 && room.server.ready === 1)
    expect([...first.holds.keys()].sort()).toEqual([...room.wanted.keys()].sort())
    expect([...room.server.held().keys()].sort()).toEqual([...room.wanted.keys()].sort())
  })
})
