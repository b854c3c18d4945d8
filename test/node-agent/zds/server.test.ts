// SPDX-License-Identifier: Apache-2.0
// What every ztunnel and every caller may rely on, over real sockets.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { Fatal, InvalidInput, Retryable } from '../../../src/base/errors.js'
import { closeDescriptor, listenAt } from '../../../src/node-agent/zds/seqpacket.js'
import { ZdsRoom, countDescriptors, toPod } from './zds-room.js'

let room: ZdsRoom
let descriptorsBefore: number

beforeEach(() => {
  descriptorsBefore = countDescriptors()
  room = new ZdsRoom()
})

afterEach(() => {
  room.close()
  expect(countDescriptors()).toBe(descriptorsBefore)
})

const gauge = async (): Promise<number | undefined> => (await room.metric('ztunnel_connected'))[0]?.value

describe('a ZDS server', () => {
  test('sends every wanted pod with its namespace, one after the other, then the end of the snapshot [1.5]', async () => {
    const first = room.want(toPod(1))
    const second = room.want(toPod(2))
    const script = room.open().script()
    await script.say('0801')
    const add = await script.next()
    expect(add).toEqual({
      hex: '0a1d0a057569642d3112140a04706f6431120764656661756c741a03736131',
      inodes: [first?.inode],
    })
    expect(await gauge()).toBe(1)
    expect({ connected: room.server.connected, ready: room.server.ready }).toEqual({ connected: 1, ready: 0 })
    // Nothing more until it is acknowledged.
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(script.waiting).toEqual([])
    await script.say('0a00')
    expect(await script.acknowledge()).toMatchObject({ inodes: [second?.inode] })
    expect(await script.acknowledge()).toEqual({ hex: '1a00', inodes: [] })
    await room.until(() => room.server.ready === 1)
    expect([...room.server.held()].map(([uid, netns]) => [uid, netns?.inode])).toEqual([
      ['uid-1', first?.inode],
      ['uid-2', second?.inode],
    ])
    script.close()
    await room.until(() => room.server.connected === 0)
    expect(await gauge()).toBe(0)
    expect([...room.server.held()]).toEqual([])
  })

  test('tells ztunnel to keep a pod whose namespace it does not know [1.5]', async () => {
    room.wantWithout(toPod(2))
    const script = room.open().script()
    await script.say('0801')
    expect(await script.acknowledge()).toEqual({ hex: '2a070a057569642d32', inodes: [] })
    expect(await script.acknowledge()).toEqual({ hex: '1a00', inodes: [] })
    await room.until(() => room.server.ready === 1)
    expect([...room.server.held()]).toEqual([['uid-2', undefined]])
  })

  test('goes on accepting after a ztunnel that left right after its hello', async () => {
    room.want(toPod(1))
    const script = room.open().script()
    await script.say('0801')
    script.close()
    const ztunnel = await room.readyZtunnel()
    await room.until(() => room.server.connected === 1)
    expect([...ztunnel.holds.keys()]).toEqual(['uid-1'])
  })

  test('resolves an add, and a removal, only at the acknowledgement', async () => {
    const script = await room.open().greetedScript()
    const done: string[] = []
    const adding = room.enrol(toPod(1)).then(() => done.push('add'))
    expect(await script.next()).toMatchObject({ inodes: [room.wanted.get('uid-1')?.netns?.inode] })
    expect(done).toEqual([])
    await script.say('0a00')
    await adding
    const removing = room.server.remove('uid-1').then(() => done.push('remove'))
    expect(await script.next()).toEqual({ hex: '120712057569642d31', inodes: [] })
    expect(done).toEqual(['add'])
    expect([...room.server.held().keys()]).toEqual(['uid-1'])
    await script.say('0a00')
    await removing
    expect(done).toEqual(['add', 'remove'])
    expect([...room.server.held()]).toEqual([])
  })

  test('gives both of two ztunnels a snapshot, adds to the newer, removals to both [1.8]', async () => {
    room.want(toPod(1))
    const older = await room.open().readyZtunnel()
    const newer = await room.readyZtunnel()
    await room.enrol(toPod(2))
    room.wanted.delete('uid-1')
    await room.server.remove('uid-1')
    const kinds = (ztunnel: typeof older) => ztunnel.records.map(({ kind, uid }) => `${kind} ${uid}`.trim())
    expect(kinds(older)).toEqual(['add uid-1', 'snapshotSent', 'del uid-1'])
    expect(kinds(newer)).toEqual(['add uid-1', 'snapshotSent', 'add uid-2', 'del uid-1'])
  })

  test('goes by what the older ztunnel holds while the newer one is silent about its snapshot', async () => {
    room.want(toPod(1))
    await room.open().readyZtunnel()
    const newer = room.script()
    await newer.say('0801')
    await newer.next()
    expect([...room.server.held().keys()]).toEqual(['uid-1'])
    await newer.say('0a00')
    await newer.next()
    await newer.say('0a00')
    await room.until(() => room.server.ready === 2)
    expect([...room.server.held().keys()]).toEqual(['uid-1'])
  })

  test('turns to the older ztunnel when the newer leaves [1.8]', async () => {
    const older = await room.open().readyZtunnel()
    const newer = await room.readyZtunnel()
    newer.stop()
    await room.until(() => room.server.connected === 1)
    await room.enrol(toPod(1))
    expect([...older.holds.keys()]).toEqual(['uid-1'])
    await room.server.remove('uid-1')
    expect([...older.holds.keys()]).toEqual([])
  })

  test('stays with the newer ztunnel when the older leaves first [1.8]', async () => {
    const older = await room.open().readyZtunnel()
    const newer = await room.readyZtunnel()
    older.stop()
    await room.until(() => room.server.connected === 1)
    await room.enrol(toPod(1))
    expect([...newer.holds.keys()]).toEqual(['uid-1'])
    expect(await gauge()).toBe(1)
  })

  test('tells the older ztunnel what it missed, as it is wanted now, when the newer leaves [Q-12]', async () => {
    room.want(toPod(1))
    const older = await room.open().readyZtunnel()
    const newer = await room.readyZtunnel()
    await room.enrol(toPod(2))
    await room.enrol(toPod(3))
    // Meanwhile one was taken out again, and one has another namespace.
    room.wanted.delete('uid-3')
    await room.server.remove('uid-3')
    const moved = room.want(toPod(1))
    await room.server.add(toPod(1), moved!)
    newer.stop()
    await older.until(({ holds }) => holds.size === 2)
    expect(Object.fromEntries(older.holds)).toEqual({
      'uid-1': moved?.inode,
      'uid-2': room.wanted.get('uid-2')?.netns?.inode,
    })
    await room.until(() => room.server.held().size === 2)
  })

  test('without a ztunnel rejects an add as retryable and has nothing to remove [1.8]', async () => {
    room.open()
    await expect(room.enrol(toPod(1))).rejects.toThrow(Retryable)
    await room.server.remove('uid-1')
    // It is in the next snapshot all the same.
    const ztunnel = await room.readyZtunnel()
    expect([...ztunnel.holds.keys()]).toEqual(['uid-1'])
  })

  test('rejects an add that ztunnel says no to, and stays connected', async () => {
    const ztunnel = await room.open().readyZtunnel({ answers: { 'uid-1': { error: 'port taken' } } })
    await expect(room.enrol(toPod(1))).rejects.toThrow(
      new Retryable('ztunnel did not take pod default/pod1: failure to start proxy : port taken'),
    )
    expect(room.server.held().size).toBe(0)
    await room.enrol(toPod(2))
    ztunnel.answer('uid-1', 'ok')
    await room.server.add(toPod(1), room.wanted.get('uid-1')!.netns!)
    expect([...ztunnel.holds.keys()]).toEqual(['uid-2', 'uid-1'])
    expect(ztunnel.connections).toBe(1)
    expect(await room.metric('addressd_node_zds_messages_total')).toEqual([
      { labels: { message: 'snapshot_sent', outcome: 'ack' }, value: 1 },
      { labels: { message: 'add', outcome: 'nack' }, value: 1 },
      { labels: { message: 'add', outcome: 'ack' }, value: 2 },
    ])
  })

  test('goes on with a snapshot after a no, and names the pod', async () => {
    room.want(toPod(1))
    room.want(toPod(2))
    const ztunnel = await room.open().readyZtunnel({ answers: { 'uid-1': { error: 'port taken' } } })
    expect([...ztunnel.holds.keys()]).toEqual(['uid-2'])
    expect([...room.server.held().keys()]).toEqual(['uid-2'])
    expect(room.lines('warn')).toMatchObject([
      { uid: 'uid-1', namespace: 'default', name: 'pod1', error: 'failure to start proxy : port taken' },
    ])
    expect(room.lines('info').map(({ message }) => message)).toEqual(['ztunnel connected', 'snapshot sent'])
    expect(room.lines('info')[1]).toMatchObject({ added: 1, kept: 0, refused: 1, pid: process.pid })
  })

  test('takes the no to a removal for an answer', async () => {
    await room.open().readyZtunnel({ answers: { 'uid-1': { error: 'no' } } })
    await room.server.remove('uid-1')
    expect(room.server.connected).toBe(1)
  })

  test('sends what is added during a snapshot after its end, once [1.5]', async () => {
    room.want(toPod(1))
    const script = room.open().script()
    await script.say('0801')
    await script.next()
    const adding = room.enrol(toPod(2))
    const again = room.enrol(toPod(2), room.wanted.get('uid-2')!.netns)
    await script.say('0a00')
    expect(await script.acknowledge()).toEqual({ hex: '1a00', inodes: [] })
    expect(await script.acknowledge()).toMatchObject({ inodes: [room.wanted.get('uid-2')?.netns?.inode] })
    await Promise.all([adding, again])
    expect(script.waiting).toEqual([])
  })

  test('gives up an add whose caller does: unsent when its turn has not come', async () => {
    room.want(toPod(1))
    const script = room.open().script()
    await script.say('0801')
    await script.next()
    const giveUp = new AbortController()
    const netns = room.netns()
    const adding = room.server.add(toPod(2), netns, giveUp.signal)
    const removing = room.server.remove('uid-3', giveUp.signal)
    giveUp.abort(new Error('enough'))
    await expect(adding).rejects.toThrow('enough')
    await expect(removing).rejects.toThrow('enough')
    await script.say('0a00')
    await script.acknowledge()
    await room.until(() => room.server.ready === 1)
    await new Promise((resolve) => setTimeout(resolve, 10))
    expect(script.waiting).toEqual([])
  })

  test('leaves a pod out of a snapshot while it is being removed', async () => {
    const script = await room.open().greetedScript()
    room.want(toPod(1))
    const removing = room.server.remove('uid-1')
    const ztunnel = await room.readyZtunnel()
    expect(ztunnel.holds.size).toBe(0)
    await script.acknowledge()
    await removing
  })

  test('refuses a pod whose message would be too long, by name, and sends the others', async () => {
    const long = { ...toPod(1), serviceAccount: 's'.repeat(1100) }
    room.want(long)
    room.want(toPod(2))
    const ztunnel = await room.open().readyZtunnel()
    expect([...ztunnel.holds.keys()]).toEqual(['uid-2'])
    await expect(room.server.add(long, room.netns())).rejects.toThrow(InvalidInput)
    await expect(room.server.add(long, room.netns())).rejects.toThrow('pod default/pod1 (uid uid-1)')
    expect(room.lines('warn')).toMatchObject([{ uid: 'uid-1', name: 'pod1' }])
  })

  test('accepts nobody before it is opened: ztunnels wait with their hello said [1.1]', async () => {
    room.server.listen()
    const ztunnel = room.ztunnel()
    room.want(toPod(1))
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect({ connected: room.server.connected, heard: ztunnel.records }).toEqual({ connected: 0, heard: [] })
    room.server.open()
    await ztunnel.until(({ isReady }) => isReady)
    expect([...ztunnel.holds.keys()]).toEqual(['uid-1'])
  })

  test('takes the place of what an earlier run left at its path [1.1]', async () => {
    mkdirSync(`${room.folder}/run`)
    closeDescriptor(listenAt(room.path, 1))
    await room.open().readyZtunnel()
  })

  test('refuses to take the place of what is no socket, and leaves it as it is', () => {
    mkdirSync(`${room.folder}/run`)
    writeFileSync(room.path, 'somebody needs this')
    const sentence = `there is something at ${room.path} that is no socket; move it away or choose another path for the socket of ztunnel`
    expect(() => room.server.listen()).toThrow(new Fatal(sentence))
    expect(readFileSync(room.path, 'utf8')).toBe('somebody needs this')
  })

  test('stops with a clear error where it cannot listen', () => {
    writeFileSync(dirname(room.path), 'no folder')
    expect(() => room.server.listen()).toThrow(Fatal)
    expect(() => room.server.listen()).toThrow(/^cannot listen for ztunnel at .*EEXIST/)
    const elsewhere = new ZdsRoom({ path: `/tmp/${'x'.repeat(120)}` })
    expect(() => elsewhere.server.listen()).toThrow('cannot be the path of a socket')
    elsewhere.close()
  })

  test('ends every conversation when it closes, and rejects what waits', async () => {
    const script = await room.open().greetedScript()
    const adding = room.enrol(toPod(1))
    await script.next()
    const removing = room.server.remove('uid-2')
    const outcomes = Promise.allSettled([adding, removing])
    room.server.close()
    expect(await script.next()).toBe('end')
    expect((await outcomes).map((o) => (o.status === 'rejected' ? (o.reason as Error).message : o.status))).toEqual([
      'the connection to ztunnel is over: the agent stops',
      'the connection to ztunnel is over: the agent stops',
    ])
  })

  test('leaves the socket of its successor alone when it closes', async () => {
    room.open()
    const successor = new ZdsRoom({ path: room.path }).open()
    room.server.close()
    await successor.readyZtunnel({ zds: room.path })
    successor.close()
  })
})
