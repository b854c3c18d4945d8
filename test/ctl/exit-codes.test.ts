// SPDX-License-Identifier: Apache-2.0
import { Server, ServerCredentials } from '@grpc/grpc-js'
import { createServer as createHttpServer } from 'node:http'
import { createServer, type Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { runCtl } from '../../src/ctl/ctl.js'
import { FakeClock } from '../support/fake-clock.js'
import { createShop, ctl, openRoom, type Room } from './room.js'

let room: Room
beforeAll(async () => {
  room = await openRoom(createShop())
})
afterAll(() => room.stop())

describe('0, the question is answered:', () => {
  test.each([
    ['an address', '10.0.0.1', 'Workload shop/web-a'],
    ['an IPv6 address in any spelling', 'FD00:0::2', 'Workload shop/web-b'],
    ['an address in one network', 'far/10.0.0.1', 'Workload edge/web-a'],
    ['an address in the network without a name', '/10.0.0.1', 'Workload shop/web-a'],
    ['an address as a range of one', '10.0.0.1/32', 'Workload shop/web-a'],
    ['an address inside a range', '172.16.99.1', 'Service legacy.example.com'],
    ['a range', '172.16.0.0/12', 'Service legacy.example.com'],
    ['a range, by an address in it', '172.16.5.5/12', 'Service legacy.example.com'],
    ['a range in one network', 'far/172.16.0.0/12', 'Service legacy.example.com'],
    ['a host name in capitals', 'WEB.shop.svc.cluster.local.', 'Service web.shop.svc.cluster.local'],
    ['a host name as people in the cluster say it', 'web.shop.svc', 'Service web.shop.svc.cluster.local'],
    ['a host name under a wildcard', 'a.b.example.org', 'Service *.example.org'],
    ['a wildcard itself', '*.example.org', 'Service *.example.org'],
    ['a pod by name', 'shop/web-b', 'Workload shop/web-b'],
    ['a service by name', 'shop/web', 'Service web.shop.svc.cluster.local'],
    ['a service by namespace and host name', 'edge/legacy.example.com', 'Service legacy.example.com'],
    ['a uid', 'other//Pod/edge/far-0', 'Workload edge/web-a'],
  ])('%s', async (_what, question, firstLine) => {
    const { code, out, err } = await ctl(room, 'whatis', question)
    expect({ code, err, firstLine: out.split('\n')[0] }).toEqual({ code: 0, err: '', firstLine })
  })

  test('each thing once, though several parts of the question lead to it', async () => {
    const { out } = await ctl(room, 'whatis', 'edge/legacy', '-o', 'json')
    expect(JSON.parse(out).found.map((one: { name: string }) => one.name)).toEqual(['edge/legacy.example.com'])
  })

  test('help', async () => {
    const help = await ctl(room, '--help')
    expect(help).toMatchObject({ code: 0, err: '' })
    expect(help.out).toContain('addressctl whatis web.shop.svc.cluster.local')
    expect(help.out).toContain('0 answered   1 nobody has it   2 not a question or wrong usage   3 could not ask')
  })
})

describe('1, nobody has it:', () => {
  test.each([
    ['10.0.0.250'],
    ['far/10.0.0.2'],
    ['nobody.shop.svc.cluster.local'],
    ['shop/nobody'],
    ['edge/web-b'],
    ['Kubernetes//Pod/shop/nobody'],
    ['10.0.0.0/24'],
  ])('%s', async (question) => {
    expect(await ctl(room, 'whatis', question)).toEqual({
      code: 1,
      out: '',
      err: `addressctl: nobody has ${question}\n`,
    })
  })
})

describe('2, not a question or wrong usage:', () => {
  test.each([[''], ['10.0.0.300'], ['shop/10.0.0.300'], ['what is this'], ['a/b/c']])('%j', async (question) => {
    const { code, out, err } = await ctl(room, 'whatis', question)
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(err).toContain(`addressctl: ${JSON.stringify(question)} is not a question`)
  })

  test.each([
    [['whatis'], "addressctl: missing required argument 'question'"],
    [['whatis', 'a', 'b'], 'too many arguments'],
    [['whatis', '10.0.0.1', '-o', 'xml'], '"xml" is not a form of output'],
    [['workloads', '--nose', 'x'], "unknown option '--nose'"],
    [['wat'], "addressctl: unknown command 'wat'"],
    [['clients', '--server', 'nowhere'], '"nowhere" is not an address to ask'],
    [['clients', '--server', '127.0.0.1:65536'], '"127.0.0.1:65536" is not an address to ask'],
    [['clients', '--server', '127.0.0.1:0'], '"127.0.0.1:0" is not an address to ask'],
    [['clients', '--server', ''], '"" is not an address to ask'],
    [['clients', '--timeout', '5'], '"5" is not a duration'],
    [['clients', '--timeout', '0'], 'there must be some time'],
    [[], 'Usage: addressctl'],
  ])('%j', async (argv, message) => {
    const { code, out, err } = await ctl(room, ...argv)
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(err).toContain(message)
  })

  test('what is no question is told apart from a server that is away', async () => {
    expect((await ctl({ address: '127.0.0.1:1' }, 'whatis', '10.0.0.300')).code).toBe(2)
  })
})

describe('3, could not ask:', () => {
  test('nobody listens: the address that was tried is named, and how to choose another', async () => {
    for (const argv of [['whatis', '10.0.0.1'], ['whatis', '10.0.0.1', '--watch'], ['clients']]) {
      const { code, out, err } = await ctl(room, ...argv, '--server', '127.0.0.1:1')
      expect({ code, out }).toEqual({ code: 3, out: '' })
      expect(err).toMatch(/^addressctl: could not ask 127\.0\.0\.1:1: .*ECONNREFUSED/)
      expect(err).toContain('--server HOST:PORT or ADDRESSD_SERVER')
    }
  })

  test('a server that speaks something else', async () => {
    const pages = createHttpServer((_request, response) => response.end('hello'))
    await new Promise<void>((resolve) => pages.listen(0, '127.0.0.1', resolve))
    const { port } = pages.address() as { port: number }
    const { code, out, err } = await ctl(room, 'clients', '--server', `127.0.0.1:${port}`)
    expect({ code, out }).toEqual({ code: 3, out: '' })
    expect(err).toContain(`could not ask 127.0.0.1:${port}: what listens there does not speak gRPC. Is addressd`)
    pages.closeAllConnections()
    await new Promise((resolve) => pages.close(resolve))
  })

  test('a server that does not know such questions', async () => {
    const server = new Server()
    const port = await new Promise<number>((resolve) => {
      server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (_, bound) => resolve(bound))
    })
    const { code, err } = await ctl({ address: `127.0.0.1:${port}` }, 'services')
    expect({ code, err }).toEqual({
      code: 3,
      err: `addressctl: could not ask 127.0.0.1:${port}: it does not know such questions. Is it addressd?\n`,
    })
    server.forceShutdown()
  })

  test.each([[['whatis', '10.0.0.1']], [['whatis', '10.0.0.1', '--watch']], [['policies']]])(
    'a server that takes the call and says nothing: %j',
    async (argv) => {
      const sockets: Socket[] = []
      const mute = createServer()
      const port = await new Promise<number>((resolve) => {
        mute.listen(0, '127.0.0.1', () => resolve((mute.address() as { port: number }).port))
      })
      const clock = new FakeClock()
      const connected = new Promise<void>((resolve) => {
        mute.on('connection', (socket) => {
          sockets.push(socket)
          resolve()
        })
      })
      const err: string[] = []
      const run = runCtl([...argv, '--timeout', '1s'], {
        stdout: () => undefined,
        stderr: (text) => err.push(text),
        env: { ADDRESSD_SERVER: `127.0.0.1:${port}` },
        clock,
      })
      await connected
      await clock.advance(1_000)
      expect(await run).toBe(3)
      expect(err.join('')).toContain(`could not ask 127.0.0.1:${port}: it did not answer within 1000 ms`)
      for (const socket of sockets) socket.destroy()
      mute.close()
    },
  )

  test('without --server and ADDRESSD_SERVER it asks 127.0.0.1:15010', async () => {
    let help = ''
    await runCtl(['--help'], { stdout: (text) => (help += text), stderr: () => undefined, env: {} })
    expect(help).toContain('(default: "127.0.0.1:15010")')
  })
})
