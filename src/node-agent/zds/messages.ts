// SPDX-License-Identifier: Apache-2.0
// The messages between agent and ztunnel as bytes: what the agent says is encoded, what ztunnel says is decoded. One message a record.
// Never gives an empty record, which would be the end of the stream to ztunnel.

import { InvalidInput, ProtocolError } from '../../base/errors.js'
import { Reader } from '../../wire/reader.js'
import { BackwardWriter } from '../../wire/writer.js'
import type { PodIdentity } from '../contracts.js'

/** ztunnel drops the connection at a longer record; one of exactly this size is taken. */
export const longestRecord = 1024

/** Field numbers with the wire type of length-delimited fields. */
const tag = (field: number): number => (field << 3) | 2
const REQUEST = { add: tag(1), del: tag(2), snapshotSent: tag(3), keep: tag(5) } as const
const ADD = { uid: tag(1), info: tag(2) } as const
const INFO = { name: tag(1), namespace: tag(2), serviceAccount: tag(3) } as const
const KEEP = { uid: tag(1) } as const
const DEL = { uid: tag(2) } as const

const writer = new BackwardWriter(longestRecord * 4)

/** ztunnel stops its process at an add without WorkloadInfo: it is always written, even when every field of it is empty. Throws InvalidInput. */
export function encodeAdd(pod: PodIdentity): Uint8Array {
  writer.reset()
  writer.stringField(INFO.serviceAccount, pod.serviceAccount)
  writer.stringField(INFO.namespace, pod.namespace)
  writer.stringField(INFO.name, pod.name)
  writer.close(ADD.info, 0)
  writer.stringField(ADD.uid, pod.uid)
  writer.close(REQUEST.add, 0)
  return toRecord(`pod ${pod.namespace}/${pod.name} (uid ${pod.uid})`)
}

/** Only before the end of a snapshot: afterwards ztunnel stops its process. Throws InvalidInput. */
export function encodeKeep(uid: string): Uint8Array {
  writer.reset()
  writer.stringField(KEEP.uid, uid)
  writer.close(REQUEST.keep, 0)
  return toRecord(`pod with uid ${uid}`)
}

/** Throws InvalidInput. */
export function encodeDel(uid: string): Uint8Array {
  writer.reset()
  writer.stringField(DEL.uid, uid)
  writer.close(REQUEST.del, 0)
  return toRecord(`pod with uid ${uid}`)
}

/** Once a connection, no more. */
export function encodeSnapshotSent(): Uint8Array {
  return Uint8Array.of(REQUEST.snapshotSent, 0)
}

function toRecord(subject: string): Uint8Array {
  const size = writer.mark()
  if (size > longestRecord) {
    throw new InvalidInput(
      `${subject}: the message about it has ${size} bytes, and ztunnel takes ${longestRecord}; its names are too long`,
    )
  }
  return writer.copy()
}

/** The version, which nobody has to mind. Throws ProtocolError. */
export function decodeHello(bytes: Uint8Array): number {
  const reader = new Reader(bytes, 'ZdsHello')
  let version = 0
  while (reader.next()) {
    if (reader.field === 1) version = reader.int32()
    else reader.skip()
  }
  return version
}

/** The error that ztunnel reports, empty when it says yes. Throws ProtocolError: not decodable, or no acknowledgement in it. */
export function decodeAcknowledgement(bytes: Uint8Array): string {
  const reader = new Reader(bytes, 'WorkloadResponse')
  let error: string | undefined
  while (reader.next()) {
    if (reader.field === 1) error = decodeAck(reader.message('Ack'))
    else reader.skip()
  }
  if (error === undefined) throw new ProtocolError('WorkloadResponse holds no acknowledgement', invalidArgument)
  return error
}

const invalidArgument = 3

function decodeAck(reader: Reader): string {
  let error = ''
  while (reader.next()) {
    if (reader.field === 1) error = reader.string()
    else reader.skip()
  }
  return error
}
