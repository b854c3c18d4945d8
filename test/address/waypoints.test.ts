// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import type { WaypointOutcome } from '../../src/address/waypoint-reference.js'
import { parseInboundBinding } from '../../src/address/waypoints.js'
import {
  endpointUid,
  gateway,
  gatewayClass,
  ip,
  listener,
  mesh,
  namespace,
  pod,
  podUid,
  room,
  service,
  serviceEntry,
  serviceName,
  workloadEntry,
  type GatewayMade,
} from './objects.js'
import type { KubeObject, Room } from './room.js'

const p = podUid('p')
const s = serviceName('s')
const use = (name: string, more: object = {}) => ({ 'istio.io/use-waypoint': name, ...more })
const to = (hostname: string, namespaceOf = 'ns1') => ({
  hostname: { namespace: namespaceOf, hostname },
  hboneMtlsPort: 15008,
})
const waypointOf = (made: Room, name: string) => (made.workload(name) ?? made.service(name))?.waypoint
const said = (outcome: WaypointOutcome | undefined) =>
  outcome?.kind === 'refused' ? `${outcome.reason}(${outcome.reference})` : outcome?.kind
const why = (made: Room, name: string) => said(made.address.explain(name)?.waypoint)

describe('a waypoint', () => {
  test('without address is not ready; with one, those who wait for it are told [V1]', () => {
    const made = room([
      gateway('wp', { addresses: [] }),
      pod('p', { labels: use('wp') }),
      pod('other', { ips: ['10.1.0.2'] }),
      service('s', {}, { labels: use('wp') }),
    ])
    expect([why(made, p), why(made, s), waypointOf(made, p)]).toEqual([
      'WaypointIsNotReady(ns1/wp)',
      'WaypointIsNotReady(ns1/wp)',
      undefined,
    ])
    expect(made.apply(gateway('wp'))).toEqual({ changed: [p, s], removed: [] })
    expect([waypointOf(made, p), waypointOf(made, s)]).toEqual([to('wp.ns1'), to('wp.ns1')])
  })

  const address = { network: 'nw', address: ip('10.3.0.1') }
  test.each<readonly [string, NonNullable<GatewayMade['addresses']>, object | undefined]>([
    ['an IP address', [{ type: 'IPAddress', value: '10.3.0.1' }], { address, hboneMtlsPort: 15008 }],
    [
      'a host name before it',
      [
        { type: 'IPAddress', value: '10.3.0.1' },
        { type: 'Hostname', value: 'h' },
      ],
      to('h'),
    ],
    [
      'the first address that is one',
      [
        { type: 'IPAddress', value: 'x' },
        { type: 'IPAddress', value: '10.3.0.1' },
      ],
      { address, hboneMtlsPort: 15008 },
    ],
    ['nothing, yet it is bound', [{ value: '10.3.0.1' }], undefined],
  ])('is at %s [V2,V3]', (_, addresses, expected) => {
    const made = room([gateway('wp', { addresses }), pod('p', { labels: use('wp') })])
    expect([waypointOf(made, p), why(made, p)]).toEqual([expected, 'bound'])
  })

  test.each([
    ['service', false, true],
    ['workload', true, false],
    ['all', true, true],
    ['none', false, false],
    ['other', false, false],
  ])('for %s traffic serves pods: %s, services: %s [V4,V13,V16]', (traffic, pods, services) => {
    const labels = { 'istio.io/waypoint-for': traffic }
    const made = room([
      gateway('wp', { labels }),
      pod('p', { labels: use('wp') }),
      service('s', {}, { labels: use('wp') }),
    ])
    expect([why(made, p), why(made, s)]).toEqual([
      pods ? 'bound' : 'UnsupportedTrafficType(ns1/wp)',
      services ? 'bound' : 'UnsupportedTrafficType(ns1/wp)',
    ])
  })

  test('takes its traffic from its class when it says none, and services alone when neither does [V4]', () => {
    const made = room([
      gatewayClass('istio-waypoint', { 'istio.io/waypoint-for': 'workload' }),
      gateway('wp', { labels: {} }),
      pod('p', { labels: use('wp') }),
      service('s', {}, { labels: use('wp') }),
    ])
    expect([why(made, p), why(made, s)]).toEqual(['bound', 'UnsupportedTrafficType(ns1/wp)'])
    made.apply(gatewayClass('istio-waypoint'))
    expect([why(made, p), why(made, s)]).toEqual(['UnsupportedTrafficType(ns1/wp)', 'bound'])
  })

  test.each([
    ['PROXY', { protocol: 1, port: 0 }],
    ['PROXY/15088', { protocol: 1, port: 15088 }],
    ['NONE', { protocol: 0, port: 0 }],
    ['PROXY/', { protocol: 1, port: 0 }],
    ['PROXY/+5', { protocol: 1, port: 0 }],
    ['PROXY/x', { protocol: 1, port: 0 }],
    ['PROXY/1/2', undefined],
    ['proxy', undefined],
    ['', undefined],
  ])('reads the inbound binding %j [V6]', (text, expected) => {
    expect(parseInboundBinding(text)).toEqual(expected)
  })
})

describe('a reference to a waypoint', () => {
  const both = [gateway('wpn'), gateway('wpo'), namespace('ns1', use('wpn'))]
  test.each([
    ['of its own', use('wpo'), 'wpo.ns1', 'bound'],
    ['of its namespace', undefined, 'wpn.ns1', 'bound'],
    ['to none', use('none'), undefined, 'none'],
    [
      'that leads nowhere: not to the one of its namespace',
      use('missing'),
      undefined,
      'WaypointIsNotReady(ns1/missing)',
    ],
    ['that is empty', use(''), undefined, 'WaypointIsNotReady(ns1/)'],
    [
      'in a namespace without name',
      use('wpo', { 'istio.io/use-waypoint-namespace': '' }),
      undefined,
      'WaypointIsNotReady(/wpo)',
    ],
    ['by a namespace alone is none of its own', { 'istio.io/use-waypoint-namespace': 'ns2' }, 'wpn.ns1', 'bound'],
  ])('%s is followed [V10,V11,V12]', (_, labels, hostname, expected) => {
    const made = room([...both, pod('p', { ...(labels && { labels }) })])
    expect([waypointOf(made, p)?.hostname?.hostname, why(made, p)]).toEqual([hostname, expected])
  })

  const elsewhere = (allowed: object | undefined) =>
    room([
      gateway('wp', { ns: 'wns', listeners: [listener(allowed as never)] }),
      namespace('ns1', { name: 'ns1' }),
      pod('p', { labels: use('wp', { 'istio.io/use-waypoint-namespace': 'wns' }) }),
    ])
  test.each<readonly [string, object | undefined, string]>([
    ['all', { from: 'All' }, 'bound'],
    ['a selector that fits', { from: 'Selector', selector: { matchLabels: { name: 'ns1' } } }, 'bound'],
    [
      'a selector that does not fit',
      { from: 'Selector', selector: { matchLabels: { name: 'x' } } },
      'AttachmentDenied(wns/wp)',
    ],
    ['an empty selector', { from: 'Selector', selector: {} }, 'bound'],
    ['no selector at all', { from: 'Selector' }, 'AttachmentDenied(wns/wp)'],
    [
      'a selector that is broken',
      { from: 'Selector', selector: { matchExpressions: [{ key: 'name', operator: 'In' }] } },
      'AttachmentDenied(wns/wp)',
    ],
    ['its namespace', { from: 'Same' }, 'AttachmentDenied(wns/wp)'],
    ['nobody said who', undefined, 'AttachmentDenied(wns/wp)'],
  ])('from another namespace, where the listener lets in %s [V8,V9]', (_, allowed, expected) => {
    expect(why(elsewhere(allowed), p)).toBe(expected)
  })

  test('is judged anew when an empty selector goes [V8,q21]', () => {
    const made = elsewhere({ from: 'Selector', selector: {} })
    const without = gateway('wp', { ns: 'wns', listeners: [listener({ from: 'Selector' })] })
    expect(made.apply(without).changed).toEqual([p])
  })

  test.each([
    ['PROXY/15088', 'bound'],
    ['PROXY', 'AttachmentDenied(wns/wp)'],
    ['NONE', 'AttachmentDenied(wns/wp)'],
  ])('is judged by the listener of binding %s [V7]', (binding, expected) => {
    const made = room([
      gateway('wp', {
        ns: 'wns',
        annotations: { 'ambient.istio.io/waypoint-inbound-binding': binding },
        listeners: [
          listener({ from: 'Same' }),
          listener({ from: 'Same' }, 15089, 'istio.io/PROXY'),
          listener({ from: 'All' }, 15088, 'TCP'),
        ],
      }),
      pod('p', { labels: use('wp', { 'istio.io/use-waypoint-namespace': 'wns' }) }),
    ])
    expect(why(made, p)).toBe(expected)
  })

  test('from a namespace whose waypoint takes other traffic is an error for services, and nothing for workloads [V13,V16]', () => {
    const made = room([
      namespace('ns1', use('wp')),
      gateway('wp', { labels: { 'istio.io/waypoint-for': 'none' } }),
      service('s'),
      workloadEntry('w', { address: '1.1.1.1' }),
      workloadEntry('own', { address: '1.1.1.2' }, { labels: use('wp') }),
    ])
    const uid = (name: string) => `c0/networking.istio.io/WorkloadEntry/ns1/${name}`
    expect([why(made, s), why(made, uid('w')), why(made, uid('own'))]).toEqual([
      'UnsupportedTrafficType(ns1/wp)',
      'none',
      'UnsupportedTrafficType(ns1/wp)',
    ])
  })

  test('of a private entry may not leave its namespace [V14]', () => {
    const outside = use('wp', { 'istio.io/use-waypoint-namespace': 'other' })
    const objects = [
      gateway('wp', { ns: 'other', listeners: [listener({ from: 'All' })] }),
      gateway('near'),
      serviceEntry('far', { hosts: ['far.ex'] }, { labels: outside }),
      serviceEntry('near', { hosts: ['near.ex'] }, { labels: use('near') }),
    ]
    const made = room(objects)
    expect(why(made, 'ns1/far.ex')).toBe('bound')
    made.apply(mesh('serviceEntryVisibility: {defaultVisibility: NAMESPACE}\n'))
    expect([why(made, 'ns1/far.ex'), why(made, 'ns1/near.ex'), waypointOf(made, 'ns1/far.ex')]).toEqual([
      'CrossNamespaceWaypointForbidden(other/wp)',
      'bound',
      undefined,
    ])
  })
})

describe('the pods and services of a waypoint itself', () => {
  const managed = service('s', {}, { labels: { 'gateway.istio.io/managed': 'istio.io-mesh-controller' } })
  const instance = pod('p', { labels: { 'gateway.networking.k8s.io/gateway-name': 'wp' } })

  test('have no waypoint, and a pod that joins changes itself alone [V13,V15]', () => {
    const made = room([namespace('ns1', use('wp')), gateway('wp'), managed, pod('q', { ips: ['10.1.0.9'] })])
    expect(made.apply(instance)).toEqual({ changed: [p], removed: [] })
    expect([waypointOf(made, s), waypointOf(made, p), why(made, p)]).toEqual([undefined, undefined, 'none'])
    expect(waypointOf(made, podUid('q'))).toEqual(to('wp.ns1'))
  })

  test('are told how traffic enters them [V6,V15]', () => {
    const bound = gateway('wp', { annotations: { 'ambient.istio.io/waypoint-inbound-binding': 'PROXY/15088' } })
    const labels = { 'gateway.networking.k8s.io/gateway-name': 'wp', ...use('wp') }
    const made = room([bound, instance, workloadEntry('w', { address: '1.1.1.1' }, { labels })])
    expect(made.workload(p)?.applicationTunnel).toEqual({ protocol: 1, port: 15088 })
    expect(made.workload('c0/networking.istio.io/WorkloadEntry/ns1/w')).toMatchObject({
      waypoint: undefined,
      applicationTunnel: { protocol: 1, port: 15088 },
    })
    made.apply(gateway('wp', { addresses: [] }))
    expect(made.workload(p)?.applicationTunnel).toBeUndefined()
  })

  test('of a gateway that is not ready are pods like any other [V15]', () => {
    const made = room([namespace('ns1', use('other')), gateway('other'), gateway('wp', { addresses: [] }), instance])
    expect(waypointOf(made, p)).toEqual(to('other.ns1'))
  })
})

describe('ingress traffic', () => {
  const ingress = (value: string) => ({ 'istio.io/ingress-use-waypoint': value })
  test.each([
    ['true', true],
    ['True', true],
    ['1', true],
    ['', false],
    ['eurt', false],
    ['false', false],
  ])('goes through the waypoint by label %j: %s [V18]', (value, expected) => {
    const made = room([gateway('wp'), service('s', {}, { labels: { ...use('wp'), ...ingress(value) } })])
    expect(made.service(s)?.ingressUseWaypoint).toBe(expected)
  })

  test('goes by the own label before that of the namespace, and nowhere without a waypoint [V18]', () => {
    const labelled = namespace('ns1', ingress('true'))
    const made = room([
      labelled,
      gateway('wp'),
      service('s', {}, { labels: { ...use('wp'), ...ingress('false') } }),
      service('t', {}, { labels: use('wp') }),
      service('u'),
    ])
    expect(['s', 't', 'u'].map((name) => made.service(serviceName(name))?.ingressUseWaypoint)).toEqual([
      false,
      true,
      false,
    ])
  })
})

describe('a canary', () => {
  const canary = (name: string) => ({ 'istio.io/use-waypoint-canary': name })
  const weight = (value: string | undefined) =>
    value === undefined ? {} : { annotations: { 'istio.io/use-waypoint-canary-weight': value } }
  const waypoints: readonly KubeObject[] = [gateway('wp'), gateway('c')]
  const canaryOf = (made: Room) => {
    const found = made.address.explain(s)?.canary
    return found?.kind === 'refused' ? `${found.reason}(${found.reference})` : found?.kind
  }
  const weights = (made: Room) =>
    made.service(s)?.weightedWaypoints.map((each) => `${each.destination?.hostname?.hostname} ${each.weight}`)

  test.each<readonly [string, string, string | undefined, readonly string[], string]>([
    ['with a weight', 'c', '5', ['wp.ns1 95', 'c.ns1 5'], 'bound'],
    ['with a signed weight', 'c', '+5', ['wp.ns1 95', 'c.ns1 5'], 'bound'],
    ['with everything', 'c', '100', ['wp.ns1 0', 'c.ns1 100'], 'bound'],
    ['without weight', 'c', undefined, ['wp.ns1 100', 'c.ns1 0'], 'bound'],
    ['with a word for a weight', 'c', 'abc', [], 'CanaryInvalidWeight(ns1/c)'],
    ['with a negative weight', 'c', '-1', [], 'CanaryInvalidWeight(ns1/c)'],
    ['with more than everything', 'c', '101', [], 'CanaryInvalidWeight(ns1/c)'],
    ['that is missing', 'gone', '5', [], 'WaypointIsNotReady(ns1/gone)'],
    ['that is the primary', 'wp', 'abc', [], 'CanarySameAsPrimary(ns1/wp)'],
    ['that is none', 'none', '5', [], 'none'],
    ['that is empty', '', '5', [], 'none'],
  ])('%s shares traffic with the primary or does not [V19,V21,V22,V23,V24]', (_, name, text, expected, outcome) => {
    const made = room([...waypoints, service('s', {}, { labels: { ...use('wp'), ...canary(name) }, ...weight(text) })])
    expect([weights(made), canaryOf(made), waypointOf(made, s)]).toEqual([expected, outcome, to('wp.ns1')])
  })

  test('of a namespace is inherited with its weight, but not by who has a waypoint of its own [V20]', () => {
    const inherited = namespace('ns1', { ...use('wp'), ...canary('c') }, weight('30').annotations)
    const made = room([inherited, ...waypoints, service('s')])
    expect(weights(made)).toEqual(['wp.ns1 70', 'c.ns1 30'])
    made.apply(service('s', {}, { labels: use('wp') }))
    expect(weights(made)).toEqual([])
    made.apply(service('s', {}, weight('10')))
    expect(weights(made)).toEqual(['wp.ns1 90', 'c.ns1 10'])
  })

  test.each([
    ['the primary', 'wp'],
    ['the canary', 'c'],
  ])(
    'shares nothing when %s has no usable address: an entry that leads nowhere costs the service [V2,V24]',
    (_, bad) => {
      const made = room([
        ...['wp', 'c'].map((name) => (name === bad ? gateway(name, { addresses: [{ value: 'x' }] }) : gateway(name))),
        service('s', {}, { labels: { ...use('wp'), ...canary('c') } }),
      ])
      expect(weights(made)).toEqual([])
    },
  )
})

test('endpoints of an entry follow their own labels [V15,E5]', () => {
  const entry = serviceEntry(
    'se',
    {
      hosts: ['h.ex'],
      resolution: 'STATIC',
      endpoints: [{ address: '1.1.1.1', labels: use('gone') }, { address: '2.2.2.2' }],
    },
    { labels: use('wp') },
  )
  const made = room([gateway('wp'), entry])
  expect([
    why(made, endpointUid('se', '1.1.1.1')),
    why(made, endpointUid('se', '2.2.2.2')),
    why(made, 'ns1/h.ex'),
  ]).toEqual(['WaypointIsNotReady(ns1/gone)', 'none', 'bound'])
})
