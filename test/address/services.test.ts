// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { ip, namespace, room, service, serviceEntry, serviceName } from './objects.js'

const s = serviceName('s')
const of = (spec: object, made: object = {}) => room([service('s', { ...spec }, made)]).service(s)
const annotation = (word: string) => ({ 'networking.istio.io/traffic-distribution': word })
const zone = { routingPreference: [6, 1, 2], mode: 2, healthPolicy: 0 }
const node = { routingPreference: [6, 1, 2, 3, 4], mode: 2, healthPolicy: 0 }

describe('a Service', () => {
  test('is published whole [S2,S3,S9]', () => {
    expect(of({})).toEqual({
      name: 's',
      namespace: 'ns1',
      hostname: 's.ns1.svc.cluster.local',
      addresses: [{ network: 'nw', address: ip('10.0.0.1') }],
      ports: [{ servicePort: 80, targetPort: 8080, appProtocol: 1 }],
      subjectAltNames: [],
      waypoint: undefined,
      loadBalancing: undefined,
      ipFamilies: 1,
      canonical: true,
      ingressUseWaypoint: false,
      weightedWaypoints: [],
      visibility: 0,
    })
  })

  test('that is but another name is not published [S1]', () => {
    expect(of({ type: 'ExternalName', externalName: 'x.ex' })).toBeUndefined()
  })

  test.each([
    ['headless', { clusterIPs: ['None'], clusterIP: 'None' }, []],
    ['that has only the single field', { clusterIPs: [], clusterIP: '10.0.0.7' }, ['10.0.0.7']],
    ['of two families', { clusterIPs: ['10.0.0.7', 'fd00::7'] }, ['10.0.0.7', 'fd00::7']],
    ['with a load balancer', { type: 'LoadBalancer', externalIPs: ['1.1.1.1'] }, ['10.0.0.1']],
  ])('%s has its own addresses only [S3]', (_, spec, expected) => {
    expect(of(spec)?.addresses).toEqual(expected.map((text) => ({ network: 'nw', address: ip(text) })))
  })

  test('with an address that is none is not published [S3]', () => {
    expect(of({ clusterIPs: ['10.0.0.1', 'junk'] })).toBeUndefined()
  })

  test.each<readonly [string, object, object | undefined]>([
    ['PreferClose', { trafficDistribution: 'PreferClose' }, zone],
    ['PreferSameNode', { trafficDistribution: 'PreferSameNode' }, node],
    [
      'the local policy, before any distribution',
      { internalTrafficPolicy: 'Local', trafficDistribution: 'PreferClose' },
      { routingPreference: [4], mode: 1, healthPolicy: 0 },
    ],
    [
      'members that are not ready',
      { publishNotReadyAddresses: true },
      { routingPreference: [], mode: 0, healthPolicy: 1 },
    ],
    ['a word that it does not know', { trafficDistribution: 'preferclose' }, undefined],
  ])('is balanced by %s [S7,D1]', (_, spec, expected) => {
    expect(of(spec)?.loadBalancing).toEqual(expected)
  })

  test('that takes members that are not ready does not make others do so [S7]', () => {
    const made = room([
      service('s', { publishNotReadyAddresses: true, trafficDistribution: 'PreferSameZone' }),
      service('t', { trafficDistribution: 'PreferSameZone' }),
    ])
    expect(made.service(s)?.loadBalancing).toEqual({ ...zone, healthPolicy: 1 })
    expect(made.service(serviceName('t'))?.loadBalancing).toEqual(zone)
    expect([made.source.get(s)?.bringsMembers, made.source.get(serviceName('t'))?.bringsMembers]).toEqual([true, false])
  })

  test.each<readonly [string, object, object | undefined]>([
    ['its namespace', {}, zone],
    ['itself, before its namespace', { annotations: annotation('PreferSameNode') }, node],
    ['a word of its own that nobody knows: by nothing', { annotations: annotation('bogus') }, undefined],
    ['an empty word: by its namespace', { annotations: annotation('') }, zone],
  ])('is balanced by the annotation of %s, and so is an entry [D1]', (_, own, expected) => {
    const made = room([
      namespace('ns1', {}, annotation('PreferClose')),
      service('s', {}, own),
      serviceEntry('se', { hosts: ['h.ex'], resolution: 'STATIC' }, own),
    ])
    expect([made.service(s)?.loadBalancing, made.service('ns1/h.ex')?.loadBalancing]).toEqual([expected, expected])
  })

  test.each([
    [['IPv4'], 1],
    [['IPv6'], 2],
    [['IPv4', 'IPv6'], 3],
    [[], 0],
  ])('of families %j says so [S8]', (ipFamilies, expected) => {
    expect(of({ ipFamilies })?.ipFamilies).toBe(expected)
  })

  test.each<readonly [object, number]>([
    [{ name: 'grpc-foo' }, 3],
    [{ name: 'x', appProtocol: 'kubernetes.io/h2c' }, 2],
    [{ name: 'x', appProtocol: 'kubernetes.io/ws' }, 1],
    [{ name: 'x', appProtocol: 'kubernetes.io/wss' }, 5],
    [{ name: 'http', appProtocol: 'tcp' }, 4],
    [{ name: 'grpc-web' }, 0],
    [{ name: 'GRPC-Web-x' }, 0],
    [{ name: '', port: 3306 }, 4],
    [{ name: 'mysql', port: 3306 }, 0],
    [{ name: 'other-mysql', port: 3306 }, 4],
    [{ name: 'dns', port: 53, protocol: 'UDP' }, 0],
    [{ name: 'https' }, 5],
    [{ name: 'HTTP2-x' }, 2],
    [{ name: 'constructor' }, 0],
  ])('speaks on port %j the protocol %d [S5]', (port, expected) => {
    expect(of({ ports: [{ port: 80, protocol: 'TCP', ...port }] })?.ports[0]?.appProtocol).toBe(expected)
  })
})
