// SPDX-License-Identifier: Apache-2.0
// Requests of the discovery service from bytes, against what proto-loader writes, and against garbage.

import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { ProtocolError } from '../../src/base/errors.js'
import { decodeDeltaRequest, decodeDiscoveryRequest } from '../../src/wire/discovery.js'
import type { DeltaRequest } from '../../src/wire/discovery.js'
import { InitialVersions } from '../../src/wire/initial-versions.js'
import { ADDRESS_TYPE } from '../../src/wire/messages.js'
import { loadProtos } from '../../src/wire/protos.js'
import { toStruct } from '../../src/wire/struct.js'
import { text } from './arbitraries.js'

const { messages } = loadProtos()

const encode = (request: object): Uint8Array => messages.deltaDiscoveryRequest.encode(request)
const plain = (request: DeltaRequest): object => ({
  ...request,
  initialVersions: Object.fromEntries(request.initialVersions),
})

const nothing = {
  node: undefined,
  typeUrl: '',
  subscribe: [],
  unsubscribe: [],
  initialVersions: {},
  responseNonce: '',
  error: undefined,
}

describe('a delta request', () => {
  test('that is empty reads as nothing', () => {
    expect(plain(decodeDeltaRequest(new Uint8Array(0)))).toEqual(nothing)
  })

  test('that acknowledges has a type and a nonce', () => {
    const bytes = encode({ type_url: ADDRESS_TYPE, response_nonce: 'n1' })
    expect(plain(decodeDeltaRequest(bytes))).toEqual({ ...nothing, typeUrl: ADDRESS_TYPE, responseNonce: 'n1' })
  })

  test('that rejects with code 0 is a rejection all the same', () => {
    const bytes = encode({ type_url: 't', response_nonce: 'n', error_detail: { message: 'no' } })
    expect(decodeDeltaRequest(bytes).error).toEqual({ code: 0, message: 'no' })
    expect(decodeDeltaRequest(Uint8Array.of(0x3a, 0)).error).toEqual({ code: 0, message: '' })
  })

  test('that introduces a client gives its node as plain values', () => {
    const metadata = { NODE_NAME: 'n1', deep: { list: [1.5, true, null, 'x', {}], __proto__x: '' }, none: null }
    const node = {
      id: 'ztunnel~10.0.0.1~z.istio-system~istio-system.svc.cluster.local',
      cluster: 'c',
      metadata: toStruct(metadata),
      locality: { region: 'r', zone: 'z', sub_zone: 's' },
      user_agent_name: 'u',
      user_agent_version: '1',
    }
    expect(decodeDeltaRequest(encode({ node })).node).toEqual({
      id: node.id,
      cluster: 'c',
      metadata,
      locality: { region: 'r', zone: 'z', subZone: 's' },
      userAgentName: 'u',
      userAgentVersion: '1',
    })
  })

  test('reads as what was written, whatever that was', () => {
    const names = fc.array(text, { maxLength: 6 })
    fc.assert(
      fc.property(text, names, names, fc.dictionary(text, text), text, (typeUrl, sub, unsub, versions, nonce) => {
        const bytes = encode({
          type_url: typeUrl,
          resource_names_subscribe: sub,
          resource_names_unsubscribe: unsub,
          initial_resource_versions: versions,
          response_nonce: nonce,
        })
        expect(plain(decodeDeltaRequest(bytes))).toEqual({
          ...nothing,
          typeUrl,
          subscribe: sub,
          unsubscribe: unsub,
          initialVersions: versions,
          responseNonce: nonce,
        })
      }),
    )
  })

  test('is refused with a protocol error that names the field, or read as something', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 80 }), (bytes) => {
        for (const decode of [decodeDeltaRequest, decodeDiscoveryRequest]) {
          try {
            decode(bytes)
          } catch (error) {
            expect(error).toBeInstanceOf(ProtocolError)
            expect((error as ProtocolError).status).toBe(13)
          }
        }
      }),
      { numRuns: 3000 },
    )
  })

  test.each([
    ['a type that is not UTF-8', '1201ff', 'DeltaDiscoveryRequest: field 2 is not valid UTF-8'],
    ['a subscribed name that is not UTF-8', '1a02c328', 'DeltaDiscoveryRequest: field 3 is not valid UTF-8'],
    ['a held name that is not UTF-8', '2a060a016b120180', 'initial_resource_versions: field 2 is not valid UTF-8'],
    ['a name that is longer than the message', '1a05ab', 'field 3 says it has 5 bytes where 1 are left'],
    ['metadata nested beyond reason', nested(101), 'nested deeper'],
  ])('with %s is refused', (_, bytes, message) => {
    expect(() => decodeDeltaRequest(Buffer.from(bytes, 'hex'))).toThrow(message)
  })

  test('may really say U+FFFD', () => {
    expect(decodeDeltaRequest(encode({ resource_names_subscribe: ['\ufffd'] })).subscribe).toEqual(['\ufffd'])
  })
})

/** A request whose metadata is a list in a list in a list. */
function nested(depth: number): string {
  const wrap = (tag: number, inner: Buffer): Buffer => {
    const size: number[] = []
    let rest = inner.length
    for (; rest > 127; rest >>= 7) size.push((rest & 127) | 128)
    return Buffer.concat([Buffer.of(tag, ...size, rest), inner])
  }
  let value: Buffer = Buffer.alloc(0)
  for (let i = 0; i < depth; i++) value = wrap(0x32, wrap(0x0a, value))
  return wrap(0x0a, wrap(0x1a, wrap(0x0a, wrap(0x12, value)))).toString('hex')
}

test('a request of the state of the world reads as what was written', () => {
  const bytes = messages.discoveryRequest.encode({
    version_info: '1',
    node: { id: 'n' },
    resource_names: ['a', 'b'],
    type_url: 'istio.io/debug',
    response_nonce: 'x',
    error_detail: { code: 3, message: 'm' },
  })
  expect(decodeDiscoveryRequest(bytes)).toEqual({
    node: {
      id: 'n',
      cluster: '',
      metadata: {},
      locality: { region: '', zone: '', subZone: '' },
      userAgentName: '',
      userAgentVersion: '',
    },
    typeUrl: 'istio.io/debug',
    versionInfo: '1',
    names: ['a', 'b'],
    responseNonce: 'x',
    error: { code: 3, message: 'm' },
  })
})

describe('what a client says it holds', () => {
  const held = (versions: Record<string, string>): InitialVersions =>
    decodeDeltaRequest(encode({ initial_resource_versions: versions })).initialVersions

  test('is current, other or absent, and what nobody asked for is left over', () => {
    const versions = held({ same: '1', older: '1', gone: '1', 'ns/ö': 'v', longer: '12' })
    expect({
      size: versions.size,
      same: versions.check('same', '1'),
      older: versions.check('older', '2'),
      longer: versions.check('longer', '1'),
      wide: versions.check('ns/ö', 'v'),
      unknown: versions.check('sam', '1'),
      has: [versions.has('gone'), versions.has('nobody')],
      left: versions.unchecked(),
    }).toEqual({
      size: 5,
      same: 'current',
      older: 'other',
      longer: 'other',
      wide: 'current',
      unknown: 'absent',
      has: [true, false],
      left: ['gone'],
    })
  })

  test('may be nothing', () => {
    const { none } = InitialVersions
    expect([none.size, none.check('a', ''), none.unchecked(), [...none]]).toEqual([0, 'absent', [], []])
  })

  test('counts once when it is said twice, with the last version', () => {
    const entry = (version: string): Buffer => Buffer.from(`\x2a\x06\x0a\x01k\x12\x01${version}`)
    const { initialVersions } = decodeDeltaRequest(Buffer.concat([entry('1'), entry('2')]))
    expect([initialVersions.size, [...initialVersions], initialVersions.check('k', '2')]).toEqual([
      1,
      [['k', '2']],
      'current',
    ])
  })

  test('agrees with a Map, for thousands of names', () => {
    const names = fc.uniqueArray(text, { minLength: 0, maxLength: 300 })
    fc.assert(
      fc.property(names, names, (mine, theirs) => {
        const map = new Map(theirs.map((name, i) => [name, `${i % 7}`]))
        const versions = held(Object.fromEntries(map))
        const states = mine.map((name) => versions.check(name, '3'))
        expect(states).toEqual(
          mine.map((name) => (map.has(name) ? (map.get(name) === '3' ? 'current' : 'other') : 'absent')),
        )
        expect(new Set(versions.unchecked())).toEqual(new Set(theirs.filter((name) => !mine.includes(name))))
        expect(new Map(versions)).toEqual(map)
      }),
      { numRuns: 30 },
    )
  })
})
