// SPDX-License-Identifier: Apache-2.0
// Responses as concatenations of parts, read by proto-loader.

import { expect, test } from '@jest/globals'
import { encodeEntry } from '../../src/wire/entry.js'
import { ADDRESS_TYPE } from '../../src/wire/messages.js'
import { frameMessage } from '../../src/wire/grpc-frames.js'
import { loadProtos } from '../../src/wire/protos.js'
import {
  encodeDiscoveryResponse,
  encodeFrame,
  encodeRemovedFields,
  encodeResourceField,
  encodeResourceFields,
  encodeResponseTail,
} from '../../src/wire/responses.js'

const { messages } = loadProtos()

const entryOf = (name: string, size: number): Uint8Array =>
  encodeEntry({ name, version: '1', typeUrl: ADDRESS_TYPE, body: new Uint8Array(size).fill(7) })

const resourceOf = (name: string, size: number): object => ({
  name,
  version: '1',
  resource: { type_url: ADDRESS_TYPE, value: Buffer.alloc(size, 7) },
})

test('resources, removals and a tail make one response', () => {
  const bytes = Buffer.concat([
    encodeResourceField(entryOf('a', 3)),
    encodeResourceField(entryOf('b', 300), ['n/10.0.0.1', 'n/fd00::1']),
    encodeRemovedFields(['gone', 'n/10.0.0.9']),
    encodeResponseTail({
      typeUrl: ADDRESS_TYPE,
      nonce: 'n1',
      systemVersion: '42',
      removed: ['more'],
      controlPlane: '{"ID":"x"}',
    }),
  ])
  expect(messages.deltaDiscoveryResponse.decode(bytes)).toEqual({
    system_version_info: '42',
    resources: [resourceOf('a', 3), { ...resourceOf('b', 300), aliases: ['n/10.0.0.1', 'n/fd00::1'] }],
    type_url: ADDRESS_TYPE,
    nonce: 'n1',
    removed_resources: ['gone', 'n/10.0.0.9', 'more'],
    control_plane: { identifier: '{"ID":"x"}' },
  })
})

test.each([0, 300, 40_000])('a response made in one go is the same message as one made in parts (%i bytes)', (size) => {
  const tail = { typeUrl: ADDRESS_TYPE, nonce: 'n1', systemVersion: '42', removed: ['gone'] }
  const resources = [{ entry: entryOf('a', size) }, { entry: entryOf('b', size), aliases: ['n/10.0.0.1'] }]
  const parts = frameMessage(encodeResponseTail(tail), encodeResourceFields(resources))
  expect(Buffer.from(encodeFrame(tail, resources))).toEqual(Buffer.from(parts))
})

test('an empty answer has a type and a nonce', () => {
  const bytes = encodeResponseTail({ typeUrl: 't', nonce: 'n' })
  expect(messages.deltaDiscoveryResponse.decode(bytes)).toEqual({ type_url: 't', nonce: 'n' })
})

test.each([
  ['without aliases', undefined],
  ['with aliases', ['x/1.1.1.1']],
])('many resources %s are the same in one buffer as one by one', (_, aliases) => {
  const sizes = [0, 1, 50, 127, 128, 16_384, 200_000]
  const resources = sizes.map((size, i) => ({ entry: entryOf(`r${i}`, size), aliases: i % 2 === 0 ? aliases : [] }))
  const oneByOne = Buffer.concat(resources.map((r) => encodeResourceField(r.entry, r.aliases)))
  expect(Buffer.compare(encodeResourceFields(resources), oneByOne)).toBe(0)
})

test('a response of the state of the world', () => {
  const bytes = encodeDiscoveryResponse({
    versionInfo: 'v',
    typeUrl: 'istio.io/debug',
    nonce: 'n',
    resources: [
      { typeUrl: 'istio.io/debug', value: Buffer.from('{}') },
      { typeUrl: 'other', value: new Uint8Array(0) },
    ],
    controlPlane: 'me',
  })
  expect(messages.discoveryResponse.decode(bytes)).toEqual({
    version_info: 'v',
    resources: [{ type_url: 'istio.io/debug', value: Buffer.from('{}') }, { type_url: 'other' }],
    type_url: 'istio.io/debug',
    nonce: 'n',
    control_plane: { identifier: 'me' },
  })
})
