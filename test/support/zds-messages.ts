// SPDX-License-Identifier: Apache-2.0
// ztunnel's half of the messages between it and the agent: requests decoded, answers encoded. For fake ztunnels.

import { Reader } from '../../src/wire/reader.js'

export const helloV1 = Uint8Array.of(8, 1)

export interface PodNames {
  readonly name: string
  readonly namespace: string
  readonly serviceAccount: string
}

export type ZdsRequest =
  | { readonly kind: 'add'; readonly uid: string; readonly pod: PodNames | undefined }
  | { readonly kind: 'keep' | 'del'; readonly uid: string }
  | { readonly kind: 'snapshotSent' }

/** An acknowledgement with its error, empty for yes. */
export function encodeAck(error: string): Uint8Array {
  const text = Buffer.from(error)
  const ack = text.length === 0 ? Buffer.alloc(0) : Buffer.concat([Buffer.from([10, ...toVarint(text.length)]), text])
  return Buffer.concat([Buffer.from([10, ...toVarint(ack.length)]), ack])
}

function toVarint(value: number): number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...toVarint(value >>> 7)]
}

/** undefined: a message without payload that is known here. Throws when it is no message. */
export function decodeRequest(bytes: Uint8Array): ZdsRequest | undefined {
  const reader = new Reader(bytes, 'WorkloadRequest')
  let request: ZdsRequest | undefined
  while (reader.next()) {
    if (reader.field === 1) request = decodeAdd(reader.message('AddWorkload'))
    else if (reader.field === 2) request = { kind: 'del', uid: decodeText(reader.message('DelWorkload'), 2) }
    else if (reader.field === 5) request = { kind: 'keep', uid: decodeText(reader.message('KeepWorkload'), 1) }
    else if (reader.field === 3) {
      reader.message('SnapshotSent')
      request = { kind: 'snapshotSent' }
    } else reader.skip()
  }
  return request
}

function decodeAdd(reader: Reader): ZdsRequest {
  let uid = ''
  let pod: PodNames | undefined
  while (reader.next()) {
    if (reader.field === 1) uid = reader.string()
    else if (reader.field === 2) pod = decodeInfo(reader.message('WorkloadInfo'))
    else reader.skip()
  }
  return { kind: 'add', uid, pod }
}

function decodeInfo(reader: Reader): PodNames {
  const names = { name: '', namespace: '', serviceAccount: '' }
  while (reader.next()) {
    if (reader.field === 1) names.name = reader.string()
    else if (reader.field === 2) names.namespace = reader.string()
    else if (reader.field === 3) names.serviceAccount = reader.string()
    else reader.skip()
  }
  return names
}

function decodeText(reader: Reader, field: number): string {
  let text = ''
  while (reader.next()) {
    if (reader.field === field) text = reader.string()
    else reader.skip()
  }
  return text
}
