// SPDX-License-Identifier: Apache-2.0
import { afterEach, describe, expect, test } from '@jest/globals'
import { Registry } from 'prom-client'
import { systemClock } from '../../src/base/clock.js'
import { silentLogger } from '../../src/base/log.js'
import { ADDRESS_TYPE, AUTHORIZATION_TYPE } from '../../src/wire/messages.js'
import { createXdsServer } from '../../src/xds/server.js'
import type { XdsServer } from '../../src/xds/server.js'
import { XdsClient } from '../support/xds-client.js'
import { ToyStore } from './toy-store.js'

let server: XdsServer | undefined
let client: XdsClient | undefined
afterEach(async () => {
  client?.destroy()
  await server?.close()
})

async function start(store: ToyStore): Promise<XdsClient> {
  server = createXdsServer({ store, clock: systemClock, log: silentLogger, registry: new Registry() })
  const { port } = await server.listen({ host: '127.0.0.1', port: 0 })
  client = new XdsClient({ port, sotw: true })
  return client
}

describe('the state-of-the-world stream', () => {
  test('tells of named addresses when they change, of policies whole and then as they change [7.9]', async () => {
    const store = new ToyStore([ADDRESS_TYPE, AUTHORIZATION_TYPE])
    store.commit([{ name: 'a' }, { name: 'b' }])
    store.commit([{ name: 'p' }], [], AUTHORIZATION_TYPE)
    const asking = await start(store)
    asking.send({ type: 'Address', names: ['a'] })
    await asking.receivedAtLeast(1)
    asking.send({ type: 'Authorization' })
    await asking.receivedAtLeast(2)
    store.commit([
      { name: 'a', content: '2' },
      { name: 'b', content: '2' },
    ])
    await asking.receivedAtLeast(3)
    store.commit([{ name: 'q' }], [], AUTHORIZATION_TYPE)
    await asking.receivedAtLeast(4)
    expect(asking.responses.map((r) => [r.type, r.resources.length])).toEqual([
      ['Address', 0],
      ['Authorization', 1],
      ['Address', 1],
      ['Authorization', 1],
    ])
  })

  test('counts proxies among the clients, and tools of people not', async () => {
    const proxy = await start(new ToyStore())
    proxy.send({ type: 'Address' })
    await proxy.receivedAtLeast(1)
    const seen = server?.clients().map(({ connectionId, proxyType, watches }) => [connectionId, proxyType, watches])
    expect(seen).toEqual([['ztunnel-a.istio-system-1', 'ztunnel', []]])
    proxy.send({ type: 'Authorization', node: { id: 'ztunnel~10.0.0.1~other.a~a.svc' } })
    await proxy.receivedAtLeast(2)
    expect(server?.clients().map(({ proxy: name }) => name)).toEqual(['ztunnel-a.istio-system'])
    proxy.destroy()
    await server?.close()
    const tool = await start(new ToyStore())
    tool.send({ type: 'Address', node: { id: 'sidecar~10.0.0.1~debug.a~a.svc' } })
    await tool.receivedAtLeast(1)
    expect(server?.clients()).toEqual([])
  })

  test('refuses a client that does not say who it is [3.3]', async () => {
    const asking = await start(new ToyStore())
    asking.send({ type: 'Address', node: null })
    expect((await asking.untilEnded()).code).toBe(3)
  })
})
