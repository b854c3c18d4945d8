// SPDX-License-Identifier: Apache-2.0
import { afterEach, describe, expect, test } from '@jest/globals'
import { Registry } from 'prom-client'
import { silentLogger } from '../../src/base/log.js'
import { createXdsServer } from '../../src/xds/server.js'
import type { XdsServer, XdsServerOptions } from '../../src/xds/server.js'
import { FakeClock } from '../support/fake-clock.js'
import { XdsClient } from '../support/xds-client.js'
import type { XdsClientOptions } from '../support/xds-client.js'
import { ToyStore } from './toy-store.js'

const open: { close(): Promise<void> | void }[] = []
afterEach(async () => {
  for (const thing of open.splice(0).reverse()) await thing.close()
})

async function start(
  options: Partial<XdsServerOptions> = {},
): Promise<{
  store: ToyStore
  server: XdsServer
  port: number
  clock: FakeClock
  connect: (more?: Partial<XdsClientOptions>) => XdsClient
}> {
  const store = new ToyStore()
  const clock = new FakeClock()
  const server = createXdsServer({ store, clock, log: silentLogger, registry: new Registry(), ...options })
  open.push(server)
  const { port } = await server.listen({ host: '127.0.0.1', port: 0 })
  const connect = (more: Partial<XdsClientOptions> = {}): XdsClient => {
    const client = new XdsClient({ port, ...more })
    open.push({ close: () => client.destroy() })
    return client
  }
  return { store, server, port, clock, connect }
}

describe('a discovery server over a real socket', () => {
  test('answers a wildcard with everything and then pushes what changes', async () => {
    const { store, connect } = await start()
    store.commit([{ name: 'a' }, { name: 'b' }])
    const client = connect()
    client.send({ type: 'Address' })
    await client.receivedAtLeast(1)
    store.commit([{ name: 'b', content: '2' }, { name: 'c' }], ['a'])
    await client.receivedAtLeast(2)
    expect(client.responses.map((r) => [r.type, r.resources.map((x) => x.name), r.removed])).toEqual([
      ['Address', ['a', 'b'], []],
      ['Address', ['b', 'c'], ['a']],
    ])
  })
})
