// SPDX-License-Identifier: Apache-2.0
// Whether messages to this machine's kernel have the layout that seqpacket.ts writes. For the start of the agent: a wrong layout would be memory read
// at random. Tried once a process.

import { closeSync, fstatSync, openSync } from 'node:fs'
import { endianness } from 'node:os'
import { Fatal } from '../../base/errors.js'
import { closeDescriptor, openPair, pointerBytes, receiveRecord, sendRecord } from './seqpacket.js'

let isTried = false

/** Sends a record with a descriptor through a pair of sockets and looks what arrives. Throws Fatal. */
export function assertLayout(): void {
  if (isTried) return
  if (pointerBytes !== 8 || endianness() !== 'LE') throw new Fatal('only little-endian 64-bit machines will do')
  const pair = openPair()
  const sent = openSync('/', 'r')
  try {
    sendRecord(pair[0], Buffer.from('layout'), sent)
    const record = receiveRecord(pair[1])
    const received = typeof record === 'string' ? [] : record.descriptors
    const isSame = received.length === 1 && received.every((fd) => fstatSync(fd).ino === fstatSync(sent).ino)
    received.forEach(closeDescriptor)
    if (typeof record === 'string' || record.cut || !isSame || record.bytes.toString() !== 'layout') {
      throw new Fatal('messages to the kernel have another layout on this machine; descriptors cannot be passed')
    }
  } finally {
    closeSync(sent)
    pair.forEach(closeDescriptor)
  }
  isTried = true
}
