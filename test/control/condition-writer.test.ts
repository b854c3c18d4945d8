// SPDX-License-Identifier: Apache-2.0
// Conditions as they come to stand in the API server: once, by the leader, beside what others wrote, and gone when there is nothing to say.

import { afterEach, describe, expect, test } from '@jest/globals'
import { workLimits } from '../../src/control/work-queue.js'
import type { Json } from '../support/fake-apiserver-store.js'
import { ControlRoom, namespace, policy, service, serviceEntry, waypoint, type Replica } from './room.js'

let room: ControlRoom
const replica = (): Replica => room.replicas[0]!
const uses = { labels: { 'istio.io/use-waypoint': 'wp' } }

afterEach(async () => {
  await room.close()
})

async function open(...objects: readonly Json[]): Promise<void> {
  room = await ControlRoom.open(namespace('shop'), ...objects)
  await room.start('a', { conditions: true })
  await room.advance(1_000)
}

const bound = (message = 'traffic goes through waypoint shop/wp'): Json => ({
  type: 'istio.io/WaypointBound',
  status: 'True',
  reason: 'WaypointAccepted',
  message,
})
const refused = (reason: string, why: string): Json => ({
  type: 'istio.io/WaypointBound',
  status: 'False',
  reason,
  message: `waypoint shop/wp is not used: ${why}`,
})
const notReady = refused('WaypointIsNotReady', 'it does not exist or has no address yet')

test('a condition is written once, follows what becomes of it, and goes with the reference; nothing is pushed for it', async () => {
  await open(service('shop', 'web', uses))
  expect(room.conditions('Service', 'shop', 'web')).toEqual([notReady])
  expect(room.server.writes.filter(({ kind }) => kind === 'Service')).toEqual([
    {
      kind: 'Service',
      namespace: 'shop',
      name: 'web',
      verb: 'patch',
      subresource: 'status',
      contentType: 'application/apply-patch+yaml',
      fieldManager: 'istio-ambient-service',
      body: {
        apiVersion: 'v1',
        kind: 'Service',
        metadata: { name: 'web', namespace: 'shop', uid: room.server.get('Service', 'shop', 'web')!['metadata'].uid },
        status: { conditions: [{ ...notReady, lastTransitionTime: '2026-01-01T00:00:00Z' }] },
      },
    },
  ])
  expect(replica().pushes).toEqual([['shop/web.shop.svc.cluster.local']])

  await room.advance(10_000)
  expect(room.writes()).toHaveLength(1)

  await room.change(waypoint('shop', 'wp'))
  expect([room.conditions('Service', 'shop', 'web'), room.writes()]).toEqual([
    [bound()],
    ['patch Service web/status', 'patch Service web/status'],
  ])
  room.server.patch({ kind: 'Service', namespace: 'shop', name: 'web', merge: { metadata: { labels: null } } })
  await room.advance(10_000)
  expect([room.conditions('Service', 'shop', 'web'), room.writes()]).toEqual([
    [],
    ['patch Service web/status', 'patch Service web/status', 'patch Service web/status'],
  ])
  // First answer, waypoint bound, waypoint gone.
  expect(replica().pushes).toEqual(Array(3).fill(['shop/web.shop.svc.cluster.local']))
})

test('what says already what it should is not written, whoever wrote it', async () => {
  await open(
    waypoint('shop', 'wp'),
    { ...service('shop', 'web', uses), status: { conditions: [bound(), { type: 'Other', status: 'True' }] } },
    service('shop', 'plain'),
  )
  expect(room.writes()).toEqual([])
})

describe('conditions of others stay', () => {
  const other = { type: 'example.org/Seen', status: 'True', reason: 'Hand', message: 'm' }
  const entry = (): Json =>
    serviceEntry('shop', 'ext', ['*.example'], { metadata: uses, status: { conditions: [other] } })

  test('where each is a field of its own', async () => {
    await open(waypoint('shop', 'wp'), entry())
    expect(room.conditions('ServiceEntry', 'shop', 'ext')).toEqual([other, bound()])
    expect(room.server.writes.at(-1)?.body.status.conditions).toHaveLength(1)
  })

  test('where the whole list is one field, also when a policy changes sides', async () => {
    room = await ControlRoom.open(namespace('shop'))
    room.server.wholeConditions.add('ServiceEntry').add('AuthorizationPolicy')
    const managed = { managedFields: [{ manager: 'hand', fieldsV1: { 'f:status': { 'f:conditions': {} } } }] }
    const stored = entry()
    room.server.upsert(waypoint('shop', 'wp'), { ...stored, metadata: { ...stored['metadata'], ...managed } })
    room.server.upsert({ ...policy('shop', 'p', { action: 'AUDIT' }, managed), status: { conditions: [other] } })
    await room.start('a', { conditions: true })
    await room.advance(1_000)
    expect(room.conditions('ServiceEntry', 'shop', 'ext')).toEqual([other, bound()])
    expect(room.conditions('AuthorizationPolicy', 'shop', 'p').map(({ type }) => type as string)).toEqual([
      'example.org/Seen',
      'ZtunnelAccepted',
    ])
    const target = { group: 'gateway.networking.k8s.io', kind: 'Gateway', name: 'wp' }
    room.server.patch({
      kind: 'AuthorizationPolicy',
      namespace: 'shop',
      name: 'p',
      merge: { metadata: { generation: 2 }, spec: { action: null, targetRefs: [target] } },
    })
    await room.advance(10_000)
    expect(room.conditions('AuthorizationPolicy', 'shop', 'p')).toEqual([
      other,
      {
        type: 'WaypointAccepted',
        status: 'True',
        reason: 'Accepted',
        message: 'taken by waypoint shop/wp',
        observedGeneration: 2,
      },
    ])
    expect(room.server.writes.filter(({ kind }) => kind === 'AuthorizationPolicy').map((w) => w.fieldManager)).toEqual(
      expect.arrayContaining(['istio-ambient-ztunnel-policy', 'istio-ambient-waypoint-policy']),
    )
  })
})

test('of two replicas only the leader writes, and the next one goes on where it stopped', async () => {
  room = await ControlRoom.open(namespace('shop'), waypoint('shop', 'wp'), service('shop', 'web', uses))
  await room.start('a', { conditions: true })
  await room.start('b', { conditions: true })
  await room.advance(1_000)
  expect(room.writes()).toEqual(['patch Service web/status'])
  await room.replicas[0]?.kill()
  await room.change(service('shop', 'late', uses))
  expect(room.writes()).toEqual(['patch Service web/status'])
  await room.advance(20_000)
  expect(room.replicas[1]?.isLeader).toBe(true)
  expect(room.writes()).toEqual(['patch Service web/status', 'patch Service late/status'])
})

test('a replica that may write and does not lead writes nothing', async () => {
  room = await ControlRoom.open(namespace('shop'), service('shop', 'web', uses))
  room.server.api({ kind: 'Lease', answer: 503, times: 1_000 })
  await room.start('a', { conditions: true })
  await room.advance(10_000)
  expect(room.writes()).toEqual([])
})

describe('when a write does not succeed', () => {
  const failed = (times: number, answer: number): void =>
    room.server.api({ verb: 'patch', kind: 'Service', subresource: 'status', answer, times })

  test('because the server fails, it is tried again, more and more rarely, until it does', async () => {
    room = await ControlRoom.open(namespace('shop'), service('shop', 'web', uses))
    failed(6, 503)
    await room.start('a', { conditions: true })
    await room.advance(60_000)
    expect(room.conditions('Service', 'shop', 'web')).toEqual([notReady])
    const said = replica().log.records.filter(({ level, message }) => level === 'warn' && message.includes('written'))
    expect(said).toHaveLength(1)
  })

  test('because somebody was faster five times in a row, it rests until the object changes', async () => {
    room = await ControlRoom.open(namespace('shop'), service('shop', 'web', uses))
    failed(workLimits.conflicts, 409)
    await room.start('a', { conditions: true })
    await room.advance(15_000)
    expect(room.conditions('Service', 'shop', 'web')).toEqual([])
    await room.change(waypoint('shop', 'wp'))
    expect(room.conditions('Service', 'shop', 'web')).toEqual([bound()])
  })

  test('because it is not allowed, the log says what to grant, and others are written', async () => {
    room = await ControlRoom.open(namespace('shop'), service('shop', 'a', uses), service('shop', 'b', uses))
    room.server.api({ verb: 'patch', name: 'a', answer: 403, times: 1_000 })
    await room.start('a', { conditions: true })
    await room.advance(1_000)
    expect([room.conditions('Service', 'shop', 'a'), room.conditions('Service', 'shop', 'b')]).toEqual([[], [notReady]])
    expect(replica().log.records.find(({ level }) => level === 'warn')?.fields).toMatchObject({
      object: 'Service/shop/a/istio-ambient-service',
      hint: 'grant it to the account this program runs as, or turn the writer off',
    })
  })
})

test('two who write different things do not write faster and faster', async () => {
  await open(waypoint('shop', 'wp'), service('shop', 'web', uses))
  for (let seconds = 0; seconds < 60; seconds += 3) {
    const web = room.server.get('Service', 'shop', 'web')!
    if (web['status'].conditions[0].message !== 'theirs')
      room.server.upsert({ ...web, status: { conditions: [bound('theirs')] } })
    await room.advance(3_000)
  }
  expect(room.writes().length).toBeLessThan(8)
  expect(room.writes().length).toBeGreaterThan(3)
})
