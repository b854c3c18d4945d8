// SPDX-License-Identifier: Apache-2.0
// The hand-written encoder and decoder of Address against recorded bytes, against proto-loader and against garbage.

import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { readFileSync } from 'node:fs'
import { ProtocolError } from '../../src/base/errors.js'
import { decodeAddress, decodeWorkload } from '../../src/wire/address-decoder.js'
import type { DecodedAddress } from '../../src/wire/address-decoder.js'
import { encodeServiceAddress, encodeWorkloadAddress } from '../../src/wire/address-encoder.js'
import type { ServiceMessage, WorkloadMessage } from '../../src/wire/messages.js'
import { loadProtos } from '../../src/wire/protos.js'
import { versionOf } from '../../src/wire/version.js'
import { services, toProtoService, toProtoWorkload, workloads } from './arbitraries.js'

interface Recorded {
  readonly shows: string
  readonly name: string
  readonly version: string
  readonly hex: string
}

const recorded = JSON.parse(
  readFileSync(new URL('recorded-addresses.json', import.meta.url), 'utf8'),
) as readonly Recorded[]

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

function encode(decoded: DecodedAddress): Uint8Array {
  return decoded.kind === 'workload' ? encodeWorkloadAddress(decoded.workload) : encodeServiceAddress(decoded.service)
}

const emptyWorkload: WorkloadMessage = {
  uid: '',
  name: '',
  namespace: '',
  addresses: [],
  hostname: '',
  network: '',
  tunnelProtocol: 0,
  trustDomain: '',
  serviceAccount: '',
  waypoint: undefined,
  networkGateway: undefined,
  node: '',
  canonicalName: '',
  canonicalRevision: '',
  workloadType: 0,
  workloadName: '',
  nativeTunnel: false,
  applicationTunnel: undefined,
  services: new Map(),
  authorizationPolicies: [],
  status: 0,
  clusterId: '',
  locality: undefined,
  networkMode: 0,
  capacity: undefined,
}

const emptyService: ServiceMessage = {
  name: '',
  namespace: '',
  hostname: '',
  addresses: [],
  ports: [],
  subjectAltNames: [],
  waypoint: undefined,
  loadBalancing: undefined,
  ipFamilies: 0,
  canonical: false,
  ingressUseWaypoint: false,
  weightedWaypoints: [],
  visibility: 0,
}

describe('a recorded Address', () => {
  test.each(recorded)('that shows $shows decodes and encodes to the same bytes and version [12.1]', (record) => {
    const bytes = Buffer.from(record.hex, 'hex')
    expect({ hex: hex(encode(decodeAddress(bytes))), version: versionOf(bytes) }).toEqual({
      hex: record.hex,
      version: record.version,
    })
  })

  test('of a workload reads as what it says', () => {
    const record = recorded.find((r) => r.shows.includes('hostnet'))
    expect(decodeAddress(Buffer.from(record!.hex, 'hex'))).toEqual({
      kind: 'workload',
      workload: {
        ...emptyWorkload,
        name: 'x-1',
        namespace: 'dom',
        addresses: [Uint8Array.of(10, 94, 0, 4)],
        network: 'net-oak',
        clusterId: 'west-1',
        uid: 'west-1/discovery.k8s.io/EndpointSlice/dom/x-1/10.94.0.4',
        services: new Map([['dom/x.dom.svc.corp.example', [{ servicePort: 80, targetPort: 80, appProtocol: 0 }]]]),
        networkMode: 1,
      },
    })
  })
})

describe('presence [12.1]', () => {
  test('nothing but the member of the oneof is written for empty messages', () => {
    expect([hex(encodeWorkloadAddress(emptyWorkload)), hex(encodeServiceAddress(emptyService))]).toEqual([
      '0a00',
      '1200',
    ])
  })

  test('messages that are there but empty are written with length 0', () => {
    const workload: WorkloadMessage = {
      ...emptyWorkload,
      capacity: 0,
      applicationTunnel: { protocol: 0, port: 0 },
      services: new Map([['a/b', []]]),
      locality: { region: '', zone: '', subzone: '' },
    }
    expect(hex(encodeWorkloadAddress(workload))).toBe('0a13b201070a03612f621200ba0100c20100da0100')
  })

  test('a prefix length of 0 is written, an absent one is not', () => {
    const of = (length: number | undefined): string =>
      hex(encodeServiceAddress({ ...emptyService, addresses: [{ network: '', address: new Uint8Array(4), length }] }))
    expect([of(0), of(undefined)]).toEqual(['120a2208120400000000' + '1800', '12082206120400000000'])
  })

  test('scopes are packed, also the unspecified one', () => {
    const loadBalancing = { routingPreference: [6, 0, 1], mode: 2, healthPolicy: 1 }
    expect(hex(encodeServiceAddress({ ...emptyService, loadBalancing }))).toBe('120b42090a0306000110021801')
  })
})

test('map entries stand in byte order of their keys, whatever order they had', () => {
  const keys = ['a/\u{1f600}', 'a/\uffee', 'b/x', 'a/b', 'a/a', '']
  const bytes = encodeWorkloadAddress({ ...emptyWorkload, services: new Map(keys.map((key) => [key, []])) })
  const decoded = decodeAddress(bytes)
  const inBytes = [...keys].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
  expect(decoded.kind === 'workload' && [...decoded.workload.services.keys()]).toEqual(inBytes)
})

test('a message larger than the slab, with long texts, comes out whole', () => {
  const policies = Array.from({ length: 3000 }, (_, i) => `ns/${'p'.repeat(i % 150)}${i}`)
  const bytes = encodeWorkloadAddress({ ...emptyWorkload, name: 'n'.repeat(100_000), authorizationPolicies: policies })
  expect(decodeAddress(bytes)).toEqual({
    kind: 'workload',
    workload: { ...emptyWorkload, name: 'n'.repeat(100_000), authorizationPolicies: policies },
  })
})

describe('for any message', () => {
  const { messages } = loadProtos()

  test('a workload has the bytes that proto-loader makes, and reads back', () => {
    fc.assert(
      fc.property(workloads, (workload) => {
        const bytes = encodeWorkloadAddress(workload)
        const decoded = decodeAddress(bytes)
        expect(hex(bytes)).toBe(hex(messages.address.encode({ workload: toProtoWorkload(workload) })))
        expect(decoded).toEqual({ kind: 'workload', workload })
        expect(decodeWorkload(messages.workload.encode(toProtoWorkload(workload)))).toEqual(workload)
        expect(hex(encode(decoded))).toBe(hex(bytes))
      }),
      { numRuns: 500 },
    )
  })

  test('a service has the bytes that proto-loader makes, and reads back', () => {
    fc.assert(
      fc.property(services, (service) => {
        const bytes = encodeServiceAddress(service)
        expect(hex(bytes)).toBe(hex(messages.address.encode({ service: toProtoService(service) })))
        expect(decodeAddress(bytes)).toEqual({ kind: 'service', service })
      }),
      { numRuns: 500 },
    )
  })
})

describe('bytes that are no Address', () => {
  test('are refused with a protocol error or read as something, whatever they are', () => {
    const valid = recorded.map((r) => Buffer.from(r.hex, 'hex'))
    const mutated = fc
      .tuple(fc.constantFrom(...valid), fc.array(fc.tuple(fc.nat(400), fc.nat(255)), { maxLength: 3 }), fc.nat(400))
      .map(([bytes, changes, cut]) => {
        const copy = Uint8Array.from(bytes)
        for (const [at, value] of changes) if (at < copy.length) copy[at] = value
        return copy.subarray(0, cut)
      })
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array({ maxLength: 200 }), mutated), (bytes) => {
        try {
          encode(decodeAddress(bytes))
        } catch (error) {
          expect(error).toBeInstanceOf(ProtocolError)
        }
      }),
      { numRuns: 3000 },
    )
  })

  test.each([
    ['nothing', '', 'Address holds neither'],
    ['a cut message', '0a05', 'Address: field 1 says it has 5 bytes where 0 are left'],
    ['a wrong wire type', '0a020800', 'Workload: field 1 has wire type 0 instead of 2'],
    ['a name that is not UTF-8', '0a030a01ff', 'Workload: field 1 is not valid UTF-8'],
    ['a field number of 0', '0000', 'Address has field number 0'],
    ['an endless number', '0affffffffffffffffffffff', 'Address: field 1 has a number of more than ten bytes'],
    ['a group', '0b0c', 'Address: field 1 has wire type 3 instead of 2'],
  ])('say what is wrong: %s', (_, bytes, message) => {
    expect(() => decodeAddress(Buffer.from(bytes, 'hex'))).toThrow(message)
  })

  test('unknown fields are passed over, of every kind', () => {
    const unknown = '5001' + '590000000000000000' + '6203616263' + '6d00000000'
    expect(decodeAddress(Buffer.from(`${unknown}0a030a0161`, 'hex'))).toEqual({
      kind: 'workload',
      workload: { ...emptyWorkload, name: 'a' },
    })
  })
})
