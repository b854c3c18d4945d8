// SPDX-License-Identifier: Apache-2.0
import { afterEach, expect, test } from '@jest/globals'
import { connect } from 'node:net'
import {
  createAdminServer,
  toIndexReply,
  toJsonReply,
  toTextReply,
  type AdminRoute,
  type AdminServer,
} from '../../src/base/admin-http.js'
import { silentLogger } from '../../src/base/log.js'

const open: AdminServer[] = []
afterEach(async () => {
  await Promise.all(open.splice(0).map((server) => server.close()))
})

async function serve(routes: readonly AdminRoute[], guarded?: string): Promise<string> {
  const server = createAdminServer({
    routes,
    log: silentLogger,
    guard: (request) => (request.path === guarded ? toTextReply('not for you\n', 403) : undefined),
  })
  open.push(server)
  const bound = await server.listen({ host: '127.0.0.1', port: 0 }, '--httpAddr')
  return `http://127.0.0.1:${bound.port}`
}

async function ask(url: string, method = 'GET') {
  const response = await fetch(url, { method })
  return { status: response.status, type: response.headers.get('content-type'), text: await response.text() }
}

const json: AdminRoute = {
  path: '/debug/things',
  about: 'Everything & more.',
  handle: ({ query }) => toJsonReply({ a: [1], asked: query.get('id') }, query),
}

test('a page answers GET and POST alike, compact or indented', async () => {
  const base = await serve([json])
  const compact = { status: 200, type: 'application/json', text: '{"a":[1],"asked":"x"}' }
  expect(await ask(`${base}/debug/things?id=x`)).toEqual(compact)
  expect(await ask(`${base}/debug/things?id=x`, 'POST')).toEqual(compact)
  expect((await ask(`${base}/debug/things?pretty&id=x`)).text).toBe('{\n  "a": [\n    1\n  ],\n  "asked": "x"\n}\n')
  expect((await ask(`${base}/debug/things?pretty=false&id=x`)).text).toBe(compact.text)
})

test('HEAD has the length of GET and no body', async () => {
  const base = await serve([json])
  const response = await fetch(`${base}/debug/things`, { method: 'HEAD' })
  expect([response.status, response.headers.get('content-length'), await response.text()]).toEqual([200, '22', ''])
})

test('an unknown page is 404, a method that a page does not take is 405', async () => {
  const base = await serve([{ ...json, methods: ['POST'] }])
  expect(await ask(`${base}/nothing`)).toEqual({
    status: 404,
    type: 'text/plain; charset=utf-8',
    text: 'no page at /nothing\n',
  })
  expect((await ask(`${base}/debug/things`)).status).toBe(405)
  expect((await ask(`${base}/debug/things`, 'DELETE')).status).toBe(405)
})

test('a path that ends in a slash takes what is below it, after the exact ones', async () => {
  const base = await serve([json, { path: '/debug/', handle: ({ path }) => toTextReply(`below: ${path}`) }])
  expect((await ask(`${base}/debug/other`)).text).toBe('below: /debug/other')
  expect((await ask(`${base}/debug/things`)).type).toBe('application/json')
  expect((await ask(`${base}/debug`)).status).toBe(404)
})

test('a page that fails is a 500 with its message, and the next one works', async () => {
  const base = await serve([
    json,
    {
      path: '/broken',
      handle() {
        throw new Error('no such table')
      },
    },
  ])
  expect(await ask(`${base}/broken`)).toMatchObject({ status: 500, text: 'this page failed: no such table\n' })
  expect((await ask(`${base}/debug/things`)).status).toBe(200)
})

test('the guard speaks first', async () => {
  const base = await serve([json], '/debug/things')
  expect(await ask(`${base}/debug/things`)).toMatchObject({ status: 403, text: 'not for you\n' })
})

test('the index lists what says what it is about', () => {
  const reply = toIndexReply('pages', [json, { path: '/hidden', handle: () => toTextReply('') }])
  expect(reply.body).toContain('<td><a href="/debug/things">/debug/things</a></td><td>Everything &#38; more.</td>')
  expect(reply.body).not.toContain('hidden')
})

test('a request line that is no path is refused, headers without end are cut off', async () => {
  const base = await serve([json])
  const port = Number(new URL(base).port)
  const raw = (text: string): Promise<string> =>
    new Promise((resolve, reject) => {
      const socket = connect(port, '127.0.0.1', () => socket.write(text))
      let got = ''
      socket.on('data', (chunk) => (got += chunk.toString()))
      socket.on('close', () => resolve(got))
      socket.on('error', reject)
    })
  const absolute = await raw('GET http://else.example/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n')
  expect(absolute.split('\r\n')[0]).toBe('HTTP/1.1 400 Bad Request')
  const long = await raw(`GET / HTTP/1.1\r\nhost: x\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`)
  expect(long.split('\r\n')[0]).toBe('HTTP/1.1 431 Request Header Fields Too Large')
})

test('closing lets a request in hand finish', async () => {
  let release: (() => void) | undefined
  const held = new Promise<void>((resolve) => (release = resolve))
  let arrived: (() => void) | undefined
  const inHand = new Promise<void>((resolve) => (arrived = resolve))
  const base = await serve([
    {
      path: '/slow',
      async handle() {
        arrived?.()
        await held
        return toTextReply('done')
      },
    },
  ])
  const answer = ask(`${base}/slow`)
  await inHand
  const closed = open[0]!.close(10_000)
  release?.()
  expect((await answer).text).toBe('done')
  await closed
  await expect(fetch(`${base}/slow`)).rejects.toThrow()
})
