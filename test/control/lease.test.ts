// SPDX-License-Identifier: Apache-2.0
// Who leads: one at a time, whatever clocks say, through death, farewell and outage.

import { afterEach, describe, expect, test } from '@jest/globals'
import { leaseLimits } from '../../src/control/lease.js'
import type { Json } from '../support/fake-apiserver-store.js'
import { ControlRoom, leaseNamespace } from './room.js'

let room: ControlRoom
let led: string[]

afterEach(async () => {
  await room.close()
})

/** Work that says who does it, until it is told to stop. */
const work = (who: string) => ({
  tasks: [
    {
      name: 'work',
      run: async (signal: AbortSignal) => {
        led.push(`${who} begins`)
        await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
        led.push(`${who} ends`)
      },
    },
  ],
})

async function open(...names: readonly string[]): Promise<void> {
  room = await ControlRoom.open()
  led = []
  for (const name of names) await room.start(name, work(name))
}

const lease = (): Json => room.server.get('Lease', leaseNamespace, 'addressd-leader') as Json
const leaders = (): readonly boolean[] => room.replicas.map((replica) => replica.isLeader)

describe('of two replicas', () => {
  test('one leads and renews, the other waits', async () => {
    await open('a', 'b')
    expect([leaders(), led]).toEqual([[true, false], ['a begins']])
    expect(lease()['spec']).toEqual({
      holderIdentity: 'a',
      leaseDurationSeconds: 15,
      acquireTime: '2026-01-01T00:00:00.000000Z',
      renewTime: '2026-01-01T00:00:00.000000Z',
      leaseTransitions: 0,
    })
    await room.advance(60_000)
    expect([leaders(), led]).toEqual([[true, false], ['a begins']])
    expect(Date.parse(lease()['spec'].renewTime)).toBeGreaterThan(room.clock.now() - leaseLimits.retryMs)
    expect(lease()['spec'].acquireTime).toBe('2026-01-01T00:00:00.000000Z')
  })

  test('that start at the same moment exactly one leads', async () => {
    await open()
    await Promise.all(['a', 'b', 'c'].map((name) => room.start(name, work(name))))
    expect(leaders().filter(Boolean)).toHaveLength(1)
    await room.advance(20_000)
    expect(leaders().filter(Boolean)).toHaveLength(1)
    expect(led).toHaveLength(1)
  })

  test('the other leads once a dead leader has been silent for the time of the lease, and not before', async () => {
    await open('a', 'b')
    await room.advance(5_000)
    await room.replicas[0]?.kill()
    await room.advance(leaseLimits.durationMs - leaseLimits.retryMs)
    expect(leaders()).toEqual([false, false])
    await room.advance(2 * leaseLimits.retryMs)
    expect([leaders(), led]).toEqual([
      [false, true],
      ['a begins', 'a ends', 'b begins'],
    ])
    expect([lease()['spec'].holderIdentity, lease()['spec'].leaseTransitions]).toEqual(['b', 1])
  })

  test('the other leads at its next look when the leader says farewell', async () => {
    await open('a', 'b')
    room.replicas[0]?.finish()
    await room.quiet()
    expect([leaders(), led, lease()['spec'].holderIdentity]).toEqual([[false, false], ['a begins', 'a ends'], ''])
    await room.advance(leaseLimits.retryMs)
    expect([leaders(), led]).toEqual([
      [false, true],
      ['a begins', 'a ends', 'b begins'],
    ])
  })
})

describe('times that others write', () => {
  const held = (renewTime: string): Json => ({
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name: 'addressd-leader', namespace: leaseNamespace },
    spec: { holderIdentity: 'other', leaseDurationSeconds: 15, renewTime, leaseTransitions: 7 },
  })

  test.each([
    ['long ago', '2020-01-01T00:00:00.000000Z'],
    ['in the future', '2030-01-01T00:00:00.000000Z'],
  ])('do not count: a lease renewed %s is free when it was not seen to change for its duration', async (_, time) => {
    await open()
    room.server.upsert(held(time))
    const replica = await room.start('a', work('a'))
    await room.advance(12_000)
    // As a leader does whose clock is off by years: it writes, and that it writes is what counts.
    room.server.upsert(held(time))
    await room.advance(14_000)
    expect(replica.isLeader).toBe(false)
    await room.advance(2 * leaseLimits.retryMs)
    expect([replica.isLeader, lease()['spec'].leaseTransitions]).toEqual([true, 8])
  })
})

describe('when the API server', () => {
  test('does not answer, the leader stops before anybody else may begin', async () => {
    await open('a')
    await room.advance(6_000)
    room.server.api({ kind: 'Lease', answer: 'timeout', times: 1_000 })
    await room.advance(leaseLimits.renewDeadlineMs)
    expect([leaders(), led]).toEqual([[false], ['a begins', 'a ends']])
    expect(room.clock.now() - Date.parse(lease()['spec'].renewTime)).toBeLessThan(leaseLimits.durationMs)
  })

  test('fails for a moment, the leader stays', async () => {
    await open('a')
    room.server.api({ kind: 'Lease', answer: 503, times: 2 })
    await room.advance(leaseLimits.renewDeadlineMs)
    expect([leaders(), led]).toEqual([[true], ['a begins']])
  })

  test('does not allow it, that is said once, with the right to grant', async () => {
    await open()
    room.server.api({ kind: 'Lease', answer: 403, times: 1_000 })
    const replica = await room.start('a', work('a'))
    await room.advance(60_000)
    expect(replica.isLeader).toBe(false)
    expect(replica.log.records.filter(({ level }) => level === 'warn')).toMatchObject([
      {
        message: 'the lease of the writers cannot be had',
        fields: { hint: `grant get, create and update on leases in namespace ${leaseNamespace}` },
      },
    ])
  })

  test('shows a lease that somebody took away by hand, the leader stops at once', async () => {
    await open('a')
    await room.advance(1_000)
    room.server.patch({
      kind: 'Lease',
      namespace: leaseNamespace,
      name: 'addressd-leader',
      merge: { spec: { holderIdentity: 'somebody' } },
    })
    await room.advance(leaseLimits.retryMs)
    expect([leaders(), led]).toEqual([[false], ['a begins', 'a ends']])
  })

  test('shows the lease under a new version, it is renewed all the same', async () => {
    await open('a')
    room.server.patch({
      kind: 'Lease',
      namespace: leaseNamespace,
      name: 'addressd-leader',
      merge: { metadata: { labels: { seen: 'yes' } } },
    })
    await room.advance(20_000)
    expect([leaders(), led, lease()['metadata'].labels]).toEqual([[true], ['a begins'], { seen: 'yes' }])
  })
})

test('work that fails gives the lead away, and it is tried again', async () => {
  room = await ControlRoom.open()
  led = []
  let fails = 1
  const task = {
    name: 'work',
    run: (signal: AbortSignal) =>
      fails-- > 0
        ? Promise.reject(new Error('broken'))
        : new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true })),
  }
  const replica = await room.start('a', { tasks: [task] })
  await room.advance(100)
  expect([replica.isLeader, lease()['spec'].holderIdentity]).toEqual([false, ''])
  await room.advance(2 * leaseLimits.retryMs)
  expect(replica.isLeader).toBe(true)
})

test('without anything to do there is no lease', async () => {
  room = await ControlRoom.open()
  const replica = await room.start('a', {})
  await room.advance(10_000)
  expect([replica.isLeader, room.server.writes]).toEqual([false, []])
})
