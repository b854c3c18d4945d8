// SPDX-License-Identifier: Apache-2.0
// Objects as people write them, and what an API server would have added.

import { describe, expect, test } from '@jest/globals'
import { completeObject, formatInventedUid } from '../../src/kube/defaults.js'
import type { Kind } from '../../src/kube/records.js'

const metadata = { name: 'a', namespace: 'ns', uid: 'u' }

/** The object with its defaults, without the metadata that every case shares. */
function complete(kind: Kind, rest: object): object {
  const { metadata: _shared, ...more } = completeObject(kind, { metadata, ...rest }).object as { metadata: object }
  return more
}

describe('metadata', () => {
  test('a namespace and a uid are added where they are left out', () => {
    expect(completeObject('Pod', { metadata: { name: 'a' } }).object.metadata).toEqual({
      name: 'a',
      namespace: 'default',
      uid: formatInventedUid('Pod', 'default', 'a'),
    })
  })

  test('what is written stays', () => {
    const written = {
      name: 'a',
      namespace: 'ns',
      uid: 'u-7',
      creationTimestamp: '2026-01-01T00:00:00Z',
      labels: { a: 'b' },
    }
    expect(completeObject('ServiceEntry', { metadata: written }).object.metadata).toEqual(written)
  })

  test('an object of the whole cluster gets no namespace', () => {
    expect(completeObject('Node', { metadata: { name: 'n' } }).object.metadata).toEqual({
      name: 'n',
      uid: formatInventedUid('Node', '', 'n'),
    })
  })

  test('a Namespace carries its name as a label, beside its own', () => {
    const uid = formatInventedUid('Namespace', '', 'shop')
    expect(completeObject('Namespace', { metadata: { name: 'shop', labels: { a: 'b' } } }).object.metadata).toEqual({
      name: 'shop',
      uid,
      labels: { a: 'b', 'kubernetes.io/metadata.name': 'shop' },
    })
    expect(completeObject('Namespace', { metadata: { name: 'shop' } }).object.metadata).toEqual({
      name: 'shop',
      uid,
      labels: { 'kubernetes.io/metadata.name': 'shop' },
    })
  })

  test('an invented uid looks like one, is always the same, and is another for another kind, namespace or name', () => {
    const uid = formatInventedUid('Pod', 'ns', 'a')
    expect(uid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    expect(formatInventedUid('Pod', 'ns', 'a')).toBe(uid)
    const others = [
      formatInventedUid('Service', 'ns', 'a'),
      formatInventedUid('Pod', 'ns2', 'a'),
      formatInventedUid('Pod', 'ns', 'b'),
    ]
    expect(new Set([uid, ...others]).size).toBe(4)
  })

  test('no creationTimestamp is invented, and no metadata', () => {
    expect(completeObject('Pod', { metadata: { name: 'a' } }).object.metadata).not.toHaveProperty('creationTimestamp')
    expect(completeObject('Node', {}).object).toEqual({})
  })
})

describe('by kind', () => {
  const cluster = { type: 'ClusterIP', internalTrafficPolicy: 'Cluster' }

  test.each<[string, Kind, object, object]>([
    [
      'a Service port is TCP and goes to the port of the same number',
      'Service',
      {
        spec: {
          clusterIP: '10.0.0.1',
          ports: [{ port: 80 }, { port: 53, protocol: 'UDP', targetPort: 'dns' }, { port: 81, targetPort: 0 }],
        },
      },
      {
        spec: {
          ...cluster,
          clusterIP: '10.0.0.1',
          clusterIPs: ['10.0.0.1'],
          ipFamilies: ['IPv4'],
          ports: [
            { port: 80, protocol: 'TCP', targetPort: 80 },
            { port: 53, protocol: 'UDP', targetPort: 'dns' },
            { port: 81, protocol: 'TCP', targetPort: 81 },
          ],
        },
      },
    ],
    [
      'an IPv6 Service',
      'Service',
      { spec: { clusterIP: 'fd00::1' } },
      { spec: { ...cluster, clusterIP: 'fd00::1', clusterIPs: ['fd00::1'], ipFamilies: ['IPv6'] } },
    ],
    [
      'families come from clusterIPs',
      'Service',
      { spec: { clusterIPs: ['fd00::1', '10.0.0.1'] } },
      { spec: { ...cluster, clusterIPs: ['fd00::1', '10.0.0.1'], ipFamilies: ['IPv6', 'IPv4'] } },
    ],
    [
      'a headless Service has no family of its own',
      'Service',
      { spec: { clusterIP: 'None' } },
      { spec: { ...cluster, clusterIP: 'None', clusterIPs: ['None'] } },
    ],
    [
      'an ExternalName has no address',
      'Service',
      { spec: { type: 'ExternalName', externalName: 'a.example' } },
      { spec: { type: 'ExternalName', externalName: 'a.example' } },
    ],
    [
      'a Service as written whole',
      'Service',
      {
        spec: {
          type: 'NodePort',
          clusterIP: '10.0.0.1',
          clusterIPs: ['10.0.0.1'],
          ipFamilies: ['IPv4'],
          internalTrafficPolicy: 'Local',
        },
      },
      {
        spec: {
          type: 'NodePort',
          clusterIP: '10.0.0.1',
          clusterIPs: ['10.0.0.1'],
          ipFamilies: ['IPv4'],
          internalTrafficPolicy: 'Local',
        },
      },
    ],
    [
      'a Pod',
      'Pod',
      { spec: { containers: [{ name: 'c', ports: [{ containerPort: 80 }] }], initContainers: [{ name: 'i' }] } },
      {
        spec: {
          serviceAccountName: 'default',
          containers: [{ name: 'c', ports: [{ containerPort: 80, protocol: 'TCP' }] }],
          initContainers: [{ name: 'i' }],
        },
      },
    ],
    ['a Pod with its own account', 'Pod', { spec: { serviceAccountName: 'x' } }, { spec: { serviceAccountName: 'x' } }],
    ['a Pod without a spec', 'Pod', {}, { spec: { serviceAccountName: 'default' } }],
    [
      'an EndpointSlice port',
      'EndpointSlice',
      { ports: [{ port: 80 }, { name: 'x', protocol: 'UDP' }] },
      {
        ports: [
          { port: 80, name: '', protocol: 'TCP' },
          { name: 'x', protocol: 'UDP' },
        ],
      },
    ],
    [
      'a Gateway',
      'Gateway',
      {
        spec: {
          listeners: [
            { port: 1 },
            { allowedRoutes: {} },
            { allowedRoutes: { namespaces: { selector: {} } } },
            { allowedRoutes: { namespaces: { from: 'All' } } },
          ],
        },
        status: { addresses: [{ value: '10.0.0.1' }, { type: 'Hostname', value: 'a.example' }] },
      },
      {
        spec: {
          listeners: [
            { port: 1, allowedRoutes: { namespaces: { from: 'Same' } } },
            { allowedRoutes: { namespaces: { from: 'Same' } } },
            { allowedRoutes: { namespaces: { from: 'Same', selector: {} } } },
            { allowedRoutes: { namespaces: { from: 'All' } } },
          ],
        },
        status: {
          addresses: [
            { type: 'IPAddress', value: '10.0.0.1' },
            { type: 'Hostname', value: 'a.example' },
          ],
        },
      },
    ],
    [
      'a ServiceEntry gets nothing',
      'ServiceEntry',
      { spec: { hosts: ['a.example'], ports: [{ number: 80 }] } },
      { spec: { hosts: ['a.example'], ports: [{ number: 80 }] } },
    ],
    [
      'null counts as left out',
      'Pod',
      { spec: { serviceAccountName: null } },
      { spec: { serviceAccountName: 'default' } },
    ],
    [
      'wrong types stay for others to judge',
      'Service',
      { spec: { clusterIP: 7, clusterIPs: '10.0.0.1', ports: [80, null] } },
      { spec: { ...cluster, clusterIP: 7, clusterIPs: '10.0.0.1', ipFamilies: ['IPv4'], ports: [80, null] } },
    ],
    ['a spec of a wrong type', 'Pod', { spec: 'x' }, { spec: 'x' }],
  ])('%s', (_what, kind, written, completed) => {
    expect(complete(kind, written)).toEqual(completed)
  })
})

describe('what is not made up', () => {
  const noVip = 'it has no spec.clusterIP, so it gets no address; write one, or None for a headless service'
  const noIp = 'it has no status.podIP, so it is not published'

  test.each<[string, Kind, object, string[]]>([
    ['a Service without an address', 'Service', { spec: { ports: [] } }, [noVip]],
    ['a Service with an empty list of them', 'Service', { spec: { clusterIPs: [], clusterIP: '' } }, [noVip]],
    ['a headless Service', 'Service', { spec: { clusterIP: 'None' } }, []],
    ['a Service with one', 'Service', { spec: { clusterIP: '10.0.0.1' } }, []],
    ['an ExternalName', 'Service', { spec: { type: 'ExternalName' } }, []],
    ['a Pod without an address', 'Pod', { status: { phase: 'Running' } }, [noIp]],
    ['a Pod that has ended', 'Pod', { status: { phase: 'Succeeded' } }, []],
    ['a Pod with one', 'Pod', { status: { podIP: '10.0.0.1' } }, []],
    ['a Pod with a list of them', 'Pod', { status: { podIPs: [{ ip: '10.0.0.1' }] } }, []],
  ])('%s', (_what, kind, rest, notices) => {
    expect(completeObject(kind, { metadata, ...rest }).notices).toEqual(notices)
  })

  test('the object that was given stays as it was', () => {
    const freeze = <T>(value: T): T => {
      if (typeof value === 'object' && value !== null) Object.values(value).forEach(freeze)
      return Object.freeze(value)
    }
    const service = freeze({ metadata: { name: 'a' }, spec: { clusterIP: '10.0.0.1', ports: [{ port: 80 }] } })
    expect(completeObject('Service', service).object).not.toBe(service)
  })
})
