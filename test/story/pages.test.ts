// SPDX-License-Identifier: Apache-2.0
// The pages, asked as probes, people and strangers ask: odd verbs, odd paths, headers without end, callers of other machines. Whatever is asked, streams go on.
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { networkInterfaces } from 'node:os'
import { request, type IncomingHttpHeaders } from 'node:http'
import { testWith } from '../support/optional.js'
import { writeRaw } from './bytes.js'
import { onlyTheBeat, Room } from './room.js'

const room = new Room()
beforeAll(async () => {
  await room.open(['--httpAddr=0.0.0.0:0', '--monitoringAddr=0.0.0.0:0'])
})
afterAll(async () => {
  await room.close()
})

interface Answer {
  readonly status: number
  readonly text: string
  readonly headers: IncomingHttpHeaders
}

const portOf = (listener: 'http' | 'monitoring'): number => room.server.bound[listener]?.port ?? 0

async function ask(
  method: string,
  path: string,
  options: {
    readonly host?: string
    readonly headers?: Record<string, string>
    readonly listener?: 'http' | 'monitoring'
  } = {},
): Promise<Answer> {
  const { host = '127.0.0.1', headers = {}, listener = 'http' } = options
  return await new Promise((resolve, reject) => {
    const asked = request({ host, port: portOf(listener), method, path, headers, agent: false }, (response) => {
      let text = ''
      response.on('data', (chunk: Buffer) => (text += chunk.toString()))
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text, headers: response.headers }))
    })
    asked.on('error', reject)
    asked.end()
  })
}

describe('/ready', () => {
  test.each(['GET', 'HEAD', 'POST'])('answers %s with 200 and nothing more', async (method) => {
    expect(await ask(method, '/ready')).toMatchObject({ status: 200, text: '' })
  })

  test.each(['PUT', 'DELETE', 'OPTIONS', 'TRACE', 'PATCH', 'PROPFIND'])(
    'refuses %s and says what it takes',
    async (method) => {
      const { status, text, headers } = await ask(method, '/ready')
      expect([status, text, headers['allow']]).toEqual([405, '/ready takes GET and POST\n', 'GET, POST'])
    },
  )

  test('is the same with a query', async () => {
    expect(await ask('GET', '/ready?verbose&x=%00%ff')).toMatchObject({ status: 200, text: '' })
  })
})

test.each(['/nothing', '/ready/', '//ready', '/debug/../ready', '/%72eady', '/debug/nothing', '/%00', '/metrics'])(
  'there is no page at %s',
  async (path) => {
    expect(await ask('GET', path)).toMatchObject({ status: 404, text: `no page at ${path}\n` })
  },
)

test('headers that are too large are refused, and so is a body that never ends', async () => {
  expect((await ask('GET', '/ready', { headers: { x: 'a'.repeat(20_000) } })).status).toBe(431)
  const endless = 'POST /ready HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\nabc'
  expect((await writeRaw(portOf('http'), Buffer.from(endless))).toString()).toMatch(/^HTTP\/1\.1 200 OK\r\n/)
  expect(await room.beat()).toEqual(onlyTheBeat)
})

test.each([
  ['what is no HTTP', 'hello\r\n\r\n', /^HTTP\/1\.1 400 /],
  ['no host', 'GET /ready HTTP/1.1\r\n\r\n', /^HTTP\/1\.1 400 /],
  ['a proxy request', 'GET http://elsewhere.example/ready HTTP/1.1\r\nHost: x\r\n\r\n', /^HTTP\/1\.1 400 /],
  ['a tunnel', 'CONNECT elsewhere.example:443 HTTP/1.1\r\nHost: x\r\n\r\n', /^$/],
  [
    'two lengths',
    'POST /ready HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab',
    /^HTTP\/1\.1 400 /,
  ],
  ['the greeting of gRPC', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', /^HTTP\/1\.1 400 /],
])('%s is answered or dropped', async (_, text, answer) => {
  expect((await writeRaw(portOf('http'), Buffer.from(text))).toString()).toMatch(answer)
  expect(await room.beat()).toEqual(onlyTheBeat)
})

test.each([
  ['/debug/config_dump', 400],
  ['/debug/config_dump?proxyID=', 400],
  ['/debug/config_dump?proxyID=%00%0a', 404],
  ['/debug/config_dump?proxyID=witness.istio-system', 200],
  ['/debug/config_dump?proxyID=witness.istio-system&types=nothing', 400],
  ['/debug/syncz?namespace=%ff', 200],
  ['/debug/ambientz?pretty', 200],
])('%s is answered with %d', async (path, status) => {
  expect((await ask('GET', path)).status).toBe(status)
  expect((await ask('GET', path, { listener: 'monitoring' })).status).toBe(status)
})

const other = Object.values(networkInterfaces())
  .flatMap((all) => all ?? [])
  .find(({ family, internal }) => family === 'IPv4' && !internal)?.address
const maybe = testWith(
  'a second address',
  other === undefined ? 'this machine has no address besides loopback' : undefined,
)

describe('callers who come by another address than loopback', () => {
  maybe.each(['ambientz', 'adsz', 'syncz', 'connections', 'config_dump?proxyID=witness.istio-system', 'push_status'])(
    'are refused /debug/%s, whatever they say of themselves',
    async (page) => {
      for (const listener of ['http', 'monitoring'] as const) {
        const headers = { 'x-forwarded-for': '127.0.0.1', host: 'localhost', authorization: 'Bearer x' }
        const { status, text } = await ask('GET', `/debug/${page}`, { host: other ?? '', headers, listener })
        expect([status, text.includes('story')]).toEqual([401, false])
      }
    },
  )

  maybe('may ask for readiness, the version and metrics', async () => {
    const host = other ?? ''
    expect((await ask('GET', '/ready', { host })).status).toBe(200)
    expect((await ask('GET', '/version', { host, listener: 'monitoring' })).status).toBe(200)
    expect((await ask('GET', '/metrics', { host, listener: 'monitoring' })).status).toBe(200)
  })
})

test('nothing of all this was a failure of the program', async () => {
  expect(await room.beat()).toEqual(onlyTheBeat)
  expect(room.failures()).toEqual([])
})
