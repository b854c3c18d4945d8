// SPDX-License-Identifier: Apache-2.0
// A real ztunnel whose addressd goes away: it keeps what it has, comes back, and ends right.

import { afterEach, describe, expect } from '@jest/globals'
import { testWith } from '../support/optional.js'
import { namespace, nameOf, pod, policy, service } from './objects.js'
import { expectHeld, expectReady, Room } from './room.js'
import { until, whyNoZtunnel, type Ztunnel } from './ztunnel.js'

const maybe = testWith('ztunnel', whyNoZtunnel())

let room: Room | undefined
afterEach(async () => {
  await room?.close()
  room = undefined
})

const web = pod('a/web', { ip: '10.1.0.1' })
const far = pod('a/far', { ip: '10.1.1.2', node: 'node2', labels: { app: 'web' } })
const webService = service('a/web', '10.96.0.1')
const closed = policy('a/closed', {})

async function start(): Promise<Ztunnel> {
  room = await Room.open([namespace('a'), web, far, webService, closed])
  const ztunnel = room.startZtunnel(await room.openSpace(), {
    PROXY_MODE: 'dedicated',
    PROXY_WORKLOAD_INFO: 'a/web/web',
    AUTH_TOKEN: await room.token('istio-system', 'ztunnel'),
  })
  await expectReady(ztunnel)
  await expectHeld(ztunnel, () => room!.expected())
  return ztunnel
}

/** Streams that ended, by reason. */
async function endings(ztunnel: Ztunnel): Promise<Record<string, number>> {
  const reasons = ['Complete', 'Error', 'ConnectionError', 'Reconnect']
  const counts = await Promise.all(
    reasons.map(async (reason) => [
      reason,
      await ztunnel.metric('istio_xds_connection_terminations_total', { reason }),
    ]),
  )
  return Object.fromEntries(counts.filter(([, count]) => count !== 0))
}

/**
 * Its streams ended so that it came back at once: in good order, or in the moment when it was about to acknowledge something (an error to its
 * mind, but none that it waits after). It says so whenever it waits.
 */
async function expectNoPause(ztunnel: Ztunnel, count?: number): Promise<void> {
  expect(ztunnel.lines.filter((line) => line.includes('retrying in'))).toEqual([])
  const { Complete = 0, Error: unsent = 0, ...others } = await endings(ztunnel)
  expect(others).toEqual({})
  if (count !== undefined) expect(Complete + unsent).toBe(count)
}

const clientsOf = (): number => room!.server.parts.xds.clients().length

describe('a real ztunnel whose addressd goes away', () => {
  maybe('keeps what it has, and is told what came, changed and went in between', async () => {
    const ztunnel = await start()
    const before = room!.expected()
    await room!.stopServer(room!.server)
    await until(
      async () => Object.keys(await endings(ztunnel)).length > 0,
      () => 'ztunnel to notice',
    )
    expect(await ztunnel.held()).toEqual(before)
    expect(await ztunnel.isReady()).toBe(true)
    room!.change(
      [service('a/web', '10.96.0.1', { ports: [{ port: 81 }] }), pod('a/new', { ip: '10.1.1.3' })],
      [nameOf(far), nameOf(closed)],
    )
    await room!.startServer()
    await expectHeld(ztunnel, () => room!.expected())
    expect(room!.expected()).not.toEqual(before)
  })

  maybe('is led to another replica by one that ends, without an error and without a pause', async () => {
    const ztunnel = await start()
    const first = room!.server
    const second = await room!.startServer()
    await first.drain()
    await room!.stopServer(first)
    await until(
      () => Promise.resolve(clientsOf() === 1),
      () => 'ztunnel at the other replica',
    )
    expect(second.parts.xds.clients().length).toBe(1)
    await expectNoPause(ztunnel, 1)
    room!.change([], [nameOf(far)])
    await until(
      () => Promise.resolve(room!.expected().workloads.length === 1),
      () => 'addressd to see the change',
    )
    await expectHeld(ztunnel, () => room!.expected())
  })

  maybe('comes back again and again without ever waiting longer', async () => {
    const ztunnel = await start()
    for (let count = 1; count <= 5; count++) {
      const old = room!.server
      await room!.startServer()
      await old.drain()
      await room!.stopServer(old)
      await until(
        () => Promise.resolve(clientsOf() === 1),
        () => `return ${count}`,
      )
      await expectNoPause(ztunnel, count)
    }
    await expectHeld(ztunnel, () => room!.expected())
  })

  maybe('is asked to move after the age of a connection, and does', async () => {
    room = await Room.open([namespace('a'), web], { flags: ['--keepaliveMaxServerConnectionAge=1s'] })
    const ztunnel = room.startZtunnel(await room.openSpace(), {
      PROXY_MODE: 'dedicated',
      PROXY_WORKLOAD_INFO: 'a/web/web',
      AUTH_TOKEN: await room.token('istio-system', 'ztunnel'),
    })
    await expectReady(ztunnel)
    await until(
      async () => ((await endings(ztunnel))['Complete'] ?? 0) >= 2,
      () => 'two moves',
    )
    await expectNoPause(ztunnel)
    await expectHeld(ztunnel, () => room!.expected())
  })
})
