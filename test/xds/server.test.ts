// SPDX-License-Identifier: Apache-2.0
import { afterEach, describe, expect, test } from '@jest/globals'
import * as grpc from '@grpc/grpc-js'
import { Registry } from 'prom-client'
import { parseCaller } from '../../src/xds/caller.js'
import { ADDRESS_TYPE, AUTHORIZATION_TYPE } from '../../src/wire/messages.js'
import { CollectedLog } from './collected-log.js'
import { SOTW_PATH } from '../../src/xds/sotw.js'
import { createXdsServer } from '../../src/xds/server.js'
import type { XdsServer, XdsServerOptions } from '../../src/xds/server.js'
import { toSyncState } from '../../src/xds/client-view.js'
import { FakeClock } from '../support/fake-clock.js'
import { XdsClient, applyResponses, encodeDeltaRequest, ztunnelNode } from '../support/xds-client.js'
import type { XdsClientOptions } from '../support/xds-client.js'
import { ToyStore } from './toy-store.js'
import type { Toy } from './toy-store.js'

const open: { close(): Promise<void> | void }[] = []
afterEach(async () => {
  for (const thing of open.splice(0).reverse()) await thing.close()
})

interface Started {
  readonly store: ToyStore
  readonly server: XdsServer
  readonly port: number
  readonly clock: FakeClock
  readonly log: CollectedLog
  readonly registry: Registry
  readonly connect: (more?: Partial<XdsClientOptions>) => XdsClient
}

async function start(options: Partial<XdsServerOptions> = {}): Promise<Started> {
  const store = new ToyStore([ADDRESS_TYPE, AUTHORIZATION_TYPE])
  const clock = new FakeClock()
  const log = new CollectedLog()
  const registry = new Registry()
  const server = createXdsServer({ store, clock, log, registry, random: () => 0.5, ...options })
  open.push(server)
  const { port } = await server.listen({ host: '127.0.0.1', port: 0 })
  const connect = (more: Partial<XdsClientOptions> = {}): XdsClient => {
    const client = new XdsClient({ port, ...more })
    open.push({ close: () => client.destroy() })
    return client
  }
  return { store, server, port, clock, log, registry, connect }
}

const big = (count: number, bytes: number, content = 'x'): Toy[] =>
  Array.from({ length: count }, (_, i) => ({ name: `pod/${i}`, content: content.repeat(bytes) }))

const names = (client: XdsClient): unknown[] =>
  client.responses.map((r) => [r.type, r.resources.map((x) => x.name), r.removed])

async function metric(registry: Registry, name: string): Promise<number> {
  const found = (await registry.getMetricsAsJSON()).find((m) => m.name === name)
  return (found?.values ?? []).reduce((sum, v) => sum + v.value, 0)
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
    expect(names(client)).toEqual([
      ['Address', ['a', 'b'], []],
      ['Address', ['b', 'c'], ['a']],
    ])
  })

  test('sends policies that come before addresses, and the going of policies after them [7.5]', async () => {
    const { store, connect } = await start()
    store.commit([{ name: 'a/old' }], [], AUTHORIZATION_TYPE)
    const client = connect()
    client.send({ type: 'Address' })
    client.send({ type: 'Authorization' })
    await client.receivedAtLeast(2)
    store.commitAll(
      new Map([
        [ADDRESS_TYPE, { toys: [{ name: 'pod' }] }],
        [AUTHORIZATION_TYPE, { toys: [{ name: 'a/new' }], gone: ['a/old'] }],
      ]),
    )
    await client.receivedAtLeast(5)
    expect(names(client).slice(2)).toEqual([
      ['Authorization', ['a/new'], []],
      ['Address', ['pod'], []],
      ['Authorization', [], ['a/old']],
    ])
    expect(new Set(client.responses.map((r) => r.nonce)).size).toBe(5)
  })

  test('answers before it ends a stream that the client half-closed at once', async () => {
    const { store, connect } = await start()
    store.commit([{ name: 'a' }])
    const client = connect({ ack: 'manual' })
    client.send({ type: 'Address' })
    client.halfClose()
    expect(await client.untilEnded()).toEqual({ code: 0, message: '' })
    expect(names(client)).toEqual([['Address', ['a'], []]])
  })

  test('shows who is connected, what they follow and what they hold', async () => {
    const { store, server, connect } = await start()
    store.commit([{ name: 'a' }])
    const client = connect({ ack: 'manual', node: ztunnelNode('zt', 'n1') })
    client.send({ type: 'Address' })
    await client.receivedAtLeast(1)
    const [view] = server.clients()
    expect([view?.connectionId, view?.namespace, view?.nodeName]).toEqual(['zt.istio-system-1', 'istio-system', 'n1'])
    expect(view?.watches.map(toSyncState)).toEqual(['STALE'])
    expect([...server.held('zt.istio-system-1')!].map(([type, held]) => [type, held.map((r) => r.name)])).toEqual([
      [ADDRESS_TYPE, ['a']],
    ])
    client.send({ type: 'Address', nonce: client.responses[0]!.nonce })
    await client.ping()
    await client.ping()
    expect(server.clients()[0]?.watches.map(toSyncState)).toEqual(['SYNCED'])
    expect(server.held('nobody')).toBeUndefined()
  })

  test('keeps going through two pushes before an acknowledgement, which counts for the last alone [4.6]', async () => {
    const { store, server, registry, connect } = await start()
    const client = connect({ ack: 'manual' })
    client.send({ type: 'Address' })
    await client.receivedAtLeast(1)
    store.commit([{ name: 'a' }])
    store.commit([{ name: 'b' }])
    await client.receivedAtLeast(3)
    const [, second, third] = client.responses
    client.send({ type: 'Address', nonce: second!.nonce })
    await client.ping()
    await client.ping()
    expect(server.clients()[0]?.watches.map(toSyncState)).toEqual(['STALE'])
    client.send({ type: 'Address', nonce: third!.nonce })
    await client.ping()
    await client.ping()
    expect(server.clients()[0]?.watches.map(toSyncState)).toEqual(['SYNCED'])
    expect(await metric(registry, 'pilot_xds_expired_nonce')).toBe(1)
    expect(client.received).toBe(3)
  })
})

describe('bad input', () => {
  test('that is no message ends its stream with a reason, and no other stream', async () => {
    const { store, connect } = await start()
    const good = connect()
    good.send({ type: 'Address' })
    await good.receivedAtLeast(1)
    const garbage = connect()
    garbage.sendMessage(Buffer.from([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]))
    expect(await garbage.untilEnded()).toEqual({ code: 13, message: expect.stringContaining('DeltaDiscoveryRequest') })
    const noGrpc = connect()
    noGrpc.sendBytes(Buffer.from('GET / HTTP/1.1\r\n\r\n'))
    expect((await noGrpc.untilEnded()).code).toBe(13)
    store.commit([{ name: 'a' }])
    await good.receivedAtLeast(2)
    expect(names(good).at(-1)).toEqual(['Address', ['a'], []])
  })

  test('without a node is refused [3.3]', async () => {
    const { connect } = await start()
    const client = connect()
    client.send({ type: 'Address', node: null })
    expect(await client.untilEnded()).toEqual({ code: 3, message: expect.stringContaining('node') })
  })

  test('of more bytes than are taken is refused before they are read', async () => {
    const { connect } = await start({ limits: { maxRequestBytes: 1000 } })
    const client = connect()
    client.sendBytes(Buffer.from([0, 0, 0, 4, 0]))
    expect(await client.untilEnded()).toEqual({ code: 8, message: expect.stringContaining('1024') })
  })

  test('of 10 MB of names is answered: each is missing', async () => {
    const { connect } = await start()
    const client = connect()
    const subscribe = Array.from({ length: 100_000 }, (_, i) => `no/${String(i).padStart(6, '0')}/${'x'.repeat(90)}`)
    client.send({ type: 'Address', subscribe })
    await client.receivedAtLeast(1, 30_000)
    expect(client.responses[0]?.removed.length).toBe(100_000)
    expect(new Set(client.responses[0]?.removed)).toEqual(new Set(subscribe))
  })

  test('of more names than one may remember ends the stream', async () => {
    const { connect } = await start({ limits: { maxNames: 2 } })
    const client = connect()
    client.send({ type: 'Address', subscribe: ['a', 'b', 'c'] })
    expect((await client.untilEnded()).code).toBe(8)
  })

  test('of a name with control characters is answered letter by letter', async () => {
    const { connect } = await start()
    const client = connect()
    const odd = '/10.0.0.1\u0000\n\u001b[31m'
    client.send({ type: 'Address', subscribe: [odd] })
    await client.receivedAtLeast(1)
    expect(names(client)).toEqual([['Address', [], [odd]]])
  })

  test('of a type that nobody makes is answered with nothing and the stream lives [3.10]', async () => {
    const { store, connect } = await start()
    const client = connect()
    client.send({ type: 'type.googleapis.com/example.Nothing', subscribe: ['x'] })
    client.send({ type: 'istio.io/debug/syncz' })
    client.send({ type: 'Address' })
    await client.receivedAtLeast(3)
    store.commit([{ name: 'a' }])
    await client.receivedAtLeast(4)
    expect(names(client)).toEqual([
      ['type.googleapis.com/example.Nothing', [], []],
      ['istio.io/debug/syncz', [], []],
      ['Address', [], []],
      ['Address', ['a'], []],
    ])
  })

  test('of a first request beyond 4 MiB is taken: the client comes back with all that it holds [1.5]', async () => {
    const { store, connect } = await start()
    store.commit([{ name: 'kept' }, { name: 'new' }])
    const client = connect()
    const initial = new Map(
      Array.from({ length: 60_000 }, (_, i) => [`Kubernetes//Pod/shop/${'long-'.repeat(12)}${i}`, 'abc']),
    )
    initial.set('kept', store.source(ADDRESS_TYPE)!.get('kept')!.version)
    client.send({ type: 'Address', initial })
    await client.receivedAtLeast(1, 30_000)
    expect(client.responses[0]?.resources.map((r) => r.name)).toEqual(['new'])
    expect(client.responses[0]?.removed.length).toBe(60_000)
  })
})

describe('a client that does not read', () => {
  test('gets one merged push when it reads again, and what it missed is not kept for it', async () => {
    const { store, server, connect } = await start()
    store.commit(big(40, 100_000))
    const slow = connect({ windowBytes: 100_000 })
    const quick = connect()
    slow.pauseStream()
    slow.send({ type: 'Address' })
    quick.send({ type: 'Address' })
    await quick.receivedAtLeast(1)
    for (let i = 0; i < 50; i++) store.commit([{ name: `pod/${i % 3}`, content: `v${i}` }], i === 20 ? ['pod/30'] : [])
    await quick.receivedAtLeast(51)
    expect(server.busy()).toBe(true)
    slow.resumeStream()
    await slow.receivedAtLeast(2)
    expect(slow.responses[1]?.resources.map((r) => r.name).sort()).toEqual(['pod/0', 'pod/1', 'pod/2'])
    expect(slow.responses[1]?.removed).toEqual(['pod/30'])
    expect(applyResponses(slow.responses)).toEqual(applyResponses(quick.responses))
  })

  test('is closed after the send timeout, and counted', async () => {
    const { store, clock, log, registry, server, connect } = await start({
      limits: { keepaliveMs: 1e9 },
    })
    store.commit(big(60, 500_000))
    const stuck = connect({ freezable: true, windowBytes: 1 << 30 })
    stuck.send({ type: 'Address' })
    stuck.freeze()
    // Its request is on the way; what it is sent fills the socket and then waits.
    while (server.clients().length === 0) await new Promise((resolve) => setImmediate(resolve))
    for (let i = 0; i < 500; i++) await new Promise((resolve) => setImmediate(resolve))
    await clock.advance(60_000)
    await clock.advance(60_000)
    expect(server.clients()).toEqual([])
    expect(await metric(registry, 'pilot_xds_write_timeout')).toBe(1)
    expect(log.records.filter((r) => r.level === 'warn').map((r) => r.message)).toEqual([
      'client stopped reading; stream closed',
    ])
  })

  test('has its requests wait, so that answers do not pile up', async () => {
    const { store, connect } = await start()
    store.commit(big(40, 100_000))
    const client = connect({ windowBytes: 100_000, ack: 'manual' })
    client.pauseStream()
    client.send({ type: 'Address' })
    for (let i = 0; i < 200; i++) client.send({ type: 'Address', subscribe: [`pod/${i % 40}`] })
    await client.ping()
    client.resumeStream()
    await client.receivedAtLeast(201)
    expect(client.responses.slice(1).map((r) => r.resources.map((x) => x.name))).toEqual(
      Array.from({ length: 200 }, (_, i) => [`pod/${i % 40}`]),
    )
  })
})

describe('connections', () => {
  test('that answer no ping are cut', async () => {
    const { clock, server, connect } = await start()
    const client = connect({ freezable: true })
    client.send({ type: 'Address' })
    await client.receivedAtLeast(1)
    client.freeze()
    await clock.advance(30_000)
    await clock.advance(10_000)
    expect(server.clients()).toEqual([])
  })

  test('that answer live on, and end in good order at their age', async () => {
    const { clock, connect } = await start()
    const client = connect()
    client.send({ type: 'Address' })
    await client.receivedAtLeast(1)
    const settle = async (): Promise<void> => {
      await client.ping()
    }
    await clock.advance(29 * 60_000, settle)
    expect(client.ended).toBeUndefined()
    await clock.advance(60_000, settle)
    expect(await client.untilEnded()).toEqual({ code: 0, message: '' })
    await client.until(() => client.goaway !== undefined, 'goodbye')
    expect(client.goaway).toBe(0)
  })

  test('are drained one after another, each with OK', async () => {
    const { clock, server, connect } = await start()
    const clients = [connect(), connect(), connect(), connect()]
    for (const client of clients) client.send({ type: 'Address' })
    for (const client of clients) await client.receivedAtLeast(1)
    const drained = server.drain()
    const first = await Promise.race(clients.map(async (client, i) => [i, await client.untilEnded()] as const))
    expect(first).toEqual([0, { code: 0, message: '' }])
    expect(clients.filter((client) => client.ended !== undefined).length).toBe(1)
    await clock.advance(5000)
    expect(await Promise.all(clients.map((client) => client.untilEnded()))).toEqual(
      clients.map(() => ({ code: 0, message: '' })),
    )
    await drained
    const late = connect()
    expect((await late.untilEnded()).code).toBe(-1)
  })

  test('that open and reset streams all the time are cut', async () => {
    const http2 = await import('node:http2')
    const { port, log } = await start({ limits: { maxResetsPerSecond: 5 } })
    const session = http2.connect(`http://127.0.0.1:${port}`)
    session.on('error', () => undefined)
    const closed = new Promise((resolve) => session.once('close', resolve))
    for (let i = 0; i < 20; i++) {
      const stream = session.request({ ':method': 'POST', ':path': SOTW_PATH, 'content-type': 'application/grpc' })
      stream.on('error', () => undefined)
      stream.once('ready', () => stream.close(http2.constants.NGHTTP2_CANCEL))
    }
    await closed
    expect(log.records.map((r) => r.message)).toContain('too many resets; connection cut')
  })

  test('that never greet are refused beyond a number, and cut after a time', async () => {
    const net = await import('node:net')
    const { port, clock } = await start({ limits: { maxHandshakes: 1 } })
    const first = net.connect(port, '127.0.0.1')
    await new Promise((resolve) => first.once('connect', resolve))
    const closed = (socket: typeof first): Promise<unknown> => {
      socket.on('error', () => undefined)
      socket.resume()
      return new Promise((resolve) => socket.once('close', resolve))
    }
    const second = net.connect(port, '127.0.0.1')
    await closed(second)
    const gone = closed(first)
    await clock.advance(10_000)
    await gone
  })
})

describe('other services on the same port', () => {
  const path = '/test.Echo/Who'
  const definition: grpc.MethodDefinition<Buffer, Buffer> = {
    path,
    requestStream: false,
    responseStream: false,
    requestSerialize: (b) => b,
    requestDeserialize: (b) => b,
    responseSerialize: (b) => b,
    responseDeserialize: (b) => b,
  }

  test('are reached, learn the real caller, and cannot be told another', async () => {
    const { server, port, registry } = await start()
    server.inner.addService(
      { Who: definition },
      {
        Who: (call: grpc.ServerUnaryCall<Buffer, Buffer>, done: grpc.sendUnaryData<Buffer>) =>
          done(null, Buffer.from(JSON.stringify(parseCaller(call.metadata)))),
      },
    )
    const client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure())
    open.push({ close: () => client.close() })
    const metadata = new grpc.Metadata()
    const forged = Buffer.from(JSON.stringify({ address: '6.6.6.6:6', secure: true, certificateUris: ['spiffe://x'] }))
    metadata.add('x-addressd-caller', forged.toString('base64'))
    metadata.add('X-Addressd-Caller', forged.toString('base64'))
    const answer = await new Promise<Buffer>((resolve, reject) => {
      client.makeUnaryRequest(
        path,
        definition.requestSerialize,
        definition.responseDeserialize,
        Buffer.from('?'),
        metadata,
        (error, value) =>
          error === null && value !== undefined ? resolve(value) : reject(error ?? new Error('no answer')),
      )
    })
    expect(JSON.parse(answer.toString())).toEqual({
      address: expect.stringMatching(/^127\.0\.0\.1:/),
      secure: false,
      certificateUris: [],
    })
    expect(await metric(registry, 'grpc_server_handled_total')).toBe(1)
  })

  test('that do not exist are refused as gRPC refuses, and make no label', async () => {
    const { port, registry } = await start()
    const client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure())
    open.push({ close: () => client.close() })
    const code = await new Promise<number | undefined>((resolve) => {
      client.makeUnaryRequest(
        '/no/Such',
        definition.requestSerialize,
        definition.responseDeserialize,
        Buffer.alloc(0),
        (error) => resolve(error?.code),
      )
    })
    expect(code).toBe(grpc.status.UNIMPLEMENTED)
    expect(await metric(registry, 'grpc_server_handled_total')).toBe(0)
  })
})

describe('many clients', () => {
  test('a thousand hear of a change, and all of it is the same bytes', async () => {
    const { store, server, registry, connect } = await start()
    store.commit(big(20, 100))
    const clients = Array.from({ length: 1000 }, (_, i) => connect({ node: ztunnelNode(`zt-${i}`) }))
    for (const client of clients) client.send({ type: 'Address' })
    for (const client of clients) await client.receivedAtLeast(1, 30_000)
    store.commit([{ name: 'pod/3', content: 'new' }])
    for (const client of clients) await client.receivedAtLeast(2, 30_000)
    expect(new Set(clients.map((client) => JSON.stringify(client.responses[1]))).size).toBe(1)
    expect(server.clients().length).toBe(1000)
    expect(await metric(registry, 'pilot_xds')).toBe(1000)
    expect(await metric(registry, 'pilot_xds_pushes')).toBe(2000)
  })
})

test('requests are written as protobuf has them', () => {
  const bytes = encodeDeltaRequest({ type: 'a', subscribe: ['b'], nonce: 'c', node: null })
  expect(bytes).toEqual(Buffer.from([0x12, 1, 0x61, 0x1a, 1, 0x62, 0x32, 1, 0x63]))
})
