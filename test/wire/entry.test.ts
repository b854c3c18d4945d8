// SPDX-License-Identifier: Apache-2.0
// Entries against what proto-loader reads in them, and the conversion to the type Workload.

import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { ProtocolError } from '../../src/base/errors.js'
import { encodeServiceAddress, encodeWorkloadAddress } from '../../src/wire/address-encoder.js'
import {
  decodeEntry,
  encodeAliases,
  encodeEntry,
  encodeServiceEntry,
  encodeWorkloadEntry,
  toWorkloadEntry,
} from '../../src/wire/entry.js'
import { ADDRESS_TYPE, AUTHORIZATION_TYPE, WORKLOAD_TYPE } from '../../src/wire/messages.js'
import { loadProtos } from '../../src/wire/protos.js'
import { versionOf } from '../../src/wire/version.js'
import { services, text, toProtoWorkload, workloads } from './arbitraries.js'

const { messages } = loadProtos()
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

test('an entry is a Resource, with aliases appended', () => {
  const parts = { name: 'a/b', version: 'ff', typeUrl: AUTHORIZATION_TYPE, body: Uint8Array.of(1, 2) }
  const entry = encodeEntry(parts)
  const whole = Buffer.concat([entry, encodeAliases(['n/10.0.0.1', ''])])
  expect(messages.resource.decode(whole)).toEqual({
    name: 'a/b',
    version: 'ff',
    resource: { type_url: AUTHORIZATION_TYPE, value: Buffer.of(1, 2) },
    aliases: ['n/10.0.0.1', ''],
  })
})

test('an empty version is not written', () => {
  const entry = encodeEntry({ name: 'x', version: '', typeUrl: 't', body: new Uint8Array(0) })
  expect(hex(entry)).toBe('1203' + '0a0174' + '1a0178')
})

test('no aliases are no bytes', () => {
  expect(encodeAliases([])).toEqual(new Uint8Array(0))
})

test('any entry has the bytes that proto-loader makes, and reads back', () => {
  fc.assert(
    fc.property(text, text, text, fc.uint8Array({ minLength: 1, maxLength: 300 }), (name, version, typeUrl, body) => {
      const entry = encodeEntry({ name, version, typeUrl, body })
      const resource = { type_url: typeUrl || undefined, value: body }
      const proto = messages.resource.encode({
        version: version || undefined,
        resource,
        name: name || undefined,
      } as object)
      expect(hex(entry)).toBe(hex(proto))
      const decoded = decodeEntry(entry)
      expect({ ...decoded, body: hex(decoded.body) }).toEqual({ name, version, typeUrl, body: hex(body) })
    }),
  )
})

describe('in one pass', () => {
  test('a workload gets its uid as name and the hash of its Address as version', () => {
    fc.assert(
      fc.property(workloads, (workload) => {
        const body = encodeWorkloadAddress(workload)
        const version = versionOf(body)
        const entry = encodeEntry({ name: workload.uid, version, typeUrl: ADDRESS_TYPE, body })
        const encoded = encodeWorkloadEntry(workload)
        expect({ ...encoded, entry: hex(encoded.entry) }).toEqual({ name: workload.uid, version, entry: hex(entry) })
      }),
    )
  })

  test('a service gets namespace and hostname as name', () => {
    fc.assert(
      fc.property(services, (service) => {
        const name = `${service.namespace}/${service.hostname}`
        const body = encodeServiceAddress(service)
        const version = versionOf(body)
        const entry = encodeEntry({ name, version, typeUrl: ADDRESS_TYPE, body })
        const encoded = encodeServiceEntry(service)
        expect({ ...encoded, entry: hex(encoded.entry) }).toEqual({ name, version, entry: hex(entry) })
      }),
    )
  })
})

describe('the type Workload', () => {
  test('holds the bare workload under the same name and version', () => {
    fc.assert(
      fc.property(workloads, (workload) => {
        const { name, version, entry } = encodeWorkloadEntry(workload)
        const body = messages.workload.encode(toProtoWorkload(workload))
        const expected = encodeEntry({ name, version, typeUrl: WORKLOAD_TYPE, body })
        expect(hex(toWorkloadEntry(entry) ?? new Uint8Array(0))).toBe(hex(expected))
      }),
    )
  })

  test('knows no services', () => {
    fc.assert(fc.property(services, (service) => toWorkloadEntry(encodeServiceEntry(service).entry) === undefined))
  })
})

test('bytes that are no entry are refused with a protocol error or read as something', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
      try {
        decodeEntry(bytes)
        toWorkloadEntry(bytes)
      } catch (error) {
        expect(error).toBeInstanceOf(ProtocolError)
      }
    }),
    { numRuns: 2000 },
  )
})

test.each([
  ['nothing', '', 'ef46db3751d8e999'],
  ['a hash with a leading zero, which is left out', '0c', 'c9c6bc6d369b7d8'],
])('the version of %s is unpadded hex of xxHash64', (_, bytes, version) => {
  expect(versionOf(Buffer.from(bytes, 'hex'))).toBe(version)
})
