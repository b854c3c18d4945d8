// SPDX-License-Identifier: Apache-2.0
// The API server dies, loses its history, is cut off or falls silent: clients keep what they hold while it is away, and are sent afterwards
// exactly what has changed.

import { afterAll, afterEach, beforeAll, beforeEach, expect } from '@jest/globals'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { kinds } from '../../src/kube/inputs.js'
import { kubeLimits } from '../../src/kube/limits.js'
import { apiServerStartTimeoutMs, startApiServer, type ApiServer } from '../support/apiserver.js'
import { testWith } from '../support/optional.js'
import { RoomClient } from './client.js'
import { Markers } from './markers.js'
import { addressed, gateway, pod, service, serviceEntry, workloadEntry } from './mesh.js'
import { ClusterObjects } from './objects.js'
import { ClusterRoom } from './room.js'
import { notBuilt, runAddressctl, spawnAddressd } from './spawned.js'

const timeoutMs = 180_000
const definitions = fileURLToPath(new URL('../../charts/addressd/crds', import.meta.url))
const started = await startApiServer({ crdsFolder: definitions })
const testReal = testWith('api-server', 'unavailable' in started ? started.unavailable : undefined)
const api = started as ApiServer
const objects = new ClusterObjects(api.request)

let markers: Markers
let room: ClusterRoom
let everything: RoomClient
let asking: RoomClient
/** Each test has its own namespace, `shop<n>`, and the addresses 10.1.<n>.x and 10.96.<n>.x. */
let n = 0
let space = ''

const host = (name: string): string => `${space}/${name}.${space}.svc.cluster.local`
const uid = (name: string): string => `Kubernetes//Pod/${space}/${name}`
const entry = (name: string): string => `Kubernetes/networking.istio.io/WorkloadEntry/${space}/${name}`
/** A pod, a service with its members, a machine that will leave and a pod that is yet to come. */
const askedFor = (): string[] => [`/10.1.${n}.5`, host('cart'), `/198.51.100.${n}`, `/10.1.${n}.7`]
const ref = <K extends string>(kind: K, name: string): { kind: K; namespace: string; name: string } => ({
  kind,
  namespace: space,
  name,
})

beforeAll(async () => {
  if ('unavailable' in started) return
  markers = await Markers.create(api.request, true)
}, apiServerStartTimeoutMs)

afterAll(async () => {
  if (!('unavailable' in started)) await api.stop()
})

/** The mesh that each test finds, with a client of everything and one of a few names. */
beforeEach(async () => {
  if ('unavailable' in started) return
  n++
  space = `shop${n}`
  const lone = service(space, 'lone', {}, `10.96.${n}.3`)
  const metadata = { ...lone.metadata, labels: { 'istio.io/use-waypoint': 'way' } }
  await objects.create({ kind: 'Namespace', metadata: { name: space } })
  await objects.create({ ...pod(space, 'web'), status: addressed(`10.1.${n}.5`) })
  await objects.create({ ...pod(space, 'cart'), status: addressed(`10.1.${n}.6`) })
  await objects.create(service(space, 'web', { app: 'web' }, `10.96.${n}.1`))
  await objects.create(service(space, 'cart', { app: 'cart' }, `10.96.${n}.2`))
  await objects.create({ ...lone, metadata })
  await objects.create(service(space, 'old', {}, `10.96.${n}.4`))
  await objects.create(gateway(space, 'way', `10.96.${n}.9`))
  await objects.create(serviceEntry(space, 'vault', 'vault.example', `203.0.113.${n}`))
  await objects.create(workloadEntry(space, 'vm', 'vault', `192.0.2.${n}`))
  await objects.create(workloadEntry(space, 'leaver', 'none', `198.51.100.${n}`))
  room = await ClusterRoom.open(api, markers)
  await room.server.started
  everything = await room.connect()
  asking = await room.connect(...askedFor())
  await room.settle()
  for (const client of room.clients) client.forget()
})

afterEach(async () => {
  if (!('unavailable' in started)) await room.close()
})

/** Changes of most kinds, none of which has a part in what another one changes. No pod goes: a real one changes first, and then goes. */
async function changeThings(): Promise<void> {
  await objects.patch(ref('Pod', 'web'), { metadata: { labels: { 'app.kubernetes.io/name': 'renamed' } } })
  await objects.remove(ref('WorkloadEntry', 'leaver'))
  await objects.create({ ...pod(space, 'new'), status: addressed(`10.1.${n}.7`) })
  await objects.remove(ref('Service', 'old'))
  await objects.create(service(space, 'young', {}, `10.96.${n}.5`))
  await objects.patchStatus(ref('Gateway', 'way'), { addresses: [{ type: 'IPAddress', value: `10.96.${n}.8` }] })
  await objects.patch(ref('WorkloadEntry', 'vm'), { spec: { weight: 3 } })
}

/** What they lead to. */
function expectThingsChanged(): void {
  expect(everything.news).toEqual({
    sent: [uid('web'), uid('new'), host('young'), host('lone'), entry('vm')].sort(),
    removed: [entry('leaver'), host('old')].sort(),
  })
  expect(asking.news).toEqual({ sent: [uid('web'), uid('new')].sort(), removed: [entry('leaver')] })
  for (const client of [everything, asking]) expect(client.repeated).toEqual([])
}

/** While the API server is away nobody loses anything, and everybody is answered. */
async function expectServed(): Promise<void> {
  expect(room.server.ready()).toBe(true)
  expect([everything.count, asking.count]).toEqual([0, 0])
  const newcomer = await room.connect()
  expect(newcomer.held).toEqual(everything.held)
  expect((await room.ctl('whatis', `198.51.100.${n}`)).exit).toBe(0)
  expect((await room.ctl('whatis', `10.1.${n}.7`)).exit).toBe(1)
  room.clients.splice(room.clients.indexOf(newcomer), 1)
  newcomer.close()
}

const told = (message: string): string[] =>
  room.log.records.filter((record) => record.message === message).map(({ fields }) => String(fields['kind']))

testReal(
  'an API server that dies and comes back with what it had makes nobody hear anything',
  async () => {
    await api.kill()
    await room.until(
      () => new Set(told('a watch broke and is opened again')).size === kinds.length,
      'every watch to break',
    )
    await expectServed()
    await api.restart()
    await room.settleAfterOutage()
    expect([everything.count, asking.count]).toEqual([0, 0])
    await room.change(() => objects.remove(ref('WorkloadEntry', 'leaver')))
    expect([everything.news, asking.news]).toEqual(Array(2).fill({ sent: [], removed: [entry('leaver')] }))
  },
  timeoutMs,
)

testReal(
  'what changed while it was away and its history was lost is sent, once, and nothing else',
  async () => {
    room.relay.refuse()
    await api.kill()
    await api.restart()
    await changeThings()
    await api.restart({ compact: true })
    await expectServed()
    room.relay.accept()
    await room.settleAfterOutage()
    expectThingsChanged()
    expect(new Set(told('the history is gone and the kind is listed again'))).toEqual(new Set(kinds))
  },
  timeoutMs,
)

testReal(
  'an API server that stands still is found again when it goes on',
  async () => {
    api.pause()
    try {
      room.clock.jump(kubeLimits.watchdogMs)
      await room.until(
        () => new Set(told('a watch went silent and is opened again')).size === kinds.length,
        'every watch to be given up',
      )
      await expectServed()
      room.clock.jump(kubeLimits.connectTimeoutMs)
      await expectServed()
    } finally {
      api.resume()
    }
    await changeThings()
    await room.settleAfterOutage()
    expectThingsChanged()
  },
  timeoutMs,
)

testReal(
  'connections that go silent without an end are given up after a while, and what they kept back is sent once',
  async () => {
    room.relay.goSilent()
    await changeThings()
    await expectServed()
    room.clock.jump(kubeLimits.watchdogMs)
    await room.settle()
    expectThingsChanged()
    expect(new Set(told('a watch went silent and is opened again'))).toEqual(new Set(kinds))
    expect(told('the API server could not be read and is asked again')).toEqual([])
    expect(told('the history is gone and the kind is listed again')).toEqual([])
  },
  timeoutMs,
)

testReal(
  'an API server that is away at the start is waited for',
  async () => {
    const other = await ClusterRoom.open(api, undefined, { isCutOff: true })
    try {
      await other.until(
        () =>
          other.log.records.some(({ message }) => message === 'the API server could not be read and is asked again'),
        'the first try',
      )
      expect([other.server.ready(), other.server.bound.grpc]).toEqual([false, undefined])
      other.relay.accept()
      const stop = other.hurry()
      await other.server.started
      stop()
      const client = await other.connect()
      expect(client.held).toEqual(everything.held)
    } finally {
      await other.close()
    }
  },
  timeoutMs,
)

const testProgram = 'unavailable' in started ? testReal : testWith('build', notBuilt)
testProgram(
  'the program itself comes through it: clients are sent what changed, and let go in good order at its end',
  async () => {
    const program = await spawnAddressd(['--kubeconfig', api.kubeconfigPath])
    const server = `127.0.0.1:${program.port}`
    const ask = async (question: string): Promise<unknown> => {
      const { exit, output } = await runAddressctl('whatis', question, '-o', 'json', '--server', server)
      return exit === 0 ? JSON.parse(output).found.map(({ name }: { name: string }) => name) : exit
    }
    try {
      const [its, itsAsking] = await Promise.all([
        RoomClient.connect(program.port, ['*']),
        RoomClient.connect(program.port, askedFor()),
      ])
      expect(its.held).toEqual(everything.held)
      expect(itsAsking.held).toEqual(asking.held)
      expect(await Promise.all([ask(`10.1.${n}.5`), ask(host('cart')), ask(`10.1.${n}.7`)])).toEqual([
        [uid('web')],
        [host('cart')],
        1,
      ])
      for (const client of [its, itsAsking]) client.forget()

      const before = await countWatches(program.monitoringPort)
      await api.restart({ compact: true })
      await changeThings()
      await room.settleAfterOutage()
      expectThingsChanged()
      // Each kind is watched anew, and what it has to tell has been told.
      const isWatched = async (): Promise<boolean> => {
        const now = await countWatches(program.monitoringPort)
        return kinds.every((kind) => (now[kind] ?? 0) > (before[kind] ?? 0))
      }
      while (!(await isWatched())) await sleep(100)
      await its.client.until(() => its.news.sent.length >= everything.news.sent.length, 'the changes', timeoutMs)
      await its.client.until(() => its.news.removed.length >= everything.news.removed.length, 'the removals', timeoutMs)
      await Promise.all([its.ping(), itsAsking.ping()])
      expect([its.news, itsAsking.news]).toEqual([everything.news, asking.news])
      expect([its.repeated, itsAsking.repeated]).toEqual([[], []])
      expect(its.held).toEqual(everything.held)
      expect(await Promise.all([ask(`10.1.${n}.7`), ask(`198.51.100.${n}`)])).toEqual([[uid('new')], 1])

      const [code, ...ends] = await Promise.all([
        program.stop(),
        its.client.untilEnded(),
        itsAsking.client.untilEnded(),
      ])
      expect([code, ends.map((end) => end.code)]).toEqual([0, [0, 0]])
    } finally {
      program.kill()
    }
  },
  timeoutMs,
)

/** Watches that the program has opened, by kind. */
async function countWatches(port: number): Promise<Readonly<Record<string, number>>> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  const opened = text.matchAll(/^addressd_kube_requests_total\{kind="(\w+)",verb="watch",code="200"\} (\d+)$/gm)
  return Object.fromEntries([...opened].map(([, kind, count]) => [kind, Number(count)]))
}
