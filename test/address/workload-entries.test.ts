// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { entryUid, gateway, ip, pod, podUid, room, workloadEntry } from './objects.js'

const uid = entryUid('w')

describe('a workload entry', () => {
  test('is a healthy workload named by its labels [X1,X2,X3]', () => {
    const made = room([workloadEntry('w', { address: '1.2.3.4', serviceAccount: 'sa' }, { labels: { app: 'foo' } })])
    expect(made.workload(uid)).toMatchObject({
      uid,
      name: 'w',
      namespace: 'ns1',
      addresses: [ip('1.2.3.4')],
      network: 'nw',
      serviceAccount: 'sa',
      canonicalName: 'foo',
      workloadName: 'w',
      workloadType: 2,
      status: 0,
      clusterId: 'c0',
      node: '',
      capacity: undefined,
    })
  })

  test('has the labels of its spec with those of the object over them [X1]', () => {
    const made = room([
      workloadEntry('w', { address: '1.2.3.4', labels: { app: 'spec', version: 'v1' } }, { labels: { app: 'meta' } }),
    ])
    expect(made.workload(uid)).toMatchObject({ canonicalName: 'meta', canonicalRevision: 'v1' })
  })

  test('may speak a list of tunnels in the labels of its spec [T3]', () => {
    const made = room([
      workloadEntry('w', { address: '1.2.3.4', labels: { 'networking.istio.io/tunnel': 'http3,http' } }),
    ])
    expect(made.workload(uid)).toMatchObject({ tunnelProtocol: 1, nativeTunnel: true })
  })

  test.each(['vm.example', 'unix:///x', ''])(
    'with address %j has it as a host name and no key by address [X3,A4,L8]',
    (address) => {
      const made = room([workloadEntry('w', { address }), workloadEntry('v', { address })])
      expect(made.workload(uid)).toMatchObject({ addresses: [], hostname: address })
      expect(made.source.get(uid)?.aliases).toEqual([])
      expect([made.lookup(uid), made.lookup('nw/')]).toEqual([[uid], []])
    },
  )

  const east = (addresses: readonly object[]) =>
    gateway('gw', {
      ns: 'ns-gw',
      class: 'istio-remote',
      labels: { 'topology.istio.io/network': 'remote' },
      addresses: addresses as never,
      listeners: [{ name: 'h', port: 15008, protocol: 'HBONE' }],
    })
  test.each([
    [[{ type: 'IPAddress', value: '9.9.9.9' }], { address: { network: 'remote', address: ip('9.9.9.9') } }],
    [[{ type: 'Hostname', value: 'gw.example' }], { hostname: { namespace: 'ns-gw', hostname: 'gw.example' } }],
  ])('on another network is published with the gateway %j to it [W3,G6,X6]', (addresses, expected) => {
    const made = room([east(addresses), workloadEntry('w', { address: '1.2.3.4', network: 'remote' })])
    expect(made.workload(uid)).toMatchObject({
      network: 'remote',
      networkGateway: { ...expected, hboneMtlsPort: 15008 },
    })
    expect(made.lookup('remote/1.2.3.4')).toEqual([uid])
  })

  test('shares an address with whoever has it [L4]', () => {
    const made = room([
      ...['p', 'q'].map((name) => pod(name, { ips: ['1.1.1.1'] })),
      ...['v', 'w'].map((name) => workloadEntry(name, { address: '1.1.1.1' })),
    ])
    expect(made.lookup('nw/1.1.1.1')).toEqual([podUid('p'), podUid('q'), entryUid('v'), entryUid('w')])
  })

  test('has weight and locality [X2]', () => {
    const spec = { address: '1.2.3.4', weight: 5, locality: 'r/z/s/extra' }
    expect(room([workloadEntry('w', spec)]).workload(uid)).toMatchObject({
      capacity: 5,
      locality: { region: 'r', zone: 'z', subzone: 's' },
    })
    expect(room([workloadEntry('w', { ...spec, weight: 0, locality: '' })]).workload(uid)).toMatchObject({
      capacity: undefined,
      locality: undefined,
    })
  })

  test.each([
    [{ 'istio.io/autoRegistrationGroup': 'g' }, { 'service.istio.io/workload-name': 'l' }, 'g'],
    [{ 'istio.io/autoRegistrationGroup': '' }, {}, ''],
    [{}, { 'service.istio.io/workload-name': 'l' }, 'l'],
  ])('with annotations %j and labels %j is named %j [X4]', (annotations, labels, name) => {
    const made = room([workloadEntry('w', { address: '1.2.3.4' }, { annotations, labels })])
    expect(made.workload(uid)?.workloadName).toBe(name)
  })
})
