// SPDX-License-Identifier: Apache-2.0
// Calls that nobody should make: each ends with a clear status or an answer, and others go on as if nothing had been.
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { frameMessage } from '../../src/wire/grpc-frames.js'
import { ADDRESS_TYPE } from '../../src/wire/messages.js'
import { encodeDeltaRequest, encodeSotwRequest, XdsClient, ztunnelNode } from '../support/xds-client.js'
import { callRaw, DELTA, frame, headerBlock, PREFACE, SOTW, writeRaw, type Ending } from './bytes.js'
import { onlyTheBeat, Room } from './room.js'

const room = new Room()
beforeAll(async () => {
  await room.open()
})
afterAll(async () => {
  await room.close()
})

const node = ztunnelNode('rude')
const delta = (fields: Partial<Parameters<typeof encodeDeltaRequest>[0]>): Uint8Array =>
  frameMessage(encodeDeltaRequest({ node, type: ADDRESS_TYPE, subscribe: ['x'], ...fields }))
const sotw = (fields: Partial<Parameters<typeof encodeSotwRequest>[0]>): Uint8Array =>
  frameMessage(encodeSotwRequest({ node, type: ADDRESS_TYPE, names: ['x'], ...fields }))

/** The same fault, as each of the two streams would carry it. */
const bothWays = (fields: { node?: typeof node | null; type?: string; subscribe?: string[] }) => ({
  delta: delta(fields),
  sotw: sotw({ ...fields, ...(fields.subscribe === undefined ? {} : { names: fields.subscribe }) }),
})

const garbage = frameMessage(Buffer.from('ffffffffffffffffffffff010203', 'hex'))
const flagged = (flag: number): Uint8Array => Buffer.concat([Buffer.from([flag, 0, 0, 0, 5]), Buffer.from('hello')])
const announced = (bytes: number): Uint8Array => {
  const prefix = Buffer.alloc(5)
  prefix.writeUInt32BE(bytes, 1)
  return prefix
}
const bothSame = (bytes: Uint8Array) => ({ delta: bytes, sotw: bytes })

const refused: [what: string, bodies: { delta: Uint8Array; sotw: Uint8Array }, code: number, message: RegExp][] = [
  ['garbage for protobuf', bothSame(garbage), 13, /^Delta|Discovery.*is this message of that type\?$/],
  ['a message of nothing', bothSame(frameMessage(Buffer.alloc(0))), 3, /missing node information/],
  ['no node', bothWays({ node: null }), 3, /missing node information/],
  ['an empty node id', bothWays({ node: { id: '' } }), 3, /missing node information/],
  ['a node id of one word', bothWays({ node: { id: 'me' } }), 3, /node id "me" is not of the form/],
  ['a node id of five parts', bothWays({ node: { id: 'ztunnel~1.1.1.1~a.b~c~d' } }), 3, /is not of the form/],
  ['an unknown proxy type', bothWays({ node: { id: 'toaster~1.1.1.1~a.b~c' } }), 3, /unknown proxy type "toaster"/],
  ['a node without address', bothWays({ node: { id: 'ztunnel~here~a.b~c' } }), 3, /no valid IP address/],
  ['line breaks in a node id', bothWays({ node: { id: 'a\nb\u001b[2J' } }), 3, /node id "a\\nb\\u001b\[2J" is not/],
  ['a node id of a megabyte', bothWays({ node: { id: `ztunnel~1.1.1.1~${'x'.repeat(1e6)}~c` } }), 3, /at most 1024/],
  [
    'a node id whose shortening would halve a character',
    bothWays({ node: { id: `${'\u0001'.repeat(53)}a${'😀'.repeat(70)}~1~x~y` } }),
    3,
    /unknown proxy type/,
  ],
  ['a type URL of a megabyte', bothWays({ type: '😀'.repeat(250_000) }), 13, /has a type URL of 500000 characters/],
  ['a prefix that is none', bothSame(flagged(7)), -1, /.*/],
  ['a message of 2 GiB', bothSame(announced(0x7fffffff)), 8, /2147483647/],
]

describe('a stream ends with a clear status, and others get exactly what is theirs, after', () => {
  test.each(refused)('%s', async (_, bodies, code, message) => {
    for (const [path, body] of [[DELTA, bodies.delta] as const, [SOTW, bodies.sotw] as const]) {
      const ending = await callRaw(room.port, path, body, { halfClose: true })
      if (code >= 0) expect(ending).toEqual({ code, message: expect.stringMatching(message), bytes: 0 })
      else expect(ending.code).not.toBe(0)
      expect(ending.message.length).toBeLessThan(2_100)
    }
    expect(await room.beat()).toEqual(onlyTheBeat)
  })

  test('a compressed frame on the delta stream', async () => {
    expect(await callRaw(room.port, DELTA, flagged(1), { headers: { 'grpc-encoding': 'gzip' } })).toEqual({
      code: 12,
      message: 'The message is compressed; send it without grpc-encoding',
      bytes: 0,
    })
    expect(await room.beat()).toEqual(onlyTheBeat)
  })

  test.each([
    ['a name', Buffer.from([0x1a, 2, 0xc3, 0x28]), /DeltaDiscoveryRequest: field 3 is not valid UTF-8/],
    ['a type', Buffer.from([0x12, 2, 0xc3, 0x28]), /field 2 is not valid UTF-8/],
    ['a nonce', Buffer.from([0x32, 2, 0xc3, 0x28]), /field 6 is not valid UTF-8/],
  ])('%s that is not UTF-8', async (_, bytes, message) => {
    const body = frameMessage(encodeDeltaRequest({ node, type: ADDRESS_TYPE }), bytes)
    expect(await callRaw(room.port, DELTA, body)).toEqual({
      code: 13,
      message: expect.stringMatching(message),
      bytes: 0,
    })
    expect(await room.beat()).toEqual(onlyTheBeat)
  })

  test('more names than are taken, of a type that is longer than a message may be', async () => {
    const type = `a${'😀'.repeat(500)}`
    const names = Buffer.alloc(2 * 2_000_001)
    for (let i = 0; i < names.length; i += 2) names[i] = 0x1a
    const body = frameMessage(encodeDeltaRequest({ node, type }), names)
    const { code, message } = await callRaw(room.port, DELTA, body)
    expect([code, message.slice(0, 35)]).toEqual([8, 'more than 2000000 names of a😀😀😀😀'.slice(0, 35)])
    expect(await room.beat()).toEqual(onlyTheBeat)
  })
})

describe('a stream is answered, and others get exactly what is theirs, after', () => {
  const missing = async (names: readonly string[]): Promise<void> => {
    const client = new XdsClient({ port: room.port, node })
    client.send({ type: 'Address', subscribe: names })
    await client.receivedAtLeast(1, 30_000)
    const [answer] = client.responses
    expect([answer?.resources, answer?.removed.length]).toEqual([[], names.length])
    // Compared as one text: a hundred thousand comparisons would take ten seconds.
    expect(answer?.removed.join('\n') === names.join('\n')).toBe(true)
    client.destroy()
    expect(await room.beat()).toEqual(onlyTheBeat)
  }

  test('names with control characters', async () => {
    await missing(['a\u0000b', '\n', '\u001b[2J', '\u202e', '../../etc/passwd', '%00', '*\u0000'])
  })

  test('ten megabytes of names', async () => {
    await missing(Array.from({ length: 100_000 }, (_v, i) => `Kubernetes//Pod/${String(i).padStart(88, 'x')}`))
  })

  test('one name of ten megabytes', async () => {
    await missing(['x'.repeat(10_000_000)])
  })

  test('a thousand unknown types: those that are too many get silence', async () => {
    const client = new XdsClient({ port: room.port, node })
    for (let i = 0; i < 1_000; i++) client.send({ type: `nobody/makes.This${i}`, subscribe: ['x'] })
    client.send({ type: 'nobody/makes.This0', subscribe: ['y'] })
    client.halfClose()
    expect(await client.untilEnded()).toEqual({ code: 0, message: '' })
    expect(client.received).toBe(64)
    expect(await room.beat()).toEqual(onlyTheBeat)
  })

  test('a rejection of a megabyte: the log line stays short', async () => {
    const client = new XdsClient({ port: room.port, node })
    client.send({ type: 'Address', subscribe: ['x'] })
    await client.receivedAtLeast(1)
    const nonce = 'n'.repeat(1e6)
    client.send({ type: 'Address', nonce, error: { message: '\u001b[31m😀'.repeat(200_000) } })
    client.halfClose()
    expect((await client.untilEnded()).code).toBe(0)
    const [record] = room.log.records.filter(({ message }) => message === 'response rejected')
    expect(JSON.stringify(record?.fields).length).toBeLessThan(60_000)
    expect(await room.beat()).toEqual(onlyTheBeat)
  })

  test('half-closed calls that said nothing, a part of a message, or all of it', async () => {
    const whole = delta({})
    const endings: Ending[] = []
    for (const body of [Buffer.alloc(0), whole.subarray(0, 3), whole.subarray(0, 20), whole]) {
      endings.push(await callRaw(room.port, DELTA, body, { halfClose: true }))
    }
    expect(endings.map(({ code }) => code)).toEqual([0, 0, 0, 0])
    expect(endings.map(({ bytes }) => bytes > 0)).toEqual([false, false, false, true])
    expect(await room.beat()).toEqual(onlyTheBeat)
  })

  test.each([
    ['/'],
    ['/nobody.Serves/This'],
    [`${DELTA}/`],
    ['/addressd.inspect.v1.Inspect/Nothing'],
    [`/${'x'.repeat(8_000)}`],
  ])('the unknown method %s', async (path) => {
    expect(await callRaw(room.port, path, delta({}))).toEqual({ code: 12, message: 'no such method', bytes: 0 })
    expect(await room.beat()).toEqual(onlyTheBeat)
  })
})

describe('what is asked of the other services', () => {
  const text = (field: number, value: Uint8Array): Uint8Array => {
    const length = [(value.length & 0x7f) | 0x80, ((value.length >> 7) & 0x7f) | 0x80, value.length >> 14]
    return frameMessage(Buffer.from([(field << 3) | 2, ...length]), value)
  }
  const check = '/grpc.health.v1.Health/Check'
  const whatIs = '/addressd.inspect.v1.Inspect/WhatIs'

  test('a health check for a name of 100 KB costs nobody else a call', async () => {
    const other = callRaw(room.port, '/grpc.health.v1.Health/Watch', frameMessage(Buffer.alloc(0)), { forMs: 3_000 })
    const { code, message } = await callRaw(room.port, check, text(1, Buffer.alloc(100_000, 'x')), { halfClose: true })
    expect(code).toBe(5)
    expect(message.length).toBeLessThan(2_100)
    const again = await callRaw(room.port, check, frameMessage(Buffer.alloc(0)), { halfClose: true })
    expect([again.code, again.bytes > 0]).toEqual([0, true])
    expect(await other).toEqual({ code: -2, message: 'did not end', bytes: expect.any(Number) })
    expect(await room.beat()).toEqual(onlyTheBeat)
  })

  test.each([
    ['half a character', Buffer.from([0xed, 0xa0, 0x80]), /is not a question/],
    ['control characters', Buffer.from('a\n\u001b[31m.b'), /^"a\\n\\u001b\[31m.b" is not a question/],
    ['a megabyte', Buffer.alloc(1_000_000, 'é'), /longer than 1024 characters/],
  ])('a question of %s', async (_, question, message) => {
    expect(await callRaw(room.port, whatIs, text(1, question), { halfClose: true })).toEqual({
      code: 3,
      message: expect.stringMatching(message),
      bytes: 0,
    })
    expect(await room.beat()).toEqual(onlyTheBeat)
  })

  test('garbage', async () => {
    const ending = await callRaw(room.port, whatIs, garbage, { halfClose: true })
    expect([ending.code, ending.bytes]).toEqual([13, 0])
    expect(await room.beat()).toEqual(onlyTheBeat)
  })
})

describe('connections', () => {
  const noise = Buffer.alloc(100_000)
  for (let i = 0; i < noise.length; i++) noise[i] = (i * 7919 + (i >> 3)) & 0xff

  test.each([
    ['HTTP/1', Buffer.from('GET /ready HTTP/1.1\r\nHost: x\r\n\r\n')],
    ['an HTTP/1 upgrade', Buffer.from('GET / HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n')],
    ['a TLS greeting', Buffer.from('1603010200010001fc0303', 'hex')],
    ['noise', noise],
    ['half a preface', PREFACE.subarray(0, 10)],
    ['a preface alone', PREFACE],
    ['data for a stream that is not there', Buffer.concat([PREFACE, frame('data', 0, 1, noise.subarray(0, 100))])],
    ['a broken header block', Buffer.concat([PREFACE, frame('headers', 4, 1, Buffer.from('ffffffffff', 'hex'))])],
    [
      'headers without end',
      Buffer.concat([
        PREFACE,
        frame('headers', 0, 1),
        ...Array.from({ length: 2_000 }, () => frame('continuation', 0, 1, noise.subarray(0, 10))),
      ]),
    ],
    ['a frame that is too long', Buffer.concat([PREFACE, frame('ping', 0, 0, noise.subarray(0, 20_000))])],
    ['an even stream', Buffer.concat([PREFACE, frame('headers', 4, 2, headerBlock(DELTA))])],
    ['a reset of the connection itself', Buffer.concat([PREFACE, frame('reset', 0, 0, Buffer.alloc(4))])],
    ['a goodbye at once', Buffer.concat([PREFACE, frame('goaway', 0, 0, Buffer.alloc(8))])],
    [
      'a thousand pings',
      Buffer.concat([PREFACE, ...Array.from({ length: 1_000 }, () => frame('ping', 0, 0, Buffer.alloc(8)))]),
    ],
  ])('%s in place of a call', async (_, bytes) => {
    await writeRaw(room.port, bytes)
    expect(await room.beat()).toEqual(onlyTheBeat)
  })

  test.each([
    [DELTA],
    [SOTW],
    ['/grpc.health.v1.Health/Check'],
    ['/addressd.inspect.v1.Inspect/WhatIs'],
    ['/nobody/This'],
  ])('calls to %s that are taken back in the packet that makes them', async (path) => {
    const calls = Array.from({ length: 90 }, (_v, i) => {
      const stream = 2 * i + 1
      return Buffer.concat([
        frame('headers', i % 2 === 0 ? 4 : 5, stream, headerBlock(path)),
        frame('reset', 0, stream, Buffer.from([0, 0, 0, 8])),
      ])
    })
    await writeRaw(room.port, Buffer.concat([PREFACE, ...calls]))
    expect(await room.beat()).toEqual(onlyTheBeat)
  })

  test('who takes back hundreds of calls a second loses the connection', async () => {
    const calls = Array.from({ length: 1_000 }, (_v, i) =>
      Buffer.concat([
        frame('headers', 4, 2 * i + 1, headerBlock(DELTA)),
        frame('reset', 0, 2 * i + 1, Buffer.from([0, 0, 0, 8])),
      ]),
    )
    const answer = await writeRaw(room.port, Buffer.concat([PREFACE, ...calls]), 5_000)
    expect(answer.includes(frame('goaway', 0, 0, Buffer.alloc(0)).subarray(3, 9))).toBe(true)
    expect(await room.beat()).toEqual(onlyTheBeat)
  })
})

test('nothing of all this was a failure of the program, and clients made no metrics of their own', async () => {
  expect(room.failures()).toEqual([])
  const client = new XdsClient({ port: room.port, node: { ...node, metadata: { ISTIO_VERSION: 'a"\n\\' } } })
  for (let i = 0; i < 30; i++) client.send({ type: `istio.io/debug/made-up-${i}` })
  await client.receivedAtLeast(30)
  client.destroy()
  const metrics = await (await room.page('monitoring', '/metrics')).text()
  expect(metrics).not.toContain('made-up')
  expect(metrics).toContain('pilot_xds{version="unknown"}')
  expect(metrics.split('\n').length).toBeLessThan(2_000)
})
