// SPDX-License-Identifier: Apache-2.0
// A whole addressd on a real API server that changes: exactly which names are pushed to a client of everything and to clients of a few names, and
// what addressctl then answers. Each test has a namespace of its own; one server and one client of everything are shared.
// The custom kinds are defined by the folder that CRDS_DIR names, else by our own definitions.

import { afterAll, afterEach, beforeAll, expect } from '@jest/globals'
import { fileURLToPath } from 'node:url'
import { apiServerStartTimeoutMs, startApiServer, type ApiServer } from '../support/apiserver.js'
import { testWith } from '../support/optional.js'
import { nothing, type RoomClient } from './client.js'
import { Markers } from './markers.js'
import { addressed, gateway, pod, service, serviceEntry, workloadEntry } from './mesh.js'
import { ClusterObjects, type ObjectRef } from './objects.js'
import { ClusterRoom } from './room.js'

const ours = fileURLToPath(new URL('../../charts/addressd/crds', import.meta.url))
const started = await startApiServer({ crdsFolder: process.env['CRDS_DIR'] ?? ours })
const testReal = testWith('api-server', 'unavailable' in started ? started.unavailable : undefined)
const api = started as ApiServer
const objects = new ClusterObjects(api.request)
let room: ClusterRoom
let everything: RoomClient

beforeAll(async () => {
  if ('unavailable' in started) return
  const markers = await Markers.create(api.request, true)
  room = await ClusterRoom.open(api, markers)
  await room.server.started
  everything = await room.connect()
  await room.settle()
}, apiServerStartTimeoutMs)

afterAll(async () => {
  if ('unavailable' in started) return
  await room.close()
  await api.stop()
})

afterEach(() => {
  for (const client of room.clients.splice(0)) if (client !== everything) client.close()
  room.clients.push(everything)
})

/** What a change sends to the client of everything. */
async function pushed(make: () => Promise<unknown>): Promise<RoomClient['news']> {
  await room.change(make)
  const { news } = everything
  expect(everything.count).toBe(news.sent.length + news.removed.length === 0 ? 0 : 1)
  return news
}

const sends = (...names: string[]): RoomClient['news'] => ({ sent: names.sort(), removed: [] })
const removes = (...names: string[]): RoomClient['news'] => ({ sent: [], removed: names.sort() })

async function whatis(question: string): Promise<any> {
  const { exit, output } = await room.ctl('whatis', question, '-o', 'json')
  return exit === 0 ? JSON.parse(output) : exit
}

const uid = (namespace: string, name: string): string => `Kubernetes//Pod/${namespace}/${name}`
const host = (namespace: string, name: string): string => `${namespace}/${name}.${namespace}.svc.cluster.local`

/** A namespace with one running pod `web` of service `shop`. */
async function createShop(namespace: string, subnet: number): Promise<void> {
  await objects.create({ kind: 'Namespace', metadata: { name: namespace } })
  await objects.create({ ...pod(namespace, 'web'), status: addressed(`10.1.${subnet}.5`) })
  await objects.create(service(namespace, 'shop', { app: 'web' }, `10.96.${subnet}.1`))
}

testReal(
  'a pod comes with its address, changes, fails and goes, and all that is said of it is what changed',
  async () => {
    await objects.create({ kind: 'Namespace', metadata: { name: 'a' } })
    const asking = await room.connect('/10.1.0.5')
    expect(asking.news).toEqual({ sent: [], removed: ['/10.1.0.5'] })
    const web: ObjectRef = { kind: 'Pod', namespace: 'a', name: 'web' }
    const name = uid('a', 'web')

    expect(await pushed(() => objects.create(pod('a', 'web')))).toEqual(nothing)
    expect(await whatis('10.1.0.5')).toBe(1)
    expect(await pushed(() => objects.patchStatus(web, addressed('10.1.0.5', false)))).toEqual(sends(name))
    expect(asking.news).toEqual(sends(name))
    expect((await whatis('10.1.0.5')).found).toMatchObject([{ name, healthy: false, resource: { node: 'node-1' } }])
    expect(await pushed(() => objects.patchStatus(web, addressed('10.1.0.5')))).toEqual(sends(name))
    expect((await whatis('a/web')).found).toMatchObject([{ name, healthy: true }])

    expect(await pushed(() => objects.patch(web, { metadata: { annotations: { note: 'x' } } }))).toEqual(nothing)
    expect(await pushed(() => objects.patchStatus(web, { message: 'a word' }))).toEqual(nothing)
    expect(await pushed(() => objects.patch(web, { metadata: { labels: { app: 'other' } } }))).toEqual(sends(name))
    expect((await whatis(name)).found).toMatchObject([{ resource: { canonicalName: 'other' } }])

    expect(await pushed(() => objects.patchStatus(web, { phase: 'Failed' }))).toEqual(removes(name))
    expect(asking.news).toEqual(removes(name))
    expect(await pushed(() => objects.remove(web))).toEqual(nothing)
    expect(await room.ctl('whatis', '10.1.0.5')).toEqual({
      exit: 1,
      output: '',
      error: 'addressctl: nobody has 10.1.0.5\n',
    })
  },
)

testReal(
  'a pod that is deleted and made again under its name and address in between ends as it was, nobody else touched',
  async () => {
    await objects.create({ kind: 'Namespace', metadata: { name: 'b' } })
    const web = { ...pod('b', 'web'), status: addressed('10.1.1.5') }
    await objects.create(web)
    await room.settle()
    const asking = await room.connect('/10.1.1.5')
    const version = asking.held.get(uid('b', 'web'))?.version
    await room.change(async () => {
      await objects.remove({ kind: 'Pod', namespace: 'b', name: 'web' })
      await objects.create(web)
    })
    // Whether the moment without it was seen or not: it ends as it was, and nobody else is told anything.
    expect(new Set([...everything.news.sent, ...everything.news.removed, uid('b', 'web')]).size).toBe(1)
    expect(asking.held.get(uid('b', 'web'))?.version).toBe(version)
    expect(everything.held.get(uid('b', 'web'))?.version).toBe(version)
  },
)

testReal('a service takes its pods along, with its ports and endpoints, until it goes', async () => {
  await objects.create({ kind: 'Namespace', metadata: { name: 'c' } })
  await objects.create({ ...pod('c', 'web'), status: addressed('10.1.2.5') })
  await objects.create({ ...pod('c', 'lone'), status: addressed('10.1.2.6') })
  await room.settle()
  const shop: ObjectRef = { kind: 'Service', namespace: 'c', name: 'shop' }
  const [name, web] = [host('c', 'shop'), uid('c', 'web')]
  const asking = await room.connect(name)

  expect(await pushed(() => objects.create(service('c', 'shop', { app: 'web' }, '10.96.2.1')))).toEqual(
    sends(name, web),
  )
  expect(asking.news).toEqual(sends(name, web))
  expect((await whatis('10.96.2.1')).found).toMatchObject([{ name, endpoints: { healthy: 1, total: 1 } }])

  const ports = [{ name: 'http', port: 81, targetPort: 8081 }]
  expect(await pushed(() => objects.patch(shop, { spec: { ports } }))).toEqual(sends(name, web))
  expect((await whatis('shop.c.svc.cluster.local')).found[0].resource.ports).toEqual([
    { servicePort: 81, targetPort: 8081, appProtocol: 'HTTP11' },
  ])
  expect(await pushed(() => objects.patch(shop, { metadata: { labels: { any: 'label' } } }))).toEqual(nothing)

  const slice = 'Kubernetes/discovery.k8s.io/EndpointSlice/c/shop-1/192.0.2.9'
  expect(
    await pushed(() =>
      objects.create({
        kind: 'EndpointSlice',
        metadata: { namespace: 'c', name: 'shop-1', labels: { 'kubernetes.io/service-name': 'shop' } },
        addressType: 'IPv4',
        ports: [{ name: 'http', port: 8081 }],
        endpoints: [{ addresses: ['192.0.2.9'] }],
      }),
    ),
  ).toEqual(sends(slice))
  expect(asking.news).toEqual(sends(slice))
  expect(await pushed(() => objects.remove({ kind: 'EndpointSlice', namespace: 'c', name: 'shop-1' }))).toEqual(
    removes(slice),
  )

  expect(await pushed(() => objects.remove(shop))).toEqual({ sent: [web], removed: [name] })
  expect(asking.news).toEqual({ sent: [web], removed: [name] })
  expect(await whatis('10.96.2.1')).toBe(1)
})

testReal('a waypoint counts for a namespace or a service that names it, while it is there', async () => {
  await createShop('d', 3)
  await room.settle()
  const asking = await room.connect('/10.1.3.5')
  const space: ObjectRef = { kind: 'Namespace', name: 'd' }
  const shop: ObjectRef = { kind: 'Service', namespace: 'd', name: 'shop' }
  const label = (waypoint: string | null) => ({ metadata: { labels: { 'istio.io/use-waypoint': waypoint } } })
  const name = host('d', 'shop')
  const waypoint = async (): Promise<unknown> => (await whatis(name)).found[0].waypoint

  expect(await pushed(() => objects.patch(space, label('way')))).toEqual(nothing)
  expect(await pushed(() => objects.create(gateway('d', 'way', '10.96.3.2')))).toEqual(sends(name))
  expect(asking.news).toEqual(nothing)
  expect(await waypoint()).toMatchObject({ key: '/10.96.3.2' })
  const moved = { addresses: [{ type: 'IPAddress', value: '10.96.3.3' }] }
  expect(await pushed(() => objects.patchStatus({ kind: 'Gateway', namespace: 'd', name: 'way' }, moved))).toEqual(
    sends(name),
  )
  expect(await waypoint()).toMatchObject({ key: '/10.96.3.3' })
  expect(await pushed(() => objects.patch(shop, label('none')))).toEqual(sends(name))
  expect(await pushed(() => objects.patch(space, label(null)))).toEqual(nothing)
  expect(await pushed(() => objects.patch(shop, label('way')))).toEqual(sends(name))
  expect(await pushed(() => objects.remove({ kind: 'Gateway', namespace: 'd', name: 'way' }))).toEqual(sends(name))
  expect(await waypoint()).toBeNull()
})

testReal('a ServiceEntry and the WorkloadEntry that it selects come and go', async () => {
  await objects.create({ kind: 'Namespace', metadata: { name: 'e' } })
  const vm = 'Kubernetes/networking.istio.io/WorkloadEntry/e/vm'
  const asking = await room.connect('e/vault.example')
  expect(await pushed(() => objects.create(serviceEntry('e', 'vault', 'vault.example', '203.0.113.5')))).toEqual(
    sends('e/vault.example'),
  )
  expect(asking.news).toEqual(sends('e/vault.example'))
  expect(await pushed(() => objects.create(workloadEntry('e', 'vm', 'vault', '192.0.2.5')))).toEqual(sends(vm))
  expect(asking.news).toEqual(sends(vm))
  expect((await whatis('vault.example')).found).toMatchObject([{ endpoints: { healthy: 1, total: 1 } }])
  expect(await pushed(() => objects.remove({ kind: 'ServiceEntry', namespace: 'e', name: 'vault' }))).toEqual({
    sent: [vm],
    removed: ['e/vault.example'],
  })
  expect(await pushed(() => objects.remove({ kind: 'WorkloadEntry', namespace: 'e', name: 'vm' }))).toEqual(removes(vm))
})

testReal(
  'a policy of the namespace, one of the pod and the labels of its node change the pod and nothing else',
  async () => {
    await createShop('f', 5)
    await room.settle()
    const web = uid('f', 'web')
    const zone = { 'topology.kubernetes.io/region': 'r', 'topology.kubernetes.io/zone': 'z' }
    const strict = { namespace: 'f', name: 'strict' }
    const callers = { namespace: 'f', name: 'callers' }
    const onWeb = { selector: { matchLabels: { app: 'web' } } }
    const elsewhere = { selector: { matchLabels: { app: 'else' } } }

    expect(
      await pushed(() =>
        objects.create({ kind: 'PeerAuthentication', metadata: strict, spec: { mtls: { mode: 'STRICT' } } }),
      ),
    ).toEqual(sends(web))
    expect(
      await pushed(() => objects.create({ kind: 'AuthorizationPolicy', metadata: callers, spec: elsewhere })),
    ).toEqual(nothing)
    expect(await pushed(() => objects.patch({ kind: 'AuthorizationPolicy', ...callers }, { spec: onWeb }))).toEqual(
      sends(web),
    )
    expect((await whatis(web)).found[0].resource.authorizationPolicies).toEqual([
      'f/callers',
      'istio-system/istio_converted_static_strict',
    ])
    expect(await pushed(() => objects.remove({ kind: 'AuthorizationPolicy', ...callers }))).toEqual(sends(web))
    expect(await pushed(() => objects.remove({ kind: 'PeerAuthentication', ...strict }))).toEqual(sends(web))

    // Pods of other tests are on the same node.
    const others = [...everything.held.keys()].filter((name) => name.startsWith('Kubernetes//Pod/') && name !== web)
    expect(await pushed(() => objects.create({ kind: 'Node', metadata: { name: 'node-1', labels: zone } }))).toEqual(
      sends(web, ...others),
    )
    expect((await whatis(web)).found[0].resource.locality).toEqual({ region: 'r', zone: 'z' })
    expect(await pushed(() => objects.remove({ kind: 'Node', name: 'node-1' }))).toEqual(sends(web, ...others))
  },
)

testReal('a namespace goes with what is in it, and the network of the mesh renames every address', async () => {
  await createShop('g', 6)
  await room.settle()
  const asking = await room.connect('/10.1.6.5', 'net/10.1.6.5')
  const system: ObjectRef = { kind: 'Namespace', name: 'istio-system' }
  const network = (name: string | null) => ({ metadata: { labels: { 'topology.istio.io/network': name } } })
  const addressedOnes = [...everything.held.keys()].filter((name) => name !== 'marker/marker.example')

  expect(await pushed(() => objects.patch(system, network('net')))).toEqual(sends(...addressedOnes))
  expect((await whatis('10.1.6.5')).found).toMatchObject([{ foundBy: 'address net/10.1.6.5' }])
  expect(asking.news.sent).toContain(uid('g', 'web'))
  expect(await pushed(() => objects.patch(system, network(null)))).toEqual(sends(...addressedOnes))

  await room.change(async () => {
    await objects.remove({ kind: 'Service', namespace: 'g', name: 'shop' })
    await objects.remove({ kind: 'Pod', namespace: 'g', name: 'web' })
    await objects.remove({ kind: 'Namespace', name: 'g' })
  })
  expect(everything.news.removed).toEqual([uid('g', 'web'), host('g', 'shop')].sort())
  expect(await whatis('10.1.6.5')).toBe(1)
})
