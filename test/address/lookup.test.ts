// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { WORKLOAD_TYPE } from '../../src/wire/messages.js'
import { decodeWorkload } from '../../src/wire/address-decoder.js'
import { decodeEntry } from '../../src/wire/entry.js'
import {
  endpointUid,
  entryUid,
  pod,
  podUid,
  room,
  service,
  serviceEntry,
  serviceName,
  workloadEntry,
} from './objects.js'

const app = { app: 'a' }
const p = podUid('p')
const s = serviceName('s')
const ranged = (name: string, addresses: readonly string[], host = `${name}.ex`) =>
  serviceEntry(name, { hosts: [host], addresses, resolution: 'STATIC', endpoints: [{ address: '8.8.8.8' }] })

describe('a key', () => {
  const made = room([
    pod('p', { labels: app }),
    service('s', { selector: app }),
    workloadEntry('w', { address: 'vm.ex' }),
    ranged('wide', ['10.50.0.0/16', 'fd00:1::/64']),
    ranged('narrow', ['10.50.1.0/24']),
    ranged('exact', ['10.50.1.7']),
    ranged('twin', ['10.50.1.7']),
  ])
  const member = (name: string) => endpointUid(name, '8.8.8.8')

  test.each<readonly [string, readonly string[]]>([
    [p, [p]],
    ['nw/10.1.0.1', [p]],
    [s, [s, p]],
    ['nw/10.0.0.1', [s, p]],
    [entryUid('w'), [entryUid('w')]],
    ['nw/10.50.0.0/16', ['ns1/wide.ex', member('wide')]],
    ['nw/10.50.9.9', ['ns1/wide.ex', member('wide')]],
    ['nw/10.50.1.1', ['ns1/narrow.ex', 'ns1/wide.ex', member('narrow'), member('wide')]],
    [
      'nw/10.50.1.7',
      [
        'ns1/exact.ex',
        'ns1/narrow.ex',
        'ns1/twin.ex',
        'ns1/wide.ex',
        ...['exact', 'narrow', 'twin', 'wide'].map(member),
      ],
    ],
    ['nw/fd00:1::9', ['ns1/wide.ex', member('wide')]],
    ['other/10.50.9.9', []],
    ['nw/fd00:1:0::9', []],
    ['nw/FD00:1::9', []],
    ['nw/10.50.9.9/32', []],
    ['nw/010.1.0.1', []],
    ['nw/10.1.0.1/32', []],
    ['nw/', []],
    ['/10.1.0.1', []],
    ['10.1.0.1', []],
    ['nw/vm.ex', []],
    ['', []],
    ['ns1/vm.ex', []],
  ])('%j finds %j [L1,L2,L3,L8,6.2]', (key, expected) => {
    expect([...made.lookup(key)].sort()).toEqual([...expected].sort())
  })

  test('of a workload hides the service at the same address [L2]', () => {
    const shadowed = room([pod('p', { ips: ['10.0.0.1'] }), service('s')])
    expect(shadowed.lookup('nw/10.0.0.1')).toEqual([p])
  })

  test('of two services with a common member finds it once', () => {
    const both = room([pod('p', { labels: app }), service('s', { selector: app }), service('t', { selector: app })])
    expect(both.lookup('nw/10.0.0.1')).toEqual([s, serviceName('t'), p])
  })
})

test('a node finds the workloads that live on it', () => {
  const made = room([
    pod('p'),
    pod('q', { ips: ['10.1.0.2'], spec: { nodeName: 'n2' } }),
    workloadEntry('w', { address: '1.1.1.1' }),
  ])
  expect(['n1', 'n2', 'n3', ''].map((node) => made.source.local(node).map((r) => r.name))).toEqual([
    [p],
    [podUid('q')],
    [],
    [],
  ])
})

describe('the older type', () => {
  test('has the bare workload under the same name and version; services lead to members and are never written', () => {
    const made = room([pod('p', { labels: app }), service('s', { selector: app })])
    const legacy = made.address.store.source(WORKLOAD_TYPE)!
    const [found, member] = legacy.lookup('nw/10.0.0.1')
    expect([found?.name, found?.entry, member?.name, member?.version]).toEqual([
      s,
      undefined,
      p,
      made.source.get(p)?.version,
    ])
    const parts = decodeEntry(member!.entry!)
    expect([parts.typeUrl, parts.version, decodeWorkload(parts.body)]).toEqual([
      WORKLOAD_TYPE,
      member?.version,
      made.workload(p),
    ])
    expect([legacy.size, [...legacy.all()].length]).toEqual([2, 2])
  })

  test('is told of a service that moves, and not of one that only differs inside', () => {
    const made = room([service('s')])
    const told: (readonly string[])[] = []
    made.address.store.onCommit((changes) => told.push((changes.get(WORKLOAD_TYPE) ?? []).map((change) => change.name)))
    made.apply(service('s', { trafficDistribution: 'PreferClose' }))
    made.apply(service('s', { clusterIPs: ['10.0.0.2'] }))
    expect(told).toEqual([[], [s]])
  })
})
