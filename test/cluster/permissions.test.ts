// SPDX-License-Identifier: Apache-2.0
// An account that may not read one kind: addressd says which and what to grant, is not ready without it, and goes on by itself when it may.

import { afterAll, beforeAll, expect } from '@jest/globals'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { kinds } from '../../src/kube/inputs.js'
import { resourceTypes } from '../../src/kube/resources.js'
import { apiServerStartTimeoutMs, startApiServer, type ApiServer } from '../support/apiserver.js'
import { testWith } from '../support/optional.js'
import type { RoomClient } from './client.js'
import { addressed, pod } from './mesh.js'
import { ClusterObjects } from './objects.js'
import { ClusterRoom, writeKubeconfig } from './room.js'

const timeoutMs = 180_000
const definitions = fileURLToPath(new URL('../../charts/addressd/crds', import.meta.url))
const started = await startApiServer({ crdsFolder: definitions, authorization: 'RBAC' })
const testReal = testWith('api-server', 'unavailable' in started ? started.unavailable : undefined)
const api = started as ApiServer
const objects = new ClusterObjects(api.request)
const rbac = '/apis/rbac.authorization.k8s.io/v1'
const web = 'Kubernetes//Pod/shop/web'
let kubeconfigPath = ''
let room: ClusterRoom
let everything: RoomClient

async function post(path: string, object: object): Promise<any> {
  const answer = await api.request('POST', path, object)
  if (answer.status !== 201) throw new Error(`${path}: ${answer.status} ${answer.body.toString()}`)
  return answer.json()
}

/** All that addressd reads, without this resource. */
function toRules(withheld?: string): object[] {
  return kinds
    .map((kind) => resourceTypes[kind])
    .filter(({ plural }) => plural !== withheld)
    .map(({ group, plural }) => ({ apiGroups: [group], resources: [plural], verbs: ['list', 'watch'] }))
}

async function grant(rules: object[]): Promise<void> {
  const patch = { 'content-type': 'application/merge-patch+json' }
  const answer = await api.request('PATCH', `${rbac}/clusterroles/addressd`, { rules }, patch)
  expect(answer.status).toBe(200)
}

const denials = (): object[] =>
  room.log.records
    .filter(({ message }) => message === 'the API server denies access')
    .map(({ level, fields }) => ({ level, ...fields }))

beforeAll(async () => {
  if ('unavailable' in started) return
  for (const name of ['shop', 'addressd']) await objects.create({ kind: 'Namespace', metadata: { name } })
  await objects.create({ ...pod('shop', 'web'), status: addressed('10.1.0.5') })
  const accounts = '/api/v1/namespaces/addressd/serviceaccounts'
  await post(accounts, { metadata: { name: 'addressd' } })
  const { status } = await post(`${accounts}/addressd/token`, { spec: { expirationSeconds: 3600 } })
  kubeconfigPath = join(api.folder, 'kubeconfig-addressd')
  writeKubeconfig(api.kubeconfigPath, kubeconfigPath, (config) => (config.users[0].user = { token: status.token }))
  await post(`${rbac}/clusterroles`, { metadata: { name: 'addressd' }, rules: toRules('pods') })
  await post(`${rbac}/clusterrolebindings`, {
    metadata: { name: 'addressd' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'addressd' },
    subjects: [{ kind: 'ServiceAccount', namespace: 'addressd', name: 'addressd' }],
  })
}, apiServerStartTimeoutMs)

afterAll(async () => {
  if ('unavailable' in started) return
  await room.close()
  await api.stop()
})

testReal(
  'without the right to one kind it is not ready and says what to grant; granted, it becomes ready by itself',
  async () => {
    room = await ClusterRoom.open(api, undefined, { kubeconfigPath })
    await room.until(() => room.server.work().unread === 1 && denials().length > 0, 'all the rest to be read')
    expect(denials()[0]).toMatchObject({
      level: 'error',
      kind: 'Pod',
      verb: 'list',
      resource: 'pods',
      error: expect.stringContaining('403'),
      hint: 'grant list and watch on pods to the account this program runs as',
    })
    const ready = async (): Promise<[number, string]> => {
      const answer = await fetch(`http://127.0.0.1:${room.server.bound.http!.port}/ready`)
      return [answer.status, await answer.text()]
    }
    expect(await ready()).toEqual([503, JSON.stringify({ pending: ['read Pod'] })])
    expect(room.server.bound.grpc).toBeUndefined()

    await grant(toRules())
    const stop = room.hurry()
    await room.server.started
    stop()
    expect(await ready()).toEqual([200, ''])
    everything = await room.connect()
    expect(everything.held.has(web)).toBe(true)
    expect(new Set(denials().map((denial: any) => denial.kind))).toEqual(new Set(['Pod']))
  },
  timeoutMs,
)

testReal(
  'a right that is taken away later leaves what is known in place, and is said with its resource',
  async () => {
    everything.forget()
    room.log.records.length = 0
    await grant(toRules('gateways'))
    const watched = '/apis/gateway.networking.k8s.io/v1/gateways?limit=1'
    await untilDenied(watched)
    room.relay.refuse()
    room.relay.accept()
    const stop = room.hurry()
    await room.until(() => denials().length > 0, 'the denial')
    stop()
    expect(denials()[0]).toMatchObject({
      kind: 'Gateway',
      verb: 'watch',
      resource: 'gateways.gateway.networking.k8s.io',
    })
    expect([room.server.ready(), everything.count]).toEqual([true, 0])
    await objects.patchStatus({ kind: 'Pod', namespace: 'shop', name: 'web' }, addressed('10.1.0.5', false))
    await everything.client.until(() => everything.count === 1, 'the pod')
    expect(everything.news).toEqual({ sent: [web], removed: [] })
  },
  timeoutMs,
)

/** Roles count a moment after they are written. */
async function untilDenied(path: string): Promise<void> {
  const impersonate = { 'impersonate-user': 'system:serviceaccount:addressd:addressd' }
  const status = async (): Promise<number> => (await api.request('GET', path, undefined, impersonate)).status
  while ((await status()) !== 403) await room.rest()
}
