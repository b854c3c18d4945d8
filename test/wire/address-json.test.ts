// SPDX-License-Identifier: Apache-2.0
// What people see of an Address.

import { expect, test } from '@jest/globals'
import { toAddressJson } from '../../src/wire/address-json.js'
import { decodeAddress } from '../../src/wire/address-decoder.js'
import { encodeServiceAddress } from '../../src/wire/address-encoder.js'
import type { ServiceMessage, WorkloadMessage } from '../../src/wire/messages.js'

const service: ServiceMessage = {
  name: 's',
  namespace: 'ns',
  hostname: 's.ns.svc.cluster.local',
  addresses: [
    { network: 'nw', address: Uint8Array.of(10, 0, 0, 1) },
    { network: '', address: new Uint8Array(4), length: 0 },
  ],
  ports: [{ servicePort: 80, targetPort: 0, appProtocol: 1 }],
  subjectAltNames: [],
  waypoint: { hostname: { namespace: 'ns', hostname: 'w' }, hboneMtlsPort: 15008 },
  loadBalancing: { routingPreference: [6, 1, 0], mode: 2, healthPolicy: 0 },
  ipFamilies: 1,
  canonical: true,
  ingressUseWaypoint: false,
  weightedWaypoints: [
    { destination: { address: { network: '', address: Uint8Array.of(1, 2, 3, 4) }, hboneMtlsPort: 0 }, weight: 0 },
  ],
  visibility: 0,
}

const workload: WorkloadMessage = {
  uid: 'c//Pod/ns/p',
  name: 'p',
  namespace: 'ns',
  addresses: [
    Uint8Array.of(10, 1, 0, 1),
    Uint8Array.of(0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1),
    Uint8Array.of(9),
  ],
  hostname: '',
  network: '',
  tunnelProtocol: 1,
  trustDomain: '',
  serviceAccount: 'default',
  waypoint: undefined,
  networkGateway: undefined,
  node: '',
  canonicalName: '',
  canonicalRevision: '',
  workloadType: 2,
  workloadName: '',
  nativeTunnel: true,
  applicationTunnel: { protocol: 0, port: 0 },
  services: new Map([
    ['ns/a', [{ servicePort: 80, targetPort: 8080, appProtocol: 9 }]],
    ['ns/b', []],
  ]),
  authorizationPolicies: ['ns/x'],
  status: 1,
  clusterId: 'c',
  locality: { region: 'r', zone: '', subzone: '' },
  networkMode: 0,
  capacity: 0,
}

test('a service shows names of enums and what is present, and leaves defaults out', () => {
  const expected = {
    name: 's',
    namespace: 'ns',
    hostname: 's.ns.svc.cluster.local',
    addresses: [
      { network: 'nw', address: '10.0.0.1' },
      { address: '0.0.0.0', length: 0 },
    ],
    ports: [{ servicePort: 80, appProtocol: 'HTTP11' }],
    waypoint: { hostname: { namespace: 'ns', hostname: 'w' }, hboneMtlsPort: 15008 },
    loadBalancing: { routingPreference: ['NETWORK', 'REGION', 'UNSPECIFIED_SCOPE'], mode: 'FAILOVER' },
    ipFamilies: 'IPV4_ONLY',
    canonical: true,
    weightedWaypoints: [{ destination: { address: { address: '1.2.3.4' } } }],
  }
  expect(toAddressJson({ kind: 'service', service }, { ip: 'text' })).toStrictEqual(expected)
  expect(toAddressJson(decodeAddress(encodeServiceAddress(service)), { ip: 'text' })).toStrictEqual(expected)
})

test('a workload shows an unknown enum value as a number, and bytes that are no address as base64', () => {
  expect(toAddressJson({ kind: 'workload', workload }, { ip: 'text' })).toStrictEqual({
    name: 'p',
    namespace: 'ns',
    addresses: ['10.1.0.1', 'fd00::1', 'CQ=='],
    tunnelProtocol: 'HBONE',
    serviceAccount: 'default',
    workloadType: 'POD',
    nativeTunnel: true,
    authorizationPolicies: ['ns/x'],
    status: 'UNHEALTHY',
    clusterId: 'c',
    uid: 'c//Pod/ns/p',
    services: { 'ns/a': { ports: [{ servicePort: 80, targetPort: 8080, appProtocol: 9 }] }, 'ns/b': {} },
    applicationTunnel: {},
    locality: { region: 'r' },
    capacity: 0,
  })
})

test.each([
  ['base64OfText' as const, ['MTAuMS4wLjE=', 'ZmQwMDo6MQ==', 'CQ==']],
  ['bytes' as const, ['CgEAAQ==', '/QAAAAAAAAAAAAAAAAAAAQ==', 'CQ==']],
])('addresses as %s', (ip, addresses) => {
  expect(toAddressJson({ kind: 'workload', workload }, { ip }).addresses).toEqual(addresses)
})
