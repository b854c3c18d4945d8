// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import {
  authorization,
  endpointUid,
  entryUid,
  gateway,
  ip,
  pod,
  podUid,
  room,
  serviceEntry,
  workloadEntry,
} from './objects.js'

const app = { app: 'a' }
const status = (...entries: readonly (readonly [string, string])[]) => ({
  status: { addresses: entries.map(([host, value]) => ({ host, value })) },
})
const addressesOf = (spec: object, more: object = {}, options: object = {}) =>
  room([serviceEntry('se', { hosts: ['h.ex'], ...spec }, more)], options).service('ns1/h.ex')?.addresses

describe('a service entry', () => {
  test('is a service for each host, on one address, and the address finds them all [S11,S12,S15,6.2]', () => {
    const made = room([
      serviceEntry('se', {
        hosts: ['a', 'b', 'a'],
        addresses: ['1.2.3.4'],
        resolution: 'DNS',
        subjectAltNames: ['s1'],
      }),
    ])
    for (const hostname of ['a', 'b'])
      expect(made.service(`ns1/${hostname}`)).toMatchObject({
        name: 'se',
        hostname,
        addresses: [{ network: 'nw', address: ip('1.2.3.4') }],
        subjectAltNames: ['s1'],
        ipFamilies: 0,
      })
    expect(made.lookup('nw/1.2.3.4').slice(0, 2)).toEqual(['ns1/a', 'ns1/b'])
  })

  const allocated = status(['h.ex', '240.240.0.1'], ['other', '240.240.0.9'], ['h.ex', 'bad'], ['h.ex', '2001:2::1'])
  test('without addresses takes those of its status, in order [S13,S17,S18]', () => {
    expect(addressesOf({ resolution: 'DNS' }, allocated)).toEqual([
      { network: 'nw', address: ip('240.240.0.1') },
      { network: 'nw', address: ip('2001:2::1') },
    ])
  })

  test.each<readonly [string, object, object, object, number]>([
    ['with addresses of its own', { resolution: 'DNS', addresses: ['1.1.1.1'] }, allocated, {}, 1],
    [
      'that opted out',
      { resolution: 'DNS' },
      { ...allocated, labels: { 'networking.istio.io/enable-autoallocate-ip': 'False' } },
      {},
      0,
    ],
    ['without resolution', {}, allocated, {}, 0],
    ['when the feature is off', { resolution: 'DNS' }, allocated, { ipAutoallocate: false }, 0],
  ])('%s ignores them [S17,S19]', (_, spec, more, options, count) => {
    expect(addressesOf(spec, more, options)).toHaveLength(count)
  })

  test.each([
    ['DNS', 0],
    ['DYNAMIC_DNS', 1],
  ])('with a wildcard host and resolution %s has %d of them [S13]', (resolution, count) => {
    const entry = serviceEntry(
      'se',
      { hosts: ['*.w.ex', 'ok.ex'], resolution },
      status(['*.w.ex', '240.240.0.1'], ['ok.ex', '240.240.0.2']),
    )
    const made = room([entry])
    expect([made.service('ns1/*.w.ex')?.addresses.length, made.service('ns1/ok.ex')?.addresses.length]).toEqual([
      count,
      1,
    ])
  })

  test.each([
    ['10.0.0.5/24', '10.0.0.0', 24],
    ['1.2.3.4/32', '1.2.3.4', undefined],
    ['fe80::/10', 'fe80::', 10],
    ['0.0.0.0/0', '0.0.0.0', 0],
  ])('reads %s as a range or an address [S12]', (text, address, length) => {
    expect(addressesOf({ addresses: [text] })).toEqual([
      { network: 'nw', address: ip(address), ...(length === undefined ? {} : { length }) },
    ])
  })

  test('with one address that is none is not published, nor are its endpoints [S12,E2]', () => {
    const entry = serviceEntry('se', {
      hosts: ['h.ex'],
      addresses: ['1.1.1.1', '10.0.0.0/33'],
      resolution: 'STATIC',
      endpoints: [{ address: '2.2.2.2' }],
    })
    expect(room([entry]).names()).toEqual([])
  })

  test('without resolution sends connections where they were going [S15]', () => {
    const made = room([serviceEntry('se', { hosts: ['h.ex'] })])
    expect(made.service('ns1/h.ex')?.loadBalancing).toEqual({ routingPreference: [], mode: 3, healthPolicy: 1 })
    expect(made.source.get('ns1/h.ex')?.bringsMembers).toBe(true)
  })

  test.each([
    ['http', 1],
    ['GRPC', 3],
    ['Https', 5],
    ['grpc-web', 0],
    ['http-x', 0],
    ['UDP', 0],
  ])('reads protocol %s whole [S14]', (protocol, expected) => {
    const made = room([serviceEntry('se', { hosts: ['h.ex'], ports: [{ number: 3306, name: 'tcp', protocol }] })])
    expect(made.service('ns1/h.ex')?.ports[0]?.appProtocol).toBe(expected)
  })

  test('selects pods and workload entries of its namespace [S16,M1]', () => {
    const spec = { hosts: ['h.ex'], resolution: 'STATIC', workloadSelector: { labels: app } }
    const made = room([
      serviceEntry('se', spec),
      serviceEntry('far', { ...spec, hosts: ['f.ex'] }, { ns: 'ns2' }),
      pod('p', { labels: app }),
      pod('q', { labels: { app: 'other' } }),
      workloadEntry('w', { address: '2.2.2.2' }, { labels: app }),
    ])
    expect(made.lookup('ns1/h.ex')).toEqual(['ns1/h.ex', podUid('p'), entryUid('w')])
    expect(made.lookup('ns2/f.ex')).toEqual(['ns2/f.ex'])
  })
})

describe('the endpoints of a service entry', () => {
  test('are a workload each, and only what their own labels ask for is theirs [E1,E5]', () => {
    const endpoints = [
      { address: '2.3.4.5', weight: 3, locality: 'r/z', network: 'far', serviceAccount: 'sa' },
      { address: '3.4.5.6', labels: { 'istio.io/use-waypoint': 'wp' } },
    ]
    const made = room([
      gateway('wp'),
      serviceEntry('se', { hosts: ['a.ex', 'b.ex'], resolution: 'STATIC', endpoints }, { labels: { version: 'v2' } }),
    ])
    expect(made.workload(endpointUid('se', '2.3.4.5'))).toMatchObject({
      name: 'se',
      workloadName: 'se',
      canonicalName: 'se',
      canonicalRevision: 'v2',
      network: 'far',
      capacity: 3,
      locality: { region: 'r', zone: 'z', subzone: '' },
      serviceAccount: 'sa',
      waypoint: undefined,
      workloadType: 2,
    })
    const second = made.workload(endpointUid('se', '3.4.5.6'))
    // The network of the first is not inherited.
    expect([second?.network, second?.waypoint?.hostname?.hostname]).toEqual(['nw', 'wp.ns1'])
    expect([...(second?.services.keys() ?? [])]).toEqual(['ns1/a.ex', 'ns1/b.ex'])
  })

  test('are its hosts when names are resolved and it lists none [E1,E4,V17]', () => {
    const entry = serviceEntry(
      'se',
      { hosts: ['a.ex', 'b.ex'], resolution: 'DNS' },
      { labels: { 'istio.io/use-waypoint': 'wp' } },
    )
    const made = room([gateway('wp'), entry])
    for (const host of ['a.ex', 'b.ex']) {
      const found = made.workload(endpointUid('se', host))
      expect([found?.hostname, [...(found?.services.keys() ?? [])], found?.waypoint]).toEqual([
        host,
        [`ns1/${host}`],
        undefined,
      ])
    }
  })

  test.each([
    ['it is static', { resolution: 'STATIC' }],
    ['it selects workloads', { resolution: 'DNS', workloadSelector: {} }],
  ])('are none when it lists none and %s [E1]', (_, spec) => {
    expect(room([serviceEntry('se', { hosts: ['a.ex'], ...spec })]).names()).toEqual(['ns1/a.ex'])
  })

  test('have the policies that select the entry, not the endpoint [E5]', () => {
    const labels = { app: 'a' }
    const made = room([
      authorization('ap', { selector: { matchLabels: labels } }),
      serviceEntry(
        'se',
        { hosts: ['a.ex'], resolution: 'STATIC', endpoints: [{ address: '1.1.1.1' }, { address: '2.2.2.2' }] },
        { labels },
      ),
      serviceEntry(
        'no',
        { hosts: ['b.ex'], resolution: 'STATIC', endpoints: [{ address: '3.3.3.3', labels }] },
        { labels: { app: 'b' } },
      ),
    ])
    const policies = (uid: string) => made.workload(uid)?.authorizationPolicies
    expect(['1.1.1.1', '2.2.2.2'].map((address) => policies(endpointUid('se', address)))).toEqual([
      ['ns1/ap'],
      ['ns1/ap'],
    ])
    expect(policies(endpointUid('no', '3.3.3.3'))).toEqual([])
  })

  test('with one address are one, the last [N2]', () => {
    const endpoints = [
      { address: '1.1.1.1', weight: 1 },
      { address: '1.1.1.1', weight: 2 },
    ]
    const made = room([serviceEntry('se', { hosts: ['a.ex'], resolution: 'STATIC', endpoints })])
    expect([made.names(), made.workload(endpointUid('se', '1.1.1.1'))?.capacity]).toEqual([
      [endpointUid('se', '1.1.1.1'), 'ns1/a.ex'],
      2,
    ])
  })
})
