// SPDX-License-Identifier: Apache-2.0
// The writers against a real Kubernetes API server: leases, server-side apply on every kind, JSON patches, with our definitions. What a fake server
// can only guess.

import { afterAll, beforeAll, expect } from '@jest/globals'
import { fileURLToPath } from 'node:url'
import { randomUUID } from 'node:crypto'
import { systemClock } from '../../src/base/clock.js'
import { silentLogger } from '../../src/base/log.js'
import { createConditionWriter } from '../../src/control/condition-writer.js'
import { formatStatusWriteKey, type StatusWrite, type StatusWrites } from '../../src/control/conditions.js'
import { Election } from '../../src/control/lease.js'
import { ObjectApi } from '../../src/control/object-api.js'
import { createKubeApi } from '../../src/kube/client.js'
import { resourceTypes, formatResourcePath } from '../../src/kube/resources.js'
import { readSettings } from '../cluster/room.js'
import { startServer } from '../../src/main/serve.js'
import { apiServerStartTimeoutMs, startApiServer, type ApiServer } from '../support/apiserver.js'
import { ticks } from '../support/fake-apiserver-taken.js'
import { testWith } from '../support/optional.js'
import { namespace, policy, service, serviceEntry, waypoint } from './room.js'

const definitions = fileURLToPath(new URL('../../charts/addressd/crds', import.meta.url))
const folder = process.env['CRDS_DIR'] ?? definitions
const started = await startApiServer({ crdsFolder: folder })
const testReal = testWith('api-server', 'unavailable' in started ? started.unavailable : undefined)
const api = started as ApiServer
const timeoutMs = 120_000

type Json = Record<string, any>

async function put(object: Json): Promise<Json> {
  const { kind, metadata } = object
  const type = resourceTypes[kind as keyof typeof resourceTypes]
  const place = metadata.namespace === undefined ? {} : { namespace: metadata.namespace }
  const { creationTimestamp: _, generation: __, ...meta } = metadata
  const answer = await api.request('POST', formatResourcePath(type, type.versions[0]!, place), {
    ...object,
    metadata: meta,
  })
  if (answer.status !== 201) throw new Error(`${kind} ${metadata.name}: ${answer.status} ${answer.body.toString()}`)
  if (object['status'] !== undefined) await setStatus(kind, metadata, object['status'])
  return get(kind, metadata)
}

function pathOf(kind: string, at: Json): string {
  const type = resourceTypes[kind as keyof typeof resourceTypes]
  return formatResourcePath(type, type.versions[0]!, { namespace: at['namespace'], name: at['name'] })
}

async function setStatus(kind: string, at: Json, status: Json): Promise<void> {
  const patch = { 'content-type': 'application/merge-patch+json' }
  const answer = await api.request('PATCH', `${pathOf(kind, at)}/status`, { status }, patch)
  expect(answer.status).toBe(200)
}

const get = async (kind: string, at: Json): Promise<Json> => (await api.request('GET', pathOf(kind, at))).json()

const conditionsOf = async (kind: string, at: Json): Promise<readonly string[]> =>
  (((await get(kind, at))['status']?.conditions ?? []) as Json[]).map(
    (c) => `${c['type']} ${c['status']} ${c['reason'] ?? ''}`,
  )

async function until(condition: () => Promise<boolean>, what: string): Promise<void> {
  const end = performance.now() + 60_000
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`waited in vain for ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

beforeAll(async () => {
  if ('unavailable' in started) return
  for (const name of ['shop', 'istio-system']) await put(namespace(name))
}, apiServerStartTimeoutMs)

afterAll(async () => {
  if (!('unavailable' in started)) await api.stop()
})

testReal(
  'a condition of ours is put beside those of others and taken away again, on every kind',
  async () => {
    const kube = await createKubeApi({ kubeconfig: api.kubeconfigPath, clock: systemClock })
    const other = {
      type: 'example.org/Seen',
      status: 'True',
      reason: 'Hand',
      message: '',
      lastTransitionTime: '2026-01-01T00:00:00Z',
    }
    const mine = {
      type: 'istio.io/WaypointBound',
      status: 'True',
      reason: 'WaypointAccepted',
      message: 'm',
      observedGeneration: 3,
    }
    const entry = {
      apiVersion: 'networking.istio.io/v1',
      kind: 'WorkloadEntry',
      metadata: { namespace: 'shop', name: 'c' },
      spec: { address: '10.9.9.9' },
    }
    for (const object of [
      service('shop', 'c'),
      serviceEntry('shop', 'c', ['c.ex']),
      entry,
      policy('shop', 'c', {}),
    ] as Json[]) {
      if (object['kind'] === 'Service') object['spec'] = { ports: object['spec'].ports }
      const stored = await put({ ...object, status: { conditions: [other] } })
      const kind = object['kind'] as StatusWrite['kind']
      const base = {
        kind,
        namespace: 'shop',
        name: 'c',
        manager: 'istio-ambient-service',
        types: [mine.type],
        present: [],
      } as const
      const write = (uid: string, wanted: StatusWrite['wanted']) => {
        const row: StatusWrite = { ...base, uid, wanted }
        const writes = { get: () => row } as unknown as StatusWrites
        return createConditionWriter({ objects: new ObjectApi(kube, systemClock), writes, clock: systemClock })(
          formatStatusWriteKey(row),
          new AbortController().signal,
        )
      }
      const { uid } = stored['metadata']
      const at = { namespace: 'shop', name: 'c' }
      expect([kind, await write(uid, [mine]), await conditionsOf(kind, at)]).toEqual([
        kind,
        'written',
        ['example.org/Seen True Hand', 'istio.io/WaypointBound True WaypointAccepted'],
      ])
      expect([kind, await write(uid, []), await conditionsOf(kind, at)]).toEqual([
        kind,
        'written',
        ['example.org/Seen True Hand'],
      ])
      // An object that took the name of the one that was judged is left alone.
      expect([
        kind,
        ['again', 'done'].includes(await write(randomUUID(), [mine])),
        await conditionsOf(kind, at),
      ]).toEqual([kind, true, ['example.org/Seen True Hand']])
    }
    kube.close()
  },
  timeoutMs,
)

testReal(
  'a lease is taken, kept, given back, and taken by the next',
  async () => {
    const kube = await createKubeApi({ kubeconfig: api.kubeconfigPath, clock: systemClock })
    const lead = async (identity: string): Promise<Json> => {
      const stop = new AbortController()
      const election = new Election({
        objects: new ObjectApi(kube, systemClock),
        clock: systemClock,
        log: silentLogger,
        namespace: 'istio-system',
        name: 'test',
        identity,
        random: () => 1,
        lead: (signal) => new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true })),
      })
      const running = election.run(stop.signal, new AbortController().signal)
      await until(() => Promise.resolve(election.isLeader()), identity)
      stop.abort(new Error('enough'))
      await running
      return (await api.request('GET', '/apis/coordination.k8s.io/v1/namespaces/istio-system/leases/test')).json()[
        'spec'
      ]
    }
    expect(await lead('a')).toMatchObject({ holderIdentity: '', leaseTransitions: 0 })
    expect(await lead('b')).toMatchObject({ holderIdentity: '', leaseTransitions: 1 })
    kube.close()
  },
  timeoutMs,
)

testReal(
  'the whole program writes conditions and addresses, and gives the lease back when it drains',
  async () => {
    const uses = { labels: { 'istio.io/use-waypoint': 'wp' } }
    await put(waypoint('shop', 'wp'))
    await put(serviceEntry('shop', 'ext', ['a.ex', 'b.ex'], { metadata: uses }))
    await put(policy('shop', 'audit', { action: 'AUDIT' }))
    const server = await startServer({
      settings: readSettings(['--kubeconfig', api.kubeconfigPath]),
      clock: systemClock,
      log: silentLogger,
    })
    await server.started
    const ext = { namespace: 'shop', name: 'ext' }
    await until(async () => {
      const { status } = await get('ServiceEntry', ext)
      return status?.addresses?.length === 4 && status?.conditions?.length === 1
    }, 'the entry')
    expect((await get('ServiceEntry', ext))['status'].addresses).toEqual([
      { value: expect.stringMatching(/^240\.240\.0\./), host: 'a.ex' },
      { value: expect.stringMatching(/^2001:2::/), host: 'a.ex' },
      { value: expect.stringMatching(/^240\.240\.0\./), host: 'b.ex' },
      { value: expect.stringMatching(/^2001:2::/), host: 'b.ex' },
    ])
    await until(
      async () => (await conditionsOf('AuthorizationPolicy', { namespace: 'shop', name: 'audit' })).length === 1,
      'the policy',
    )
    expect(await conditionsOf('AuthorizationPolicy', { namespace: 'shop', name: 'audit' })).toEqual([
      'ZtunnelAccepted False UnsupportedValue',
    ])
    await server.drain()
    await server.stop()
    await ticks()
    const lease = await api.request(
      'GET',
      '/apis/coordination.k8s.io/v1/namespaces/istio-system/leases/addressd-leader',
    )
    expect(lease.json()['spec'].holderIdentity).toBe('')
  },
  timeoutMs,
)
