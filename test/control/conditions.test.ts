// SPDX-License-Identifier: Apache-2.0
// What objects are told, in words: every reason of section and kind. No server: rows of the graph.

import { describe, expect, test } from '@jest/globals'
import { createPolicyWrites } from '../../src/control/policy-conditions.js'
import {
  createServiceEntryWrites,
  createServiceWrites,
  createWorkloadEntryWrites,
} from '../../src/control/waypoint-conditions.js'
import { Room, type KubeObject } from '../address/room.js'
import { namespace, policy, service, serviceEntry, waypoint } from './room.js'

/** What the writers want of these objects: `type status reason: message`, by object. */
function tell(...objects: readonly unknown[]): Readonly<Record<string, readonly string[]>> {
  const room = new Room()
  const { graph, address } = room
  const tables = [createServiceWrites, createServiceEntryWrites, createWorkloadEntryWrites, createPolicyWrites].map(
    (create) => create(graph, address.domain),
  )
  room.apply(...(objects as KubeObject[]))
  return Object.fromEntries(
    tables
      .flatMap((table) => [...table.values()])
      .map(({ kind, name, wanted }) => [
        `${kind} ${name}`,
        wanted.map((c) => `${c.type} ${c.status} ${c.reason}: ${c.message}`),
      ]),
  )
}

const labelled = (labels: Record<string, string>, annotations: Record<string, string> = {}) => ({
  labels: { 'istio.io/use-waypoint': 'wp', ...labels },
  annotations,
})
const mesh = (config: object) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'istio', namespace: 'istio-system' },
  data: { mesh: JSON.stringify(config) },
})
const boundTo = 'istio.io/WaypointBound True WaypointAccepted: traffic goes through waypoint shop/wp'

describe('a bound service hears', () => {
  const of = (metadata: object): readonly string[] | undefined =>
    tell(namespace('shop'), waypoint('shop', 'wp'), service('shop', 's', metadata))['Service s']

  test.each([
    ['of its waypoint', labelled({}), boundTo],
    [
      'that ingress traffic goes there too',
      labelled({ 'istio.io/ingress-use-waypoint': 'true' }),
      `${boundTo}; ingress traffic does so too`,
    ],
    [
      'that ingress traffic does not',
      labelled({ 'istio.io/ingress-use-waypoint': 'what' }),
      `${boundTo}; ingress traffic goes past it`,
    ],
    [
      'why its canary is not attached',
      labelled({ 'istio.io/use-waypoint-canary': 'wp' }),
      `${boundTo}; canary waypoint shop/wp is not attached: it is the primary waypoint itself`,
    ],
    [
      'that its canary has no weight',
      labelled({ 'istio.io/use-waypoint-canary': 'c' }, { 'istio.io/use-waypoint-canary-weight': 'much' }),
      `${boundTo}; canary waypoint shop/c is not attached: annotation istio.io/use-waypoint-canary-weight is no whole number from 0 to 100`,
    ],
  ])('%s', (_, metadata, sentence) => {
    expect(of(metadata)).toEqual([sentence])
  })

  test('nothing without a reference', () => {
    expect(of({})).toBeUndefined()
    expect(of({ labels: { 'istio.io/use-waypoint': 'none' } })).toBeUndefined()
  })
})

describe('an entry hears', () => {
  const of = (hosts: readonly string[], metadata: object = {}, ...more: readonly unknown[]) =>
    tell(namespace('shop'), serviceEntry('shop', 'e', hosts, { metadata }), ...more)['ServiceEntry e']
  const wildcard =
    'istio.io/WaypointMissing True NoWaypointForWildcardService: a waypoint has to tell which host of *.b.example is meant, and none is bound'

  test('that a wildcard needs a waypoint, one host of several being enough', () => {
    expect(of(['a.example', '*.b.example'])).toEqual([wildcard])
    expect(of(['*.b.example', 'a.example'])).toEqual([wildcard])
    expect(of(['a.example'])).toBeUndefined()
    expect(of(['*.b.example'], labelled({}), waypoint('shop', 'wp'))).toEqual([boundTo])
  })

  test('that racing needs one, before anything about wildcards', () => {
    expect(of(['*.b.example'], { annotations: { 'istio.io/connect-strategy': 'race_first_tcp_connect' } })).toEqual([
      'istio.io/WaypointMissing True NoWaypointForRacingConnectStrategy: connections are raced by waypoints alone, and none is bound',
    ])
  })

  test('who sees it, where that is configured', () => {
    const visible = (defaultVisibility: string) => mesh({ serviceEntryVisibility: { defaultVisibility } })
    expect(of(['a.example'], {}, visible('PUBLIC'))).toEqual([
      'istio.io/VisibilityApplied True Public: the mesh configuration shows it to every namespace',
    ])
    expect(of(['a.example'], {}, visible('NAMESPACE'))).toEqual([
      'istio.io/VisibilityApplied True Namespace: the mesh configuration shows it to its own namespace alone',
    ])
    expect(of(['*.b.example'], {}, visible('NONE'))).toBeUndefined()
  })

  test('nothing while another entry has its host', () => {
    const older = serviceEntry('shop', 'older', ['*.b.example'], {
      metadata: { creationTimestamp: '2020-01-01T00:00:00Z' },
    })
    expect(of(['*.b.example'], {}, older)).toBeUndefined()
  })
})

describe('a policy hears', () => {
  const about = (spec: object, metadata: object = {}, ns = 'shop') => {
    const told = tell(
      namespace('shop'),
      namespace('istio-system'),
      waypoint('shop', 'wp'),
      waypoint('istio-system', 'wp'),
      {
        apiVersion: 'gateway.networking.k8s.io/v1',
        kind: 'GatewayClass',
        metadata: { name: 'istio-waypoint' },
        spec: { controllerName: 'istio.io/mesh-controller' },
      },
      {
        apiVersion: 'gateway.networking.k8s.io/v1',
        kind: 'GatewayClass',
        metadata: { name: 'foreign' },
        spec: { controllerName: 'example.org/other' },
      },
      service('shop', 'with', labelled({})),
      service('shop', 'without'),
      policy(ns, 'p', spec, metadata),
    )
    return told['AuthorizationPolicy p']
  }
  const targets = (...refs: readonly string[]) => ({
    targetRefs: refs.map((text) => {
      const [group = '', kind, name] = text.split(' ')
      return { group: group === 'core' ? '' : group, kind, name }
    }),
  })
  const gateways = 'gateway.networking.k8s.io'
  const l7 = { to: [{ operation: { methods: ['GET'], paths: ['/x'] } }] }
  const blind = 'ztunnel does not look into requests and cannot judge methods, paths'

  test.each([
    ['that it is enforced', {}, {}, 'ZtunnelAccepted True Accepted: enforced by ztunnel'],
    [
      'that it is only tried out',
      {},
      { annotations: { 'istio.io/dry-run': 'true' } },
      'ZtunnelAccepted False UnsupportedValue: not sent: it is only tried out, and AMBIENT_ENABLE_DRY_RUN_AUTHORIZATION_POLICY is off',
    ],
    [
      'of an action that is not known',
      { action: 'AUDIT' },
      {},
      'ZtunnelAccepted False UnsupportedValue: not sent: ztunnel knows no action AUDIT, only ALLOW and DENY',
    ],
    [
      'that less is allowed',
      { rules: [l7] },
      {},
      `ZtunnelAccepted True UnsupportedValue: ${blind}: rules that allow by them are left out, so less is allowed than was asked for`,
    ],
    [
      'that more is denied',
      { action: 'DENY', rules: [{ to: [{ operation: { ports: ['80'], methods: ['GET'], paths: ['/x'] } }] }] },
      {},
      `ZtunnelAccepted True UnsupportedValue: ${blind}: it denies without looking at them, so more is denied than was asked for`,
    ],
    [
      'that nothing is denied',
      { action: 'DENY', rules: [l7] },
      {},
      `ZtunnelAccepted True UnsupportedValue: ${blind}: no rule is left that can be enforced, so nothing is denied; a policy for a waypoint could`,
    ],
    [
      'of a selector that selects nobody',
      { action: 'DENY', selector: {}, rules: [{}] },
      {},
      'ZtunnelAccepted True Accepted: sent, and without effect: its selector has no labels, so no workload has it; leave the selector out to mean all',
    ],
    [
      'of values that mean nothing',
      { action: 'DENY', rules: [{ to: [{ operation: { ports: ['http'] } }] }] },
      {},
      'ZtunnelAccepted True Accepted: sent, and without effect; left out because they cannot be read: ports "http"',
    ],
    [
      'of the waypoint that takes it',
      targets(`${gateways} Gateway wp`),
      {},
      'WaypointAccepted True Accepted: taken by waypoint shop/wp',
    ],
    [
      'of a waypoint that is not there',
      targets(`${gateways} Gateway no`),
      {},
      'WaypointAccepted False TargetNotFound: no waypoint shop/no is ready',
    ],
    [
      'of the waypoint of a service',
      targets('core Service with'),
      {},
      'WaypointAccepted True Accepted: taken by waypoint shop/wp for Service shop/with',
    ],
    [
      'of a service without one',
      targets('core Service without'),
      {},
      'WaypointAccepted False AncestorNotBound: Service shop/without is bound to no waypoint that could take it',
    ],
    [
      'of a service that is not there',
      targets('core Service no'),
      {},
      'WaypointAccepted False TargetNotFound: there is no Service shop/no',
    ],
    [
      'of an entry that is not there',
      targets('networking.istio.io ServiceEntry no'),
      {},
      'WaypointAccepted False TargetNotFound: there is no ServiceEntry shop/no',
    ],
    [
      'of a kind that takes none',
      targets('core Pod x'),
      {},
      'WaypointAccepted False Invalid: no policy can be attached to a Pod',
    ],
    [
      'that a class is for the root namespace',
      targets(`${gateways} GatewayClass istio-waypoint`),
      {},
      'WaypointAccepted False Invalid: only policies of namespace istio-system can be attached to GatewayClass istio-waypoint',
    ],
    [
      'that one of two is taken',
      targets('core Service with', 'core Service no'),
      {},
      'WaypointAccepted True PartiallyInvalid: taken by waypoint shop/wp for Service shop/with; there is no Service shop/no',
    ],
    [
      'that both are',
      targets('core Service with', `${gateways} Gateway wp`),
      {},
      'WaypointAccepted True Accepted: taken by waypoint shop/wp for Service shop/with; taken by waypoint shop/wp',
    ],
    [
      'that neither is',
      targets('core Service without', 'core Service no'),
      {},
      'WaypointAccepted False Invalid: Service shop/without is bound to no waypoint that could take it; there is no Service shop/no',
    ],
  ])('%s', (_, spec, metadata, sentence) => {
    expect(about(spec, metadata)).toEqual([sentence])
  })

  test('of a class, in the root namespace', () => {
    const of = (name: string) => about(targets(`${gateways} GatewayClass ${name}`), {}, 'istio-system')
    expect([of('istio-waypoint'), of('foreign'), of('no')]).toEqual([
      ['WaypointAccepted True Accepted: taken by every waypoint of GatewayClass istio-waypoint'],
      [
        'WaypointAccepted False Invalid: GatewayClass foreign is not of waypoints; its controller is not istio.io/mesh-controller',
      ],
      ['WaypointAccepted False TargetNotFound: there is no GatewayClass no'],
    ])
  })
})
