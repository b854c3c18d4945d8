// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { createAdminServer } from '../../src/base/admin-http.js'
import { silentLogger } from '../../src/base/log.js'
import { runCtl } from '../../src/ctl/ctl.js'
import {
  createMesh,
  lone,
  shiftingClock,
  startNode,
  startPlane,
  until,
  webA,
  type Node,
  type Plane,
} from '../node-agent/addresses/room.js'
import type { Run } from './room.js'

let folder = ''
let plane: Plane
let node: Node
const clock = shiftingClock()
const store = createMesh()
const open: (() => unknown)[] = []
const socketPath = (): string => join(folder, 'node.sock')

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'addressd-ctl-'))
  plane = await startPlane(store)
  node = startNode(plane.port, { clock })
  open.push(() => node.stop())
  await until(() => node.addresses.book.connected, 'the control plane to answer')
  const server = createAdminServer({ routes: node.addresses.routes, log: silentLogger })
  await server.listenPath(socketPath(), 'ADDRESSD_NODE_SOCKET')
  open.push(() => server.close())
})
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close()
  await plane.kill()
  rmSync(folder, { recursive: true })
})

/** With no address of addressd that anybody listens at: the agent alone is asked. */
async function ask(...argv: readonly string[]): Promise<Run> {
  const run = { out: '', err: '' }
  const env = { ADDRESSD_NODE_SOCKET: socketPath(), ADDRESSD_SERVER: '127.0.0.1:1' }
  const code = await runCtl(['whatis', '--node', ...argv], {
    stdout: (text) => (run.out += text),
    stderr: (text) => (run.err += text),
    env,
  })
  return { code, ...run }
}

async function losePlane(forMs: number): Promise<string> {
  await plane.kill()
  await until(() => !node.addresses.book.connected, 'the loss to be noticed')
  clock.shift(forMs)
  return new Date(node.addresses.book.lastSeen ?? 0).toISOString()
}

describe('whatis --node', () => {
  test('tells what an address is, as the control plane would', async () => {
    expect(await ask('10.96.0.10')).toEqual({
      code: 0,
      err: '',
      out: `Service web.shop.svc.cluster.local
  Name:       shop/web
  VIP:        10.96.0.10
  Ports:      80->8080
  Waypoint:   none
  Endpoints:  2 of 2 healthy
  Found by:   address /10.96.0.10

NAMESPACE  ENDPOINT  ADDRESS   NODE    PROTOCOL  HEALTH
shop       web-a     10.0.0.1  node-1  HBONE     healthy
shop       web-b     10.0.0.2  node-2  TCP       healthy
`,
    })
  })

  test('nobody has it: 1', async () => {
    expect(await ask('10.0.0.77')).toEqual({ code: 1, out: '', err: 'addressctl: nobody has 10.0.0.77\n' })
  })

  test('no question: 2, without asking anybody', async () => {
    const { code, err } = await ask('10.0.0.300', '--node-socket', '/nonexistent')
    expect([code, err]).toEqual([2, expect.stringContaining('"10.0.0.300" is not a question')])
  })

  test('while the control plane is away the answer says how old it is, and what was never asked is not known: 3', async () => {
    await ask('10.0.0.9')
    await ask('10.0.0.77')
    const since = await losePlane(42_000)
    const old = await ask('10.0.0.9')
    expect([old.code, old.err]).toEqual([0, ''])
    expect(old.out.split('\n')[0]).toBe('Workload shop/lone')
    expect(old.out).toMatch(new RegExp(`\\nanswer is 4[2-9] s old: control plane away since ${since}\\n$`))
    const nobody = await ask('10.0.0.77')
    expect([nobody.code, nobody.out]).toEqual([1, ''])
    expect(nobody.err).toMatch(
      /^addressctl: nobody has 10\.0\.0\.77 \(answer is 4[2-9] s old: control plane away since /,
    )
    const unknown = await ask('10.0.0.2')
    expect([unknown.code, unknown.out]).toEqual([3, ''])
    expect(unknown.err).toContain(
      `10.0.0.2 was never asked for on this node, and the control plane is away since ${since}`,
    )
  })

  test('programs read the age beside the answer', async () => {
    const fresh = JSON.parse((await ask(lone.uid, '-o', 'json')).out)
    expect(fresh).toMatchObject({ form: 'uid', stale: false, ageSeconds: 0, awaySince: '', complete: true })
    expect(fresh.found).toMatchObject([{ kind: 'workload', name: lone.uid, resource: { addresses: ['10.0.0.9'] } }])
    const since = await losePlane(60_000)
    const old = await ask(lone.uid, '-o', 'yaml')
    expect(old.out).toContain(`stale: true\nageSeconds: 6`)
    expect(old.out).toContain(`awaySince: ${since}\n`)
  })

  test('--watch prints what changes, and the age alone is no change', async () => {
    const end = new AbortController()
    let out = ''
    const done = runCtl(['whatis', '--node', '--watch', '10.0.0.1'], {
      stdout: (text) => (out += text),
      stderr: () => undefined,
      env: { ADDRESSD_NODE_SOCKET: socketPath() },
      signal: end.signal,
    })
    await until(() => out.includes('HBONE'), 'the first answer')
    store.put({ ...webA, tunnelProtocol: 0 })
    await until(() => out.includes('TCP'), 'the change')
    await losePlane(10_000)
    await until(() => out.includes('control plane away'), 'the loss')
    end.abort()
    expect(await done).toBe(0)
    store.put(webA)
    expect(out.split('---\n')).toHaveLength(3)
  })

  test('an agent that is not there: 3, and how to choose another', async () => {
    writeFileSync(join(folder, 'file'), '')
    for (const [path, words] of [
      ['/nonexistent/node.sock', 'there is no such socket'],
      [join(folder, 'file'), 'nobody listens there'],
    ] as const) {
      const { code, err } = await ask('10.0.0.1', '--node-socket', path)
      expect(code).toBe(3)
      expect(err).toContain(`could not ask ${path}: ${words}. Is addressd-node running on this node?`)
      expect(err).toContain('--node-socket PATH or ADDRESSD_NODE_SOCKET')
    }
  })
})

describe('the socket', () => {
  test('is for its owner alone, takes the place of an old one, and leaves the place to the next', async () => {
    expect(statSync(socketPath()).mode & 0o777).toBe(0o600)
    const next = createAdminServer({ routes: node.addresses.routes, log: silentLogger })
    await next.listenPath(socketPath(), 'ADDRESSD_NODE_SOCKET')
    await open.pop()?.()
    expect((await ask('10.0.0.1')).code).toBe(0)
    await next.close()
    expect((await ask('10.0.0.1')).code).toBe(3)
    open.push(() => undefined)
  })

  test('is not made in the place of something that is no socket', async () => {
    const path = join(folder, 'file')
    writeFileSync(path, 'precious')
    const server = createAdminServer({ routes: [], log: silentLogger })
    await expect(server.listenPath(path, 'ADDRESSD_NODE_SOCKET')).rejects.toThrow(
      `ADDRESSD_NODE_SOCKET=${path}: cannot listen there: there is something that is no socket`,
    )
  })
})
