// SPDX-License-Identifier: Apache-2.0
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { createShop, ctl, makeClient, openRoom, type Room } from './room.js'

let room: Room
beforeAll(async () => {
  const watch = { wildcard: true, names: [], sentNonce: 'n2', ackedNonce: 'n2', sentAtMs: 1, lastError: '' }
  const address = 'type.googleapis.com/istio.workload.Address'
  const policies = 'type.googleapis.com/istio.security.Authorization'
  const clients = (): ReturnType<typeof makeClient>[] => {
    const now = Date.now()
    return [
      makeClient({
        connectedAtMs: now - 7_300_000,
        watches: [
          { ...watch, typeUrl: address, sentAtMs: now - 120_000 },
          { ...watch, typeUrl: policies, sentAtMs: now - 3_700_000, lastError: 'web-a: cannot\ndecode' },
        ],
      }),
      makeClient({
        connectionId: 'ztunnel-b.istio-system-2',
        proxy: 'ztunnel-b.istio-system',
        nodeName: '',
        version: '1.30.0',
        connectedAtMs: now - 90_000,
        watches: [
          { ...watch, typeUrl: address, sentNonce: '', ackedNonce: '', sentAtMs: 0 },
          { ...watch, typeUrl: 'type.googleapis.com/x.Y', ackedNonce: '', sentAtMs: now - 90_000 },
        ],
      }),
    ]
  }
  const why = new Map([['Kubernetes//Pod/shop/web-a', ['HBONE: the pod is enrolled', 'healthy: it is Ready']]])
  room = await openRoom(createShop(), {
    clients,
    explainer: {
      explain: (name) => {
        const lines = why.get(name)
        return lines && { why: lines }
      },
    },
  })
})
afterAll(() => room.stop())

/** What was printed, as lines. */
async function lines(...argv: readonly string[]): Promise<readonly string[]> {
  const { code, out, err } = await ctl(room, ...argv)
  expect({ code, err }).toEqual({ code: 0, err: '' })
  expect(out.endsWith('\n')).toBe(true)
  return out.slice(0, -1).split('\n')
}

describe('whatis says', () => {
  test('of an address: each network’s own, with owner, services, policies and reasons', async () => {
    expect(await lines('whatis', '10.0.0.1')).toEqual([
      'Workload shop/web-a',
      '  Uid:       Kubernetes//Pod/shop/web-a',
      '  Address:   10.0.0.1',
      '  Node:      node-1',
      '  Owner:     deployment web',
      '  Account:   default',
      '  Protocol:  HBONE',
      '  Health:    healthy',
      '  Waypoint:  none',
      '  Services:  shop/web.shop.svc.cluster.local  10.96.0.10  80->8080',
      '  Policies:  shop/only-front',
      '  Found by:  address /10.0.0.1',
      '  Why:       HBONE: the pod is enrolled',
      '             healthy: it is Ready',
      '',
      'Workload edge/web-a',
      '  Uid:       other//Pod/edge/far-0',
      '  Address:   10.0.0.1',
      '  Node:      NA',
      '  Owner:     NA',
      '  Account:   default',
      '  Protocol:  TCP',
      '  Health:    healthy',
      '  Waypoint:  none',
      '  Services:  none',
      '  Policies:  none',
      '  Found by:  address far/10.0.0.1',
    ])
  })

  test('of a virtual address: the service and where it leads', async () => {
    expect(await lines('whatis', '10.96.0.10')).toEqual([
      'Service web.shop.svc.cluster.local',
      '  Name:       shop/web',
      '  VIP:        10.96.0.10',
      '  Ports:      80->8080',
      '  Waypoint:   wp (shop/wp.shop.svc.cluster.local)',
      '  Endpoints:  1 of 2 healthy',
      '  Found by:   address /10.96.0.10',
      '',
      'NAMESPACE  ENDPOINT  ADDRESS           NODE    PROTOCOL  HEALTH',
      'shop       web-a     10.0.0.1          node-1  HBONE     healthy',
      'shop       web-b     10.0.0.2,fd00::2  node-2  TCP       unhealthy',
    ])
  })

  test('in wide form also the keys, the version and where it belongs', async () => {
    expect(await lines('whatis', 'other//Pod/edge/far-0', '-o', 'wide')).toEqual([
      'Workload edge/web-a',
      '  Uid:       other//Pod/edge/far-0',
      '  Address:   10.0.0.1',
      '  Node:      NA',
      '  Owner:     NA',
      '  Account:   default',
      '  Protocol:  TCP',
      '  Health:    healthy',
      '  Waypoint:  none',
      '  Services:  none',
      '  Policies:  none',
      '  Cluster:   other',
      '  Network:   far',
      '  Found by:  uid other//Pod/edge/far-0',
      '  Keys:      far/10.0.0.1',
      expect.stringMatching(/^ {2}Version: {3}[0-9a-f]{8,16}$/),
    ])
  })

  test('of a policy: what it does', async () => {
    expect(await lines('whatis', 'shop/only-front')).toEqual([
      'Policy shop/only-front',
      '  Action:    DENY',
      '  Scope:     WORKLOAD_SELECTOR',
      '  Found by:  name shop/only-front',
    ])
  })

  test('as JSON: one document with everything', async () => {
    const { code, out } = await ctl(room, 'whatis', 'web.shop.svc.cluster.local', '-o', 'json')
    expect(code).toBe(0)
    expect(JSON.parse(out)).toEqual({
      question: 'web.shop.svc.cluster.local',
      form: 'hostname',
      found: [
        {
          kind: 'service',
          name: 'shop/web.shop.svc.cluster.local',
          endpoints: { healthy: 1, total: 2 },
          waypoint: { key: 'shop/wp.shop.svc.cluster.local', name: 'wp' },
          members: [
            {
              uid: 'Kubernetes//Pod/shop/web-a',
              namespace: 'shop',
              name: 'web-a',
              addresses: ['10.0.0.1'],
              node: 'node-1',
              protocol: 'HBONE',
              healthy: true,
            },
            {
              uid: 'Kubernetes//Pod/shop/web-b',
              namespace: 'shop',
              name: 'web-b',
              addresses: ['10.0.0.2', 'fd00::2'],
              node: 'node-2',
              protocol: 'TCP',
              healthy: false,
            },
          ],
          foundBy: 'host name web.shop.svc.cluster.local',
          version: expect.stringMatching(/^[0-9a-f]+$/),
          keys: ['/10.96.0.10'],
          why: [],
          resource: {
            name: 'web',
            namespace: 'shop',
            hostname: 'web.shop.svc.cluster.local',
            addresses: [{ address: '10.96.0.10' }],
            ports: [{ servicePort: 80, targetPort: 8080 }],
            waypoint: {
              hostname: { namespace: 'shop', hostname: 'wp.shop.svc.cluster.local' },
              hboneMtlsPort: 15008,
            },
            canonical: true,
          },
        },
      ],
    })
  })
})

describe('lists', () => {
  test('workloads, by namespace and name', async () => {
    expect(await lines('workloads')).toEqual([
      'NAMESPACE  NAME    ADDRESS           NODE    WAYPOINT  PROTOCOL',
      'edge       legacy  192.0.2.7         NA      None      TCP',
      'edge       web-a   10.0.0.1          NA      None      TCP',
      'shop       web-a   10.0.0.1          node-1  None      HBONE',
      'shop       web-b   10.0.0.2,fd00::2  node-2  None      TCP',
    ])
  })

  test('workloads of one namespace on one node, wide', async () => {
    expect(await lines('workloads', '-n', 'shop', '--node', 'node-2', '-o', 'wide')).toEqual([
      'NAMESPACE  NAME   ADDRESS           NODE    WAYPOINT  PROTOCOL  STATUS     OWNER  NETWORK    CLUSTER     UID',
      'shop       web-b  10.0.0.2,fd00::2  node-2  None      TCP       unhealthy  NA     (default)  Kubernetes  Kubernetes//Pod/shop/web-b',
    ])
  })

  test('services with their healthy endpoints', async () => {
    expect(await lines('services')).toEqual([
      'NAMESPACE  SERVICE NAME  SERVICE VIP    WAYPOINT  ENDPOINTS',
      'edge       everything    NA             None      0/0',
      'edge       legacy        172.16.0.0/12  None      0/0',
      'shop       web           10.96.0.10     wp        1/2',
      'shop       wp            10.96.0.20     None      0/0',
    ])
  })

  test('services with an endpoint on a node, wide', async () => {
    expect(await lines('services', '--node', 'node-2', '-o', 'wide')).toEqual([
      'NAMESPACE  SERVICE NAME  SERVICE VIP  WAYPOINT  ENDPOINTS  HOSTNAME                    PORTS',
      'shop       web           10.96.0.10   wp        1/2        web.shop.svc.cluster.local  80->8080',
    ])
  })

  test('policies', async () => {
    expect(await lines('policies', '-n', 'shop')).toEqual([
      'NAMESPACE  POLICY NAME  ACTION  SCOPE',
      'shop       only-front   DENY    WORKLOAD_SELECTOR',
    ])
  })

  test('clients: what each acknowledged, refused or was not sent', async () => {
    expect(await lines('clients')).toEqual([
      'NAME                    CLUSTER     NODE    WDS          WADS        x.Y         LAST ERROR',
      'ztunnel-a.istio-system  Kubernetes  node-1  SYNCED (2m)  ERROR (1h)  IGNORED     web-a: cannot decode',
      'ztunnel-b.istio-system  Kubernetes  NA      NOT SENT     IGNORED     STALE (1m)  none',
    ])
  })

  test('clients of one node, wide', async () => {
    expect(await lines('clients', '--node', 'node-1', '-o', 'wide')).toEqual([
      'NAME                    CLUSTER     NODE    WDS          WADS        LAST ERROR            TYPE     VERSION  ADDRESS         CONNECTED  ID',
      'ztunnel-a.istio-system  Kubernetes  node-1  SYNCED (2m)  ERROR (1h)  web-a: cannot decode  ztunnel  NA       10.0.0.9:41000  2h         ztunnel-a.istio-system-1',
    ])
  })

  test('policies as YAML, whole', async () => {
    expect(await lines('policies', '-o', 'yaml')).toEqual([
      '- name: only-front',
      '  namespace: shop',
      '  scope: WORKLOAD_SELECTOR',
      '  action: DENY',
      '  groups:',
      '    - rules:',
      '        - matches:',
      '            - sourceIps:',
      '                - address: 10.0.0.0',
      '                  length: 8',
    ])
  })

  test('services as JSON, whole, with their endpoints counted', async () => {
    const { out } = await ctl(room, 'services', '-n', 'edge', '-o', 'json')
    expect(JSON.parse(out)).toEqual([
      {
        name: 'everything',
        namespace: 'edge',
        hostname: '*.example.org',
        canonical: true,
        endpoints: { healthy: 0, total: 0 },
      },
      {
        name: 'legacy',
        namespace: 'edge',
        hostname: 'legacy.example.com',
        addresses: [{ network: 'far', address: '172.16.0.0', length: 12 }],
        canonical: true,
        endpoints: { healthy: 0, total: 0 },
      },
    ])
  })

  test('workloads as JSON, whole', async () => {
    const { out } = await ctl(room, 'workloads', '-n', 'edge', '-o', 'json')
    expect(JSON.parse(out).map((one: { uid: string }) => one.uid)).toEqual([
      'Kubernetes/networking.istio.io/ServiceEntry/edge/legacy/192.0.2.7',
      'other//Pod/edge/far-0',
    ])
  })

  test('nothing of that kind is an answer, and is said', async () => {
    expect(await ctl(room, 'workloads', '-n', 'nowhere', '--node', 'node-9')).toEqual({
      code: 0,
      out: '',
      err: 'no workloads in namespace nowhere on node node-9\n',
    })
    expect(await ctl(room, 'workloads', '-n', 'nowhere', '-o', 'json')).toEqual({ code: 0, out: '[]\n', err: '' })
  })
})
