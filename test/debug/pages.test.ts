// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { createAdminServer, type AdminServer } from '../../src/base/admin-http.js'
import { silentLogger } from '../../src/base/log.js'
import { createDebugRoutes } from '../../src/debug/routes.js'
import { AUTHORIZATION_TYPE, ADDRESS_TYPE, WORKLOAD_TYPE } from '../../src/wire/messages.js'
import type { Resource } from '../../src/xds/source.js'
import { createShop, makeClient, web, webA } from '../ctl/room.js'
import { ToyStore } from '../support/toy-store.js'

const shapes = JSON.parse(readFileSync(new URL('shapes.json', import.meta.url), 'utf8')) as Record<
  string,
  { status: number; contentType: string; shape?: unknown; value?: unknown }
>

const watch = {
  wildcard: true,
  names: [],
  sentNonce: 'n2',
  ackedNonce: 'n1',
  sentAtMs: 1_767_225_605_000,
  lastError: '',
}
const connectedAtMs = Date.parse('2026-01-01T00:00:00Z')
const ztunnel = makeClient({
  connectedAtMs,
  metadata: {
    NAME: 'ztunnel-a',
    NAMESPACE: 'istio-system',
    INSTANCE_IPS: '10.0.0.9',
    NODE_NAME: 'node-1',
    CLUSTER_ID: 'Kubernetes',
    ENABLE_HBONE: 'true',
  },
  watches: [
    { ...watch, typeUrl: ADDRESS_TYPE },
    { ...watch, typeUrl: AUTHORIZATION_TYPE, ackedNonce: 'n2' },
  ],
})
const other = makeClient({
  connectionId: 'wp.shop-2',
  proxy: 'wp.shop',
  proxyType: 'waypoint',
  namespace: 'shop',
  nodeName: '',
  clusterId: 'A',
  version: '1.30.0',
  connectedAtMs,
  watches: [
    { ...watch, typeUrl: WORKLOAD_TYPE, wildcard: false, names: ['/10.0.0.1'], lastError: 'no' },
    { ...watch, typeUrl: 'x', sentNonce: '', ackedNonce: '', sentAtMs: 0 },
  ],
})

const store = new ToyStore()
const shop = createShop()
const get = (name: string): Resource => (shop.addresses.get(name) ?? shop.policies.get(name)) as Resource
store.put(web, webA)
store.putPolicy('shop/only-front', Buffer.alloc(0))
store.policies.resources.set('shop/only-front', get('shop/only-front'))

let server: AdminServer
let url: string
beforeAll(async () => {
  const routes = createDebugRoutes({
    store,
    clients: () => [ztunnel, other],
    held: (id) =>
      id === ztunnel.connectionId
        ? new Map([
            [ADDRESS_TYPE, [get(webA.uid), get('shop/web.shop.svc.cluster.local')]],
            [AUTHORIZATION_TYPE, [get('shop/only-front')]],
          ])
        : undefined,
    labelsOf: (client) => ({ app: client.proxyType }),
  })
  server = createAdminServer({ routes, log: silentLogger })
  const bound = await server.listen({ host: '127.0.0.1', port: 0 }, 'httpAddr')
  url = `http://127.0.0.1:${bound.port}`
})
afterAll(() => server.close(0))

interface Page {
  readonly status: number
  readonly contentType: string
  readonly text: string
}

async function page(path: string): Promise<Page> {
  const response = await fetch(`${url}${path}`)
  return {
    status: response.status,
    contentType: response.headers.get('content-type') ?? '',
    text: await response.text(),
  }
}

async function json(path: string): Promise<any> {
  const { status, contentType, text } = await page(path)
  expect({ status, contentType }).toEqual({ status: 200, contentType: 'application/json' })
  return JSON.parse(text)
}

const base64 = (text: string): string => Buffer.from(text).toString('base64')
const servedPolicy = {
  name: 'only-front',
  namespace: 'shop',
  scope: 'WORKLOAD_SELECTOR',
  action: 'DENY',
  groups: [{ rules: [{ matches: [{ sourceIps: [{ address: 'CgAAAA==', length: 8 }] }] }] }],
}
const memberOf = { 'shop/web.shop.svc.cluster.local': { ports: [{ servicePort: 80, targetPort: 8080 }] } }
const toWebA = (address: string): object => ({
  name: 'web-a',
  namespace: 'shop',
  addresses: [address],
  tunnelProtocol: 'HBONE',
  serviceAccount: 'default',
  node: 'node-1',
  workloadName: 'web',
  authorizationPolicies: ['shop/only-front'],
  clusterId: 'Kubernetes',
  uid: 'Kubernetes//Pod/shop/web-a',
  services: memberOf,
})
const toWeb = (address: string): object => ({
  name: 'web',
  namespace: 'shop',
  hostname: 'web.shop.svc.cluster.local',
  addresses: [{ address }],
  ports: [{ servicePort: 80, targetPort: 8080 }],
  waypoint: { hostname: { namespace: 'shop', hostname: 'wp.shop.svc.cluster.local' }, hboneMtlsPort: 15008 },
  canonical: true,
})

describe('the pages show', () => {
  test('ambientz: everything that is served, addresses of workloads and services as base64 of their text', async () => {
    const served = {
      workloads: [toWebA(base64('10.0.0.1'))],
      services: [toWeb(base64('10.96.0.10'))],
      policies: [servedPolicy],
    }
    expect(await json('/debug/ambientz')).toEqual(served)
    expect((await page('/debug/ambientz?pretty')).text).toBe(`${JSON.stringify(served, undefined, 2)}\n`)
  })

  test('syncz: who acknowledged what, by cluster, namespace and connection', async () => {
    const sentTime = '2026-01-01T00:00:05.000Z'
    const ofZtunnel = {
      cluster_id: 'Kubernetes',
      proxy: 'ztunnel-a.istio-system',
      proxy_type: 'ztunnel',
      resources: {
        [ADDRESS_TYPE]: { sent: 'n2', acked: 'n1', sentTime },
        [AUTHORIZATION_TYPE]: { sent: 'n2', acked: 'n2', sentTime },
      },
    }
    const ofOther = {
      cluster_id: 'A',
      proxy: 'wp.shop',
      proxy_type: 'waypoint',
      istio_version: '1.30.0',
      resources: { [WORKLOAD_TYPE]: { sent: 'n2', acked: 'n1', sentTime, lastError: 'no' }, x: {} },
    }
    expect(await json('/debug/syncz')).toEqual([ofOther, ofZtunnel])
    expect(await json('/debug/syncz?namespace=istio-system')).toEqual([ofZtunnel])
    expect(await json('/debug/syncz?namespace=nowhere')).toEqual([])
  })

  test('connections and adsz: who is connected, with what it said of itself', async () => {
    const connectedAt = '2026-01-01T00:00:00.000Z'
    const first = { connectionId: 'ztunnel-a.istio-system-1', connectedAt, address: '10.0.0.9:41000' }
    const second = { connectionId: 'wp.shop-2', connectedAt, address: '10.0.0.9:41000' }
    expect(await json('/debug/connections')).toEqual({ totalClients: 2, clients: [first, second] })
    const labels = { app: 'ztunnel', 'kubernetes.io/hostname': 'node-1', 'topology.istio.io/cluster': 'Kubernetes' }
    const metadata = {
      NAMESPACE: 'istio-system',
      INSTANCE_IPS: '10.0.0.9',
      NODE_NAME: 'node-1',
      CLUSTER_ID: 'Kubernetes',
      ENABLE_HBONE: 'true',
    }
    const watches = { [ADDRESS_TYPE]: [], [AUTHORIZATION_TYPE]: ['shop/only-front'] }
    expect(await json('/debug/adsz?proxyID=ztunnel-a')).toEqual({
      totalClients: 1,
      clients: [{ ...first, labels, metadata, locality: {}, watches }],
    })
    const { clients } = await json('/debug/adsz')
    expect(clients[1].watches).toEqual({ [WORKLOAD_TYPE]: ['/10.0.0.1'], x: [] })
  })

  test('config_dump: what one client holds, by type', async () => {
    const policy = { '@type': AUTHORIZATION_TYPE, ...servedPolicy }
    const addresses = [
      { '@type': ADDRESS_TYPE, workload: toWebA('CgAAAQ==') },
      { '@type': ADDRESS_TYPE, service: toWeb('CmAACg==') },
    ]
    expect(await json('/debug/config_dump?proxyID=ztunnel-a')).toEqual({ configs: [...addresses, policy] })
    expect(await json('/debug/config_dump?proxyID=ztunnel-a&types=wds')).toEqual({ configs: addresses })
    expect(await json('/debug/config_dump?proxyID=ztunnel-a&types=wads')).toEqual({ configs: [policy] })
    expect(await json(`/debug/config_dump?proxyID=ztunnel-a&types=${AUTHORIZATION_TYPE}`)).toEqual({
      configs: [policy],
    })
    expect(await json('/debug/config_dump?proxyID=wp.shop')).toEqual({})
  })

  test('push_status: nothing wrong; list: the pages there are', async () => {
    expect(await json('/debug/push_status')).toEqual({})
    expect(await json('/debug/list')).toEqual([
      'adsz',
      'ambientz',
      'config_dump',
      'connections',
      'push_status',
      'syncz',
    ])
  })

  test('the index', async () => {
    const { status, contentType, text } = await page('/debug')
    expect({ status, contentType }).toEqual({ status: 200, contentType: 'text/html; charset=utf-8' })
    expect([...text.matchAll(/href="([^"]+)"/g)].map((match) => match[1])).toEqual([
      '/debug/adsz',
      '/debug/ambientz',
      '/debug/config_dump',
      '/debug/connections',
      '/debug/list',
      '/debug/push_status',
      '/debug/syncz',
    ])
  })
})

describe('what cannot be shown is said:', () => {
  test.each([
    ['/debug/config_dump', 400, 'You must provide a proxyID in the query string'],
    [
      '/debug/config_dump?proxyID=nobody',
      404,
      'Proxy not connected to this Pilot instance. It may be connected to another instance.',
    ],
    [
      '/debug/adsz?proxyID=nobody',
      404,
      'Proxy not connected to this Pilot instance. It may be connected to another instance.',
    ],
    [
      '/debug/config_dump?proxyID=ztunnel&types=wds,toString',
      400,
      'types: "toString" is neither wds, wads nor a type URL',
    ],
  ])('%s', async (path, status, text) => {
    expect(await page(path)).toEqual({ status, contentType: 'text/plain; charset=utf-8', text })
  })

  test('callers from elsewhere see the index alone', async () => {
    const routes = createDebugRoutes({ store, clients: () => [], held: () => undefined })
    const request = {
      method: 'GET' as const,
      query: new URLSearchParams(),
      headers: {},
      remoteAddress: '10.0.0.9',
      local: false,
    }
    const statuses = await Promise.all(
      routes.map(async (route) => [route.path, (await route.handle({ ...request, path: route.path })).status]),
    )
    expect(statuses.filter(([, status]) => status === 200)).toEqual([['/debug', 200]])
    expect(statuses.filter(([, status]) => status === 401)).toHaveLength(7)
  })
})

describe('the shape of a running istiod’s page is kept by', () => {
  test.each([['ambientz'], ['syncz'], ['adsz'], ['connections'], ['push_status']])('%s', async (command) => {
    const expected = shapes[`/debug/${command}`]
    expect(misfits(await json(`/debug/${command}`), expected?.shape)).toEqual([])
  })

  test('config_dump of policies', async () => {
    const expected = shapes['/debug/config_dump?proxyID=<name>&types=wads']
    expect(misfits(await json('/debug/config_dump?proxyID=ztunnel-a&types=wads'), expected?.shape)).toEqual([])
  })

  test('list, as far as there are pages', async () => {
    expect(shapes['/debug/list']?.value).toEqual(expect.arrayContaining(await json('/debug/list')))
  })
})

/** Members that both have and that are of different kinds, and scalars where the shape has structure. Keys of either side alone are free: they are defaults. */
function misfits(value: any, shape: any, path = ''): string[] {
  if (Array.isArray(shape)) {
    if (!Array.isArray(value)) return [path]
    return shape.length === 0 ? [] : value.flatMap((one, i) => misfits(one, shape[0], `${path}[${i}]`))
  }
  if (typeof shape === 'object' && shape !== null) {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return [path]
    return Object.keys(value)
      .filter((key) => key in shape)
      .flatMap((key) => misfits(value[key], shape[key], `${path}.${key}`))
  }
  const kind = shape === 'bool' ? 'boolean' : shape
  return typeof value === kind ? [] : [path]
}
