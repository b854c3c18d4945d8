// SPDX-License-Identifier: Apache-2.0
import {
  credentials,
  makeClientConstructor,
  Metadata,
  Server,
  ServerCredentials,
  type ClientReadableStream,
} from '@grpc/grpc-js'
import { afterEach, expect, test } from '@jest/globals'
import { systemClock } from '../../src/base/clock.js'
import { silentLogger } from '../../src/base/log.js'
import { addInspectService, type InspectOptions } from '../../src/debug/inspect-service.js'
import { INSPECT_SERVICE, loadInspectService } from '../../src/wire/inspect.js'
import { CALLER_HEADER, formatCaller } from '../../src/xds/caller.js'
import { createShop, makeClient } from '../ctl/room.js'
import { ip, makeWorkload, ToyStore } from '../support/toy-store.js'

const closers: (() => void)[] = []
afterEach(() => {
  for (const close of closers.splice(0)) close()
})

type Ask = (method: string, request: object, metadata?: Metadata) => ClientReadableStream<any>

async function serve(options: Partial<InspectOptions>): Promise<Ask> {
  const server = new Server()
  addInspectService(server, {
    store: createShop(),
    clients: () => [],
    clock: systemClock,
    log: silentLogger,
    ...options,
  })
  const port = await new Promise<number>((resolve) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (_, bound) => resolve(bound))
  })
  const Client = makeClientConstructor(loadInspectService(), INSPECT_SERVICE)
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), { 'grpc.enable_http_proxy': 0 })
  closers.push(() => {
    client.close()
    server.forceShutdown()
  })
  return (method, request, metadata = new Metadata()) =>
    (client[method] as (request: object, metadata: Metadata) => ClientReadableStream<any>).call(
      client,
      request,
      metadata,
    )
}

/** All messages, or how it ended. */
async function all(call: ClientReadableStream<any>): Promise<any[] | string> {
  const messages: any[] = []
  try {
    for await (const message of call) messages.push(message)
    return messages
  } catch (error) {
    const { code, details } = error as { code: number; details: string }
    return `${code} ${details}`
  }
}

test('callers from elsewhere are refused, whatever they ask', async () => {
  const ask = await serve({})
  const caller = new Metadata()
  caller.set(CALLER_HEADER, formatCaller({ address: '[2001:db8::1]:4711', secure: false, certificateUris: [] }))
  for (const [method, request] of [
    ['WhatIs', { question: '10.0.0.1' }],
    ['ListWorkloads', {}],
    ['ListClients', {}],
  ] as const) {
    expect(await all(ask(method, request, caller))).toBe('16 only callers of this machine may ask here')
  }
})

test('too many who watch are refused, and one who leaves makes room', async () => {
  const ask = await serve({ mostWatchers: 1 })
  const request = { question: '10.0.0.1', watch: true }
  const first = ask('WhatIs', request)
  first.on('error', () => undefined)
  await new Promise((resolve) => first.once('data', resolve))
  expect(await all(ask('WhatIs', request))).toBe('8 too many callers are watching; ask without watch')
  expect(await all(ask('WhatIs', { question: '10.0.0.1' }))).toHaveLength(1)
  first.cancel()
  let second: ClientReadableStream<any>
  let answered = false
  while (!answered) {
    second = ask('WhatIs', request)
    answered = await new Promise((resolve) => {
      second.once('data', () => resolve(true)).once('error', () => resolve(false))
    })
    second.on('error', () => undefined)
    second.cancel()
  }
})

test('a list of thousands comes in pages, whole, and serving goes on in between', async () => {
  const store = new ToyStore()
  const pods = Array.from({ length: 3_000 }, (_, i) =>
    makeWorkload({ name: `p${i}`, addresses: [ip(`10.1.${i >> 8}.${i & 255}`)] }),
  )
  store.put(...pods)
  const ask = await serve({ store })
  const pages = await all(ask('ListWorkloads', { whole: true }))
  if (typeof pages === 'string') throw new Error(pages)
  expect(pages.map((page) => page.workloads.length)).toEqual([500, 500, 500, 500, 500, 500])
  const names = pages.flatMap((page) => page.workloads.map((row: { uid: string }) => row.uid))
  expect(names).toEqual(pods.map((pod) => pod.uid))
})

test('nothing to list is no message and OK', async () => {
  const ask = await serve({ store: new ToyStore() })
  for (const method of ['ListWorkloads', 'ListServices', 'ListPolicies', 'ListClients']) {
    expect(await all(ask(method, {}))).toEqual([])
  }
})

test('clients by namespace', async () => {
  const ask = await serve({
    clients: () => [makeClient({ namespace: 'a', proxy: 'x' }), makeClient({ namespace: 'b', proxy: 'y' })],
    clock: { ...systemClock, now: () => 1_500 },
  })
  const [page] = (await all(ask('ListClients', { namespace: 'b' }))) as any[]
  expect(page.clients.map((row: any) => [row.name, row.connectedMs])).toEqual([['y', 1_500]])
})

test('a resource that cannot be read fails the question with its reason, and the next one is answered', async () => {
  const store = createShop()
  const broken = store.addresses.get('shop/wp.shop.svc.cluster.local')!
  const warnings: object[] = []
  const log = { ...silentLogger, warn: (fields: object) => void warnings.push(fields) }
  const ask = await serve({ store, log })
  store.addresses.resources.set(broken.name, { ...broken, entry: Uint8Array.of(0xff) })
  expect(await all(ask('WhatIs', { question: '10.96.0.20' }))).toMatch(
    /^13 the question could not be answered: Resource/,
  )
  expect(warnings).toHaveLength(1)
  expect(await all(ask('WhatIs', { question: '10.0.0.1' }))).toHaveLength(1)
})
