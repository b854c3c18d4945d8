// SPDX-License-Identifier: Apache-2.0
// A cluster without the custom kinds: addressd serves all the same, takes them in when their definitions come, and forgets them when these go.

import { afterAll, afterEach, beforeAll, expect } from '@jest/globals'
import { fileURLToPath } from 'node:url'
import { apiServerStartTimeoutMs, startApiServer, type ApiServer } from '../support/apiserver.js'
import { installDefinitions } from '../support/crds.js'
import { testWith } from '../support/optional.js'
import { nothing, type RoomClient } from './client.js'
import { Markers } from './markers.js'
import { addressed, gateway, pod, service, serviceEntry } from './mesh.js'
import { ClusterObjects } from './objects.js'
import { ClusterRoom } from './room.js'

const timeoutMs = 180_000
const folder = fileURLToPath(new URL('../../charts/addressd/crds', import.meta.url))
const started = await startApiServer()
const testReal = testWith('api-server', 'unavailable' in started ? started.unavailable : undefined)
const api = started as ApiServer
const objects = new ClusterObjects(api.request)
let room: ClusterRoom
let everything: RoomClient
let stopHurry: () => void = () => undefined

const shop = 'shop/shop.shop.svc.cluster.local'
const vault = 'shop/vault.example'

beforeAll(async () => {
  if ('unavailable' in started) return
  const markers = await Markers.create(api.request, false)
  await objects.create({ kind: 'Namespace', metadata: { name: 'shop' } })
  await objects.create({ ...pod('shop', 'web'), status: addressed('10.1.0.5') })
  const behind = service('shop', 'shop', { app: 'web' }, '10.96.1.1')
  const metadata = { ...behind.metadata, labels: { 'istio.io/use-waypoint': 'way' } }
  await objects.create({ ...behind, metadata })
  room = await ClusterRoom.open(api, markers)
}, apiServerStartTimeoutMs)

afterEach(() => everything.forget())

afterAll(async () => {
  stopHurry()
  if ('unavailable' in started) return
  await room.close()
  await api.stop()
})

testReal(
  'kinds that nobody has defined count as empty and hold nothing back',
  async () => {
    await room.server.started
    everything = await room.connect()
    const absent = room.log.records.filter(({ message }) => message.startsWith('the resource is not defined'))
    expect([...new Set(absent.map(({ fields }) => fields['kind']))].sort()).toEqual([
      'AuthorizationPolicy',
      'Gateway',
      'GatewayClass',
      'PeerAuthentication',
      'ServiceEntry',
      'WorkloadEntry',
    ])
    expect(room.log.records.filter(({ level }) => level === 'warn' || level === 'error')).toEqual([])
    expect(everything.held.has(shop)).toBe(true)
    stopHurry = room.hurry()
  },
  timeoutMs,
)

testReal(
  'their objects are taken in when the definitions come, and nothing else is sent',
  async () => {
    await installDefinitions(folder, api.request)
    await room.rest()
    expect(everything.news).toEqual(nothing)
    await objects.create(serviceEntry('shop', 'vault', 'vault.example', '203.0.113.5'))
    await objects.create(gateway('shop', 'way', '10.96.1.9'))
    const news = { sent: [shop, vault], removed: [] }
    await everything.client.until(() => everything.news.sent.length === 2, 'what was defined', timeoutMs)
    await room.settle()
    expect([everything.news, everything.repeated]).toEqual([news, []])
  },
  timeoutMs,
)

testReal(
  'they are gone when a definition goes, and there again when it is back',
  async () => {
    const definition = 'serviceentries.networking.istio.io'
    const path = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${definition}`
    expect((await api.request('DELETE', path)).status).toBe(200)
    await everything.client.until(() => everything.news.removed.length === 1, 'the end', timeoutMs)
    await room.settle()
    expect(everything.news).toEqual({ sent: [], removed: [vault] })
    everything.forget()
    while ((await api.request('GET', path)).status !== 404) await room.rest()

    await installDefinitions(folder, api.request)
    await objects.create(serviceEntry('shop', 'vault', 'vault.example', '203.0.113.6'))
    await everything.client.until(() => everything.news.sent.length === 1, 'the return', timeoutMs)
    await room.settle()
    expect(everything.news).toEqual({ sent: [vault], removed: [] })
  },
  timeoutMs,
)
