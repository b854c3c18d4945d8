// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import protobuf from '@grpc/proto-loader'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { InvalidInput, ProtocolError } from '../../../src/base/errors.js'
import {
  decodeAcknowledgement,
  decodeHello,
  encodeAdd,
  encodeDel,
  encodeKeep,
  encodeSnapshotSent,
} from '../../../src/node-agent/zds/messages.js'
import { decodeRequest, encodeAck } from '../../support/zds-messages.js'

const definition = `syntax = "proto3";
package zds;
message Info { string name = 1; string namespace = 2; string service_account = 3; }
message Add { string uid = 1; Info workload_info = 2; }
message Keep { string uid = 1; }
message Del { string uid = 2; }
message Sent {}
message Ack { string error = 1; }
message Request { oneof payload { Add add = 1; Del del = 2; Sent snapshot_sent = 3; Keep keep = 5; } }
message Response { oneof payload { Ack ack = 1; } }
service Zds { rpc Talk(Response) returns (Request); }
`

function loadTalk(): { toRequest: (bytes: Buffer) => object; fromResponse: (response: object) => Buffer } {
  const folder = mkdtempSync(join(tmpdir(), 'zds-proto-'))
  writeFileSync(join(folder, 'zds.proto'), definition)
  const loaded = protobuf.loadSync(join(folder, 'zds.proto'), { keepCase: true, defaults: true, oneofs: true })
  rmSync(folder, { recursive: true })
  const talk = (loaded['zds.Zds'] as protobuf.ServiceDefinition)['Talk']!
  return { toRequest: talk.responseDeserialize, fromResponse: talk.requestSerialize }
}

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')
const text = (most: number) => fc.string({ unit: 'binary', maxLength: most })

describe('messages between agent and ztunnel', () => {
  test('have the recorded bytes', () => {
    const pod = { uid: 'uid0', name: 'n', namespace: 'ns', serviceAccount: 'sa' }
    expect({
      add: hex(encodeAdd(pod)),
      del: hex(encodeDel('uid0')),
      keep: hex(encodeKeep('uid0')),
      snapshotSent: hex(encodeSnapshotSent()),
    }).toEqual({
      add: '0a130a0475696430120b0a016e12026e731a027361',
      del: '1206120475696430',
      keep: '2a060a0475696430',
      snapshotSent: '1a00',
    })
    expect(decodeHello(Buffer.from('0801', 'hex'))).toBe(1)
    expect(decodeAcknowledgement(Buffer.from('0a00', 'hex'))).toBe('')
    expect(decodeAcknowledgement(Buffer.from('0a030a0178', 'hex'))).toBe('x')
  })

  test('are never empty, and an add always has its WorkloadInfo, whatever is empty in it', () => {
    const nobody = { uid: '', name: '', namespace: '', serviceAccount: '' }
    expect([encodeAdd(nobody), encodeDel(''), encodeKeep('')].map(hex)).toEqual(['0a021200', '1200', '2a00'])
  })

  test('are what another implementation of protobuf reads and writes', () => {
    const { toRequest, fromResponse } = loadTalk()
    fc.assert(
      fc.property(text(30), text(60), text(60), text(60), (uid, name, namespace, serviceAccount) => {
        const info = { name, namespace, service_account: serviceAccount }
        expect(toRequest(Buffer.from(encodeAdd({ uid, name, namespace, serviceAccount })))).toEqual({
          payload: 'add',
          add: { uid, workload_info: info },
        })
        expect(toRequest(Buffer.from(encodeDel(uid)))).toEqual({ payload: 'del', del: { uid } })
        expect(toRequest(Buffer.from(encodeKeep(uid)))).toEqual({ payload: 'keep', keep: { uid } })
        expect(decodeAcknowledgement(fromResponse({ ack: { error: name } }))).toBe(name)
        // The halves that fake ztunnels use.
        expect(decodeAcknowledgement(encodeAck(name))).toBe(name)
        expect(decodeRequest(encodeAdd({ uid, name, namespace, serviceAccount }))).toEqual({
          kind: 'add',
          uid,
          pod: { name, namespace, serviceAccount },
        })
      }),
      { numRuns: 50 },
    )
    expect(toRequest(Buffer.from(encodeSnapshotSent()))).toEqual({ payload: 'snapshot_sent', snapshot_sent: {} })
  })

  test('of exactly 1,024 bytes are written, longer ones refused with the name of the pod', () => {
    const pod = (length: number) => ({ uid: 'u', name: 'n', namespace: 'shop', serviceAccount: 's'.repeat(length) })
    const overhead = encodeAdd(pod(500)).length - 500
    expect(encodeAdd(pod(1024 - overhead))).toHaveLength(1024)
    expect(() => encodeAdd(pod(1025 - overhead))).toThrow(InvalidInput)
    expect(() => encodeAdd(pod(1025 - overhead))).toThrow(
      'pod shop/n (uid u): the message about it has 1025 bytes, and ztunnel takes 1024; its names are too long',
    )
    expect(() => encodeKeep('k'.repeat(1024))).toThrow(InvalidInput)
    expect(() => encodeDel('k'.repeat(1024))).toThrow(InvalidInput)
  })

  test('of ztunnel that cannot be read, or hold no acknowledgement, are protocol errors', () => {
    for (const bad of ['ffff', '0a05', '0a030a01', '1200', '0801']) {
      expect(() => decodeAcknowledgement(Buffer.from(bad, 'hex'))).toThrow(ProtocolError)
    }
    expect(() => decodeHello(Buffer.from('ffff', 'hex'))).toThrow(ProtocolError)
  })

  test('with fields of later versions are read', () => {
    expect(decodeAcknowledgement(Buffer.from('10050a050a016e1007', 'hex'))).toBe('n')
    expect(decodeHello(Buffer.from('0807120161', 'hex'))).toBe(7)
  })
})
