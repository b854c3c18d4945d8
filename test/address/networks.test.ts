// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { gateway, ip, listener, namespace, pod, podUid, room, service, serviceName } from './objects.js'

const labelled = (network: string) => ({ 'topology.istio.io/network': network })
const remote = (name: string, more: object = {}) =>
  gateway(name, {
    ns: 'default',
    class: 'istio-remote',
    labels: labelled('beta'),
    addresses: [{ type: 'IPAddress', value: '172.18.1.45' }],
    listeners: [listener(undefined, 15008)],
    ...more,
  })
const uid = 'NetworkGateway/beta/172.18.1.45/15008'

describe('the network of a cluster', () => {
  test('that changes moves every workload, address and alias [W1,W4]', () => {
    const made = room([pod('p'), service('s')])
    expect(made.lookup('nw/10.1.0.1')).toEqual([podUid('p')])
    expect(made.apply(namespace('istio-system', labelled('nw2')))).toEqual({
      changed: [podUid('p'), serviceName('s')],
      removed: [],
    })
    expect(['nw/10.1.0.1', 'nw2/10.1.0.1', 'nw2/10.0.0.1'].map((key) => made.lookup(key))).toEqual([
      [],
      [podUid('p')],
      [serviceName('s')],
    ])
  })

  test('is read from the namespace of the control plane, wherever that is [W1]', () => {
    const made = room([namespace('mesh', labelled('m')), pod('p')], { systemNamespace: 'mesh' })
    expect(made.workload(podUid('p'))?.network).toBe('m')
  })
})

describe('a network gateway', () => {
  test('is a workload of its network and of no cluster [G1,G2,G4,5.2]', () => {
    const made = room([remote('gw', { annotations: { 'gateway.istio.io/service-account': 'x' } })])
    expect(made.workload(uid)).toMatchObject({
      uid,
      name: uid,
      namespace: 'default',
      serviceAccount: 'x',
      network: 'beta',
      addresses: [ip('172.18.1.45')],
      workloadType: 0,
      clusterId: '',
      canonicalName: '',
    })
    expect(made.lookup('beta/172.18.1.45')).toEqual([uid])
  })

  test('has a service account after its name when none is said [G4]', () => {
    expect(room([remote('gw')]).workload(uid)?.serviceAccount).toBe('gw-istio-remote')
  })

  test.each<readonly [string, object]>([
    ['its class is another', { class: 'istio-waypoint' }],
    ['it has no network', { labels: {} }],
    ['its network is empty', { labels: labelled('') }],
    ['it has no HBONE listener', { listeners: [listener(undefined, 443, 'TLS')] }],
    ['its address has no type', { addresses: [{ value: '172.18.1.45' }] }],
    ['it has no address', { addresses: [] }],
  ])('is none when %s [G1,G2]', (_, more) => {
    expect(room([remote('gw', more)]).names()).toEqual([])
  })

  test('keeps the spelling of its address in its name, and not in its alias [4.1,A3]', () => {
    const made = room([remote('gw', { addresses: [{ type: 'IPAddress', value: '2001:DB8::70' }] })])
    const name = 'NetworkGateway/beta/2001:DB8::70/15008'
    expect([made.names(), made.source.get(name)?.aliases]).toEqual([[name], ['beta/2001:db8::70']])
  })

  test('that two Gateways describe is one, of the lower name [G6]', () => {
    const made = room([remote('b'), remote('a')])
    expect([made.names(), made.workload(uid)?.serviceAccount]).toEqual([[uid], 'a-istio-remote'])
  })

  test('is the way to workloads of its network, the own one too; the lowest of several [G6,G7]', () => {
    const own = (name: string, value: string) =>
      remote(name, { labels: labelled('nw'), addresses: [{ type: 'IPAddress', value }] })
    const made = room([pod('p'), own('b', '9.9.9.1'), own('a', '9.9.9.2')])
    expect(made.workload(podUid('p'))?.networkGateway).toEqual({
      address: { network: 'nw', address: ip('9.9.9.2') },
      hboneMtlsPort: 15008,
    })
  })
})
