// SPDX-License-Identifier: Apache-2.0
// Records and descriptors through real sockets, and nothing left open.

import { closeSync, fstatSync, mkdtempSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { assertLayout } from '../../../src/node-agent/zds/layout.js'
import { RecordSocket } from '../../../src/node-agent/zds/record-socket.js'
import {
  SocketError,
  acceptOne,
  closeDescriptor,
  connectTo,
  listenAt,
  openPair,
  readPeer,
  receiveRecord,
  sendRecord,
} from '../../../src/node-agent/zds/seqpacket.js'
import { countDescriptors } from './zds-room.js'

let folder: string

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'seqpacket-'))
})
afterAll(() => rmSync(folder, { recursive: true }))

const openPairOfSockets = (): [RecordSocket, RecordSocket] => {
  const [a, b] = openPair()
  return [new RecordSocket(a), new RecordSocket(b)]
}

describe('a SEQPACKET socket', () => {
  test('has the layout that this machine wants', () => {
    const before = countDescriptors()
    assertLayout()
    expect(countDescriptors()).toBe(before)
  })

  test('passes ten thousand records with a descriptor each, in order, and leaves none open', async () => {
    const before = countDescriptors()
    const [sender, receiver] = openPairOfSockets()
    const file = openSync(folder, 'r')
    const { ino } = fstatSync(file)
    const count = 10_000
    let received = 0
    let wrong = 0
    const all = new Promise<void>((resolve) => {
      sender.start({ onRecord: () => undefined, onEnd: () => undefined })
      receiver.start({
        onRecord: ({ bytes, descriptors, cut }) => {
          const isRight = !cut && bytes.readUInt32LE(0) === received && descriptors.length === 1
          if (!isRight || descriptors.some((fd) => fstatSync(fd).ino !== ino)) wrong++
          descriptors.forEach(closeDescriptor)
          if (++received === count) resolve()
        },
        onEnd: () => undefined,
      })
    })
    const sent = Array.from({ length: count }, (_, i) => {
      const bytes = Buffer.alloc(100)
      bytes.writeUInt32LE(i, 0)
      return sender.send(bytes, file)
    })
    await Promise.all([...sent, all])
    expect({ received, wrong }).toEqual({ received: count, wrong: 0 })
    sender.close()
    receiver.close()
    closeSync(file)
    expect(countDescriptors()).toBe(before)
  })

  test('keeps what the kernel does not take, and rejects it when the peer goes', async () => {
    const before = countDescriptors()
    const [sender, receiver] = openPairOfSockets()
    sender.start({ onRecord: () => undefined, onEnd: () => undefined })
    const sent = Promise.allSettled(Array.from({ length: 2000 }, () => sender.send(Buffer.alloc(1000))))
    receiver.close()
    const outcomes = (await sent).map(({ status }) => status)
    expect(outcomes[0]).toBe('fulfilled')
    expect(outcomes.at(-1)).toBe('rejected')
    expect(sender.isClosed).toBe(true)
    expect(countDescriptors()).toBe(before)
  })

  test('sees the end of its peer without anything being said', async () => {
    const [a, b] = openPairOfSockets()
    const ended = new Promise<Error | undefined>((resolve) => a.start({ onRecord: () => undefined, onEnd: resolve }))
    b.close()
    expect(await ended).toBeUndefined()
  })

  test('marks a record that is longer than it reads, and one with more descriptors than it takes', () => {
    const [a, b] = openPair()
    const before = countDescriptors()
    sendRecord(a, Buffer.alloc(5000))
    expect(receiveRecord(b)).toMatchObject({ cut: true, descriptors: [] })
    expect(receiveRecord(b)).toBe('nothing')
    expect(countDescriptors()).toBe(before)
    closeDescriptor(a)
    expect(receiveRecord(b)).toBe('end')
    closeDescriptor(b)
  })

  test('never sends an empty record, which would be the end', () => {
    const [a, b] = openPair()
    expect(() => sendRecord(a, new Uint8Array(0))).toThrow(RangeError)
    closeDescriptor(a)
    closeDescriptor(b)
  })

  test('names the call and the reason when the kernel refuses', () => {
    const path = join(folder, 'socket')
    expect(() => connectTo(path)).toThrow(new SocketError('connect', 2))
    const listener = listenAt(path, 1)
    expect(() => listenAt(path, 1)).toThrow('bind: EADDRINUSE')
    expect(acceptOne(listener)).toBeUndefined()
    const client = connectTo(path)
    const server = acceptOne(listener) ?? -1
    expect(readPeer(server)).toEqual({ pid: process.pid, uid: process.getuid?.() })
    for (const fd of [client, server, listener]) closeDescriptor(fd)
    expect(() => connectTo(path)).toThrow('connect: ECONNREFUSED')
  })
})
