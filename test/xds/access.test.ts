// SPDX-License-Identifier: Apache-2.0
import { afterEach, describe, expect, test } from '@jest/globals'
import { Registry } from 'prom-client'
import type { Caller, Credentials } from '../../src/base/caller.js'
import { systemClock } from '../../src/base/clock.js'
import { ProtocolError } from '../../src/base/errors.js'
import type { StreamAccess } from '../../src/xds/access.js'
import { createXdsServer, type XdsServer } from '../../src/xds/server.js'
import { TestAuthority } from '../support/certificates.js'
import { XdsClient, type XdsClientOptions } from '../support/xds-client.js'
import { CollectedLog } from './collected-log.js'
import { ToyStore } from './toy-store.js'

const open: { close(): Promise<void> | void }[] = []
afterEach(async () => {
  for (const thing of open.splice(0).reverse()) await thing.close()
})

interface Gatekeeper extends StreamAccess {
  readonly asked: Credentials[]
  admit(): void
  refuse(error: Error): void
}

/** Everybody waits until told. */
function createGatekeeper(): Gatekeeper {
  const asked: Credentials[] = []
  const waiting: { admit(): void; refuse(error: Error): void }[] = []
  return {
    asked,
    authenticate(credentials) {
      asked.push(credentials)
      return new Promise<Caller>((resolve, reject) =>
        waiting.push({ admit: () => resolve({ identities: ['me'], source: 'local' }), refuse: reject }),
      )
    },
    admitNode: () => undefined,
    admitType: () => undefined,
    admit: () => waiting.splice(0).forEach((one) => one.admit()),
    refuse: (error) => waiting.splice(0).forEach((one) => one.refuse(error)),
  }
}

interface Started {
  readonly gatekeeper: Gatekeeper
  readonly server: XdsServer
  readonly log: CollectedLog
  readonly registry: Registry
  readonly connect: (more?: Partial<XdsClientOptions>) => XdsClient
}

async function start(tls: boolean): Promise<Started> {
  const gatekeeper = createGatekeeper()
  const store = new ToyStore()
  store.commit([{ name: 'a' }])
  const [log, registry] = [new CollectedLog(), new Registry()]
  const server = createXdsServer({ store, clock: systemClock, log, registry, access: gatekeeper })
  open.push(server)
  const authority = tls ? await TestAuthority.create() : undefined
  const shown = await authority?.issue({ dns: ['localhost'] })
  const { port } = await server.listen({ host: '127.0.0.1', port: 0, ...(shown && { tls: shown }) })
  const connect = (more: Partial<XdsClientOptions> = {}): XdsClient => {
    const client = new XdsClient({ port, ...(authority && { ca: authority.cert }), ...more })
    open.push({ close: () => client.destroy() })
    return client
  }
  return { gatekeeper, server, log, registry, connect }
}

/** Until so many callers wait. */
async function untilAsked(gatekeeper: Gatekeeper, count: number): Promise<void> {
  while (gatekeeper.asked.length < count) await new Promise((resolve) => setImmediate(resolve))
}

async function handled(registry: Registry): Promise<readonly string[]> {
  const metric = (await registry.getMetricsAsJSON()).find(({ name }) => name === 'grpc_server_handled_total')
  return (metric?.values ?? [])
    .filter(({ value }) => value > 0)
    .map(({ labels, value }) => `${labels['grpc_code'] ?? ''} ${value}`)
}

describe('a stream whose caller is not proved yet', () => {
  test.each([false, true])(
    'is not read, and answered from its first message on once he is (state of the world: %s)',
    async (sotw) => {
      const { gatekeeper, server, connect } = await start(false)
      const client = connect({ sotw, headers: { authorization: 'Bearer T', clusterid: 'c' } })
      client.send({ type: 'Address' })
      await untilAsked(gatekeeper, 1)
      await client.ping()
      expect([client.received, server.clients()]).toEqual([0, []])
      expect(gatekeeper.asked).toEqual([
        { peer: expect.any(String), secure: false, certificateUris: [], authorization: 'Bearer T', clusterId: 'c' },
      ])
      gatekeeper.admit()
      await client.receivedAtLeast(1)
      expect(client.responses.map(({ type }) => type)).toEqual(['Address'])
    },
  )

  test('takes little memory whatever is sent, and all of it later', async () => {
    const { gatekeeper, connect } = await start(true)
    const client = connect({ ack: 'manual' })
    const names = Array.from({ length: 20_000 }, (_, i) => `pod/${i}/${'x'.repeat(80)}`)
    client.send({ type: 'Address', subscribe: names })
    await untilAsked(gatekeeper, 1)
    await client.ping()
    await client.ping()
    // What is above the window of a connection has not left the client.
    expect(client.unsent).toBeGreaterThan(1_500_000)
    gatekeeper.admit()
    await client.receivedAtLeast(1)
    expect(client.responses[0]?.removed).toHaveLength(20_000)
  })

  test('ends with the refusal, counted', async () => {
    const { gatekeeper, log, registry, connect } = await start(false)
    const client = connect()
    client.send({ type: 'Address' })
    await untilAsked(gatekeeper, 1)
    gatekeeper.refuse(new ProtocolError('not you, “friend”', 16))
    expect(await client.untilEnded()).toEqual({ code: 16, message: 'not you, “friend”' })
    expect(await handled(registry)).toEqual(['Unauthenticated 1'])
    expect(log.records.filter(({ message }) => message === 'stream refused')).toHaveLength(1)
  })

  test('ends without a word about it when the judge fails, and that is logged', async () => {
    const { gatekeeper, log, connect } = await start(false)
    for (const sotw of [false, true]) {
      const client = connect({ sotw })
      await untilAsked(gatekeeper, 1)
      gatekeeper.asked.length = 0
      gatekeeper.refuse(new TypeError('secret detail'))
      expect(await client.untilEnded()).toEqual({ code: 13, message: 'internal error' })
    }
    expect(log.records.filter(({ level }) => level === 'error').map(({ message }) => message)).toEqual([
      'a caller could not be judged',
      'a caller could not be judged',
    ])
  })

  test('may go away meanwhile', async () => {
    const { gatekeeper, server, registry, connect } = await start(false)
    const going = connect()
    const staying = connect()
    await untilAsked(gatekeeper, 2)
    going.reset()
    await going.untilEnded()
    await going.ping()
    gatekeeper.admit()
    staying.send({ type: 'Address' })
    await staying.receivedAtLeast(1)
    expect(server.clients()).toHaveLength(1)
    expect(await handled(registry)).toEqual(['Canceled 1'])
  })

  test('does not hold up a drain for longer than any other call', async () => {
    const { gatekeeper, server, connect } = await start(false)
    const client = connect()
    await untilAsked(gatekeeper, 1)
    const drained = server.drain()
    gatekeeper.refuse(new ProtocolError('no', 16))
    expect((await client.untilEnded()).code).toBe(16)
    client.destroy()
    await drained
  })
})
