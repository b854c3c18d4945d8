// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import {
  authorization,
  endpointUid,
  gateway,
  listener,
  namespace,
  peerAuthentication,
  pod,
  podUid,
  room,
  service,
  serviceEntry,
  serviceName,
  slice,
  sliceUid,
} from './objects.js'

const app = { app: 'a' }
const s = serviceName('s')

describe('an explanation', () => {
  test('of a pod says what it comes from and why it is as it is', () => {
    const made = room([
      namespace('ns1', { 'istio.io/use-waypoint': 'wp' }),
      gateway('wp'),
      pod('p', { labels: app, conditions: [], annotations: { 'ambient.istio.io/redirection': 'enabled' } }),
      service('s', { selector: app }),
      authorization('ap', { selector: { matchLabels: app } }),
      peerAuthentication('pa', { mtls: { mode: 'STRICT' } }),
    ])
    const found = made.address.explain(podUid('p'))
    expect([found?.source, found?.address, found?.waypoint?.kind]).toEqual([
      { kind: 'Pod', cluster: 'c0', namespace: 'ns1', name: 'p' },
      { kind: 'workload', workload: made.workload(podUid('p')) },
      'bound',
    ])
    expect(found?.why).toEqual([
      'from Pod ns1/p',
      'unhealthy: the pod is not Ready',
      'HBONE: annotation ambient.istio.io/redirection says that its traffic is captured',
      'the selector of Service ns1/s fits',
      'waypoint ns1/wp by the label of its namespace',
      'policy ns1/ap: its selector fits',
      'peers need an identity: PeerAuthentication ns1/pa is STRICT',
    ])
  })

  test('of a service names who claims its host name too, and what became of its waypoints', () => {
    const labels = {
      'istio.io/use-waypoint': 'wp',
      'istio.io/use-waypoint-canary': 'gone',
      'istio.io/ingress-use-waypoint': 'true',
    }
    const made = room([
      gateway('wp'),
      service('s', { publishNotReadyAddresses: true, clusterIPs: [] }, { labels }),
      serviceEntry('old', { hosts: ['s.ns1.svc.cluster.local'] }),
    ])
    const found = made.address.explain(s)
    expect([found?.source, found?.hidden, found?.canary]).toEqual([
      { kind: 'Service', cluster: 'c0', namespace: 'ns1', name: 's' },
      [{ kind: 'ServiceEntry', cluster: 'c0', namespace: 'ns1', name: 'old' }],
      { kind: 'refused', reason: 'WaypointIsNotReady', reference: 'ns1/gone' },
    ])
    expect(found?.why).toEqual([
      'published by Service ns1/s',
      'ServiceEntry ns1/old claims s.ns1.svc.cluster.local too and is not published',
      'waypoint ns1/wp by its own label',
      'canary waypoint ns1/gone is not used, WaypointIsNotReady: it does not exist or has no address yet',
      'ingress traffic goes through the waypoint too',
      'it has no address of its own',
      'unhealthy members take traffic too',
    ])
  })

  test('of a service that is not canonical says where others find the name', () => {
    const made = room([
      serviceEntry('a', { hosts: ['h.ex'] }, { at: 2 }),
      serviceEntry('b', { hosts: ['h.ex'] }, { ns: 'ns0', at: 1 }),
    ])
    expect(made.address.explain('ns1/h.ex')?.why).toContain('other namespaces find h.ex in namespace ns0')
  })

  test('of a waypoint that is not used gives the reason', () => {
    const made = room([
      gateway('wp', { ns: 'wns', listeners: [listener({ from: 'Same' })] }),
      service('s', {}, { labels: { 'istio.io/use-waypoint': 'wp', 'istio.io/use-waypoint-namespace': 'wns' } }),
    ])
    expect(made.address.explain(s)?.waypoint).toEqual({
      kind: 'refused',
      reason: 'AttachmentDenied',
      reference: 'wns/wp',
    })
    expect(made.address.explain(s)?.why).toContain(
      'waypoint wns/wp is not used, AttachmentDenied: its allowedRoutes do not let this namespace attach',
    )
  })

  test('of an endpoint names the object that brings it', () => {
    const made = room([
      service('s'),
      slice('sl', 's', [{ addresses: ['1.1.1.1'] }]),
      serviceEntry('se', { hosts: ['h.ex'], resolution: 'DNS' }),
      gateway('gw', {
        class: 'istio-remote',
        labels: { 'topology.istio.io/network': 'beta' },
        addresses: [{ type: 'IPAddress', value: '9.9.9.9' }],
        listeners: [listener(undefined)],
      }),
    ])
    const names = [sliceUid('sl', '1.1.1.1'), endpointUid('se', 'h.ex'), 'NetworkGateway/beta/9.9.9.9/15008']
    expect(names.map((name) => made.address.explain(name)?.source)).toEqual([
      { kind: 'EndpointSlice', cluster: 'c0', namespace: 'ns1', name: 'sl' },
      { kind: 'ServiceEntry', cluster: 'c0', namespace: 'ns1', name: 'se' },
      { kind: 'Gateway', cluster: 'c0', namespace: 'ns1', name: 'gw' },
    ])
  })

  test('of a name that nobody has is none', () => {
    expect(room().address.explain('ns1/x')).toBeUndefined()
  })
})
