// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { toPortRules, type PeerPolicy } from '../../src/address/peer-authentication.js'
import {
  authorization,
  gateway,
  mesh,
  namespace,
  peerAuthentication,
  pod,
  podUid,
  room,
  service,
  serviceEntry,
  endpointUid,
  workloadEntry,
  entryUid,
} from './objects.js'
import type { KubeObject } from './room.js'

const app = { app: 'a' }
const fits = { selector: { matchLabels: app } }
const p = podUid('p')
const listed = (objects: readonly KubeObject[], options: object = {}, uid = p) =>
  room([pod('p', { labels: app }), ...objects], options).workload(uid)?.authorizationPolicies

describe('the policies of a workload', () => {
  test('are those of its namespace and of the root namespace that select it, sorted [Z1]', () => {
    const selecting = [
      authorization('root', fits, { ns: 'istio-system' }),
      authorization('local', fits),
      authorization('far', fits, { ns: 'ns2' }),
    ]
    expect(listed(selecting)).toEqual(['istio-system/root', 'ns1/local'])
  })

  test.each<readonly [string, Readonly<Record<string, unknown>>, object, readonly string[]]>([
    ['for a gateway', { ...fits, targetRefs: [{ kind: 'Gateway', name: 'wp' }] }, {}, []],
    ['that only audits', { ...fits, action: 'AUDIT' }, {}, []],
    ['that asks somebody else', { ...fits, action: 'CUSTOM' }, {}, []],
    ['of the whole namespace', {}, {}, []],
    ['with an empty selector', { selector: {} }, {}, []],
    ['with an empty set of labels', { selector: { matchLabels: {} } }, {}, ['ns1/ap']],
    ['that denies', { ...fits, action: 'DENY' }, {}, ['ns1/ap']],
    ['that is only tried out', fits, { annotations: { 'istio.io/dry-run': 'true' } }, []],
    ['that says something odd about trying out', fits, { annotations: { 'istio.io/dry-run': 'yes' } }, ['ns1/ap']],
    [
      'with rules that proxies of connections cannot judge',
      { ...fits, rules: [{ to: [{ operation: { paths: ['/'] } }] }] },
      {},
      ['ns1/ap'],
    ],
  ])('hold or not one %s [Z1]', (_, spec, made, expected) => {
    expect(listed([authorization('ap', spec, made)])).toEqual(expected)
  })

  test('hold what is only tried out when the setting says so [Z1]', () => {
    const tried = authorization('ap', fits, { annotations: { 'istio.io/dry-run': 'true' } })
    expect(listed([tried], { dryRunPolicies: true })).toEqual(['ns1/ap'])
  })

  test('do not change when only rules do [11]', () => {
    const made = room([pod('p', { labels: app }), authorization('ap', fits)])
    expect(made.apply(authorization('ap', { ...fits, rules: [{}] }))).toEqual({ changed: [], removed: [] })
  })

  test('without labels are all that have a selector, and no PeerAuthentication with one [Z2]', () => {
    const objects = [
      authorization('ap', fits),
      peerAuthentication('pa', { ...fits, mtls: { mode: 'STRICT' } }),
      serviceEntry('se', { hosts: ['h.ex'], resolution: 'STATIC', endpoints: [{ address: '1.1.1.1' }] }),
      workloadEntry('bare', { address: '1.1.1.2' }),
      workloadEntry('empty', { address: '1.1.1.3', labels: {} }),
    ]
    const made = room([...objects, pod('p')])
    const of = (uid: string) => made.workload(uid)?.authorizationPolicies
    expect([p, endpointUid('se', '1.1.1.1'), entryUid('bare'), entryUid('empty')].map(of)).toEqual([
      ['ns1/ap'],
      ['ns1/ap'],
      ['ns1/ap'],
      [],
    ])
  })
})

describe('the policies that PeerAuthentications come to', () => {
  const strict = 'istio-system/istio_converted_static_strict'
  const converted = 'ns1/converted_peer_authentication_w'
  const modeOf = (mode: string | undefined) => (mode === undefined ? {} : { mtls: { mode } })
  const root = (mode: string) => peerAuthentication('root', modeOf(mode), { ns: 'istio-system' })
  const ofNamespace = (mode: string) => peerAuthentication('ns', modeOf(mode))
  const ofWorkload = (mode: string | undefined, ports?: Readonly<Record<number, string>>) =>
    peerAuthentication('w', {
      ...fits,
      ...modeOf(mode),
      ...(ports && {
        portLevelMtls: Object.fromEntries(Object.entries(ports).map(([port, ofPort]) => [port, { mode: ofPort }])),
      }),
    })

  test.each<readonly [string, readonly KubeObject[], readonly string[]]>([
    ['a permissive mesh and a strict namespace', [root('PERMISSIVE'), ofNamespace('STRICT')], [strict]],
    ['a strict mesh', [root('STRICT')], [strict]],
    ['a strict mesh and a namespace that says nothing', [root('STRICT'), ofNamespace('UNSET')], [strict]],
    ['a strict mesh and a namespace that turns it off', [root('STRICT'), ofNamespace('DISABLE')], []],
    ['a workload that opens up', [ofNamespace('STRICT'), ofWorkload('PERMISSIVE')], []],
    [
      'a workload that opens up, with a strict port',
      [ofNamespace('STRICT'), ofWorkload('PERMISSIVE', { 9090: 'STRICT' })],
      [converted],
    ],
    ['a strict workload with an open port', [ofWorkload('STRICT', { 9090: 'PERMISSIVE' })], [converted]],
    ['a strict workload with a port turned off', [ofWorkload('STRICT', { 9090: 'DISABLE' })], [converted]],
    ['a strict workload with strict ports', [ofWorkload('STRICT', { 9090: 'STRICT' })], [strict]],
    [
      'a workload that says nothing, with a strict port, under strict',
      [ofNamespace('STRICT'), ofWorkload(undefined, { 9090: 'STRICT' })],
      [strict],
    ],
    [
      'a workload that says nothing, with an open port, under strict',
      [ofNamespace('STRICT'), ofWorkload('UNSET', { 9090: 'PERMISSIVE' })],
      [converted],
    ],
    [
      'a workload that says nothing, with a port turned off, under strict',
      [ofNamespace('STRICT'), ofWorkload('UNSET', { 9090: 'DISABLE' })],
      [converted],
    ],
    ['a workload that says nothing, with a strict port', [ofWorkload('UNSET', { 9090: 'STRICT' })], [converted]],
    ['a workload that says nothing, with an open port', [ofWorkload('UNSET', { 9090: 'PERMISSIVE' })], []],
    [
      'a strict mesh, a silent namespace and an open port',
      [root('STRICT'), ofNamespace('UNSET'), ofWorkload('UNSET', { 9090: 'PERMISSIVE' })],
      [converted],
    ],
    [
      'one with a selector in the root namespace',
      [peerAuthentication('r', { ...fits, ...modeOf('STRICT') }, { ns: 'istio-system' })],
      [],
    ],
    [
      'one with an empty selector in the root namespace',
      [peerAuthentication('r', { selector: {}, ...modeOf('STRICT') }, { ns: 'istio-system' })],
      [],
    ],
    [
      'one with an empty selector in the namespace',
      [peerAuthentication('n', { selector: {}, ...modeOf('STRICT') })],
      [strict],
    ],
    ['none', [], []],
  ])('by %s are as they should [Z3,Z4,Z5,Z6,Z7]', (_, objects, expected) => {
    expect(listed(objects)).toEqual(expected)
  })

  test('come from the oldest, and of equally old ones from the lowest name [Z3]', () => {
    const at = (name: string, mode: string, seconds: number) => peerAuthentication(name, modeOf(mode), { at: seconds })
    expect(listed([at('b', 'STRICT', 1), at('a', 'PERMISSIVE', 2)])).toEqual([strict])
    expect(listed([at('b', 'STRICT', 1), at('a', 'PERMISSIVE', 1)])).toEqual([])
  })

  test('follow the names of AuthorizationPolicies, and the root namespace when it moves [Z3,Z7]', () => {
    const objects = [authorization('zz', fits), ofNamespace('STRICT')]
    expect(listed(objects)).toEqual(['ns1/zz', strict])
    expect(listed([...objects, mesh('rootNamespace: other\n')])).toEqual([
      'ns1/zz',
      'other/istio_converted_static_strict',
    ])
  })

  test('in the root namespace count for its workloads as those of the mesh [Z3]', () => {
    const made = room([
      pod('p', { ns: 'istio-system' }),
      peerAuthentication('r', { selector: {}, ...modeOf('STRICT') }, { ns: 'istio-system' }),
    ])
    expect(made.workload(podUid('p', 'istio-system'))?.authorizationPolicies).toEqual([strict])
  })

  test('are told for ports in ascending order of number', () => {
    const policy: PeerPolicy = {
      namespace: 'ns1',
      name: 'w',
      created: 0,
      selector: app,
      mode: 'UNSET',
      portModes: { 10000: 'DISABLE', 9090: 'PERMISSIVE', 80: 'STRICT', 81: 'UNSET' },
    }
    expect([toPortRules(policy, true), toPortRules(policy, false)]).toEqual([
      { kind: 'exempt', ports: [9090, 10000] },
      { kind: 'strict', ports: [80] },
    ])
  })
})

describe('implicit policies', () => {
  const instance = (name: string, ns = 'ns1') =>
    pod(`${name}-pod`, { ns, ips: ['10.7.0.1'], labels: { 'gateway.networking.k8s.io/gateway-name': name } })
  const use = (name: string) => ({ 'istio.io/use-waypoint': name })
  const allow = (name: string) => `ns1/istio_allow_waypoint_ns1_${name}`
  const objects = [
    namespace('ns1', use('wp')),
    gateway('wp'),
    gateway('a'),
    gateway('empty'),
    instance('wp'),
    instance('a'),
    authorization('ap', fits),
    service('s', { selector: app }, { labels: use('a') }),
    service('t', { selector: app }, { labels: use('empty') }),
    service('u', { selector: app }),
  ]

  test('come last: those of the waypoints of its services, then its own [Z8]', () => {
    expect(listed(objects, { autoAllowWaypointPolicy: true })).toEqual(['ns1/ap', allow('a'), allow('wp')])
  })

  test('are not listed unless the setting says so [Z8]', () => {
    expect(listed(objects)).toEqual(['ns1/ap'])
  })

  test('come and go with the pods of the waypoint [Z8]', () => {
    const made = room([pod('p', { labels: app }), ...objects], { autoAllowWaypointPolicy: true })
    expect(made.apply(instance('empty')).changed).toEqual([podUid('empty-pod'), p])
    expect(made.workload(p)?.authorizationPolicies).toEqual(['ns1/ap', allow('a'), allow('empty'), allow('wp')])
  })
})
