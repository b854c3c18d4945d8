// SPDX-License-Identifier: Apache-2.0
// The CNI server over its real sockets: what the plugin is told to print, what is asked of the rest of the agent, and that a request ends with its client.

import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, linkSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { Registry } from 'prom-client'
import { Retryable } from '../../src/base/errors.js'
import { silentLogger } from '../../src/base/log.js'
import type { PodVerdict } from '../../src/node-agent/cni-decisions.js'
import { createCniServer } from '../../src/node-agent/cni-server.js'
import { formatPluginCall } from '../../src/node-agent/plugin-protocol/framing.js'
import { askSocket, openCniRoom, readCounter, type CniRoom, type SocketReply } from '../support/cni-room.js'
import { FakeClock, tick } from '../support/fake-clock.js'
import { hostParts } from '../support/host-parts.js'
import { testWith } from '../support/optional.js'

const nobody = 65_534
const toNobody = ['--reuid', String(nobody), '--regid', String(nobody), '--clear-groups', '--', process.execPath]

/** Why nobody cannot run a program here. */
function whyNotNobody(): string | undefined {
  const { status, error, stderr } = spawnSync('setpriv', [...toNobody, '--version'], { encoding: 'utf8' })
  return status === 0 ? undefined : `nobody cannot run programs here: ${error?.message ?? stderr.split('\n')[0]}`
}
const withNobody = testWith('setpriv', hostParts.root ?? whyNotNobody())

/** A program that posts an event to pairs of socket and path, and prints the answers. */
const askAll = `
  const { request } = require('node:http')
  const ask = ([socketPath, path]) => new Promise((resolve, reject) => {
    const call = request({ socketPath, path, method: 'POST', agent: false }, (response) => {
      let body = ''
      response.on('data', (part) => (body += part))
      response.on('end', () => resolve({ status: response.statusCode, body }))
    })
    call.on('error', reject)
    call.end('{}')
  })
  Promise.all(JSON.parse(process.argv[1]).map(ask)).then((answers) => console.log(JSON.stringify(answers)))
`

const previous = '{ "cniVersion":"1.0.0", "ips":[{"address":"10.1.0.7/24"}],"unknown":1.50 }'
const podArgs = 'IgnoreUnknown=1;K8S_POD_NAMESPACE=apps;K8S_POD_NAME=p1;K8S_POD_UID=u1'

let room: CniRoom
let clock: FakeClock

beforeEach(async () => {
  clock = new FakeClock()
  room = await openCniRoom({ excludeNamespaces: ['kube-system'], clock })
})
afterEach(() => room.close())

interface Call {
  readonly command?: string
  readonly args?: string
  readonly settings?: Readonly<Record<string, unknown>>
  readonly prevResult?: string
  readonly netns?: string
  readonly signal?: AbortSignal
}

/** One execution of the plugin, as the program frames it. */
function execute(call: Call = {}): Promise<SocketReply> {
  const {
    command = 'ADD',
    args = podArgs,
    settings = {},
    prevResult = previous,
    netns = '/var/run/netns/a',
    signal,
  } = call
  const config = JSON.stringify({ cniVersion: '1.0.0', name: 'net', type: 'istio-cni', ...settings })
  const env = {
    CNI_COMMAND: command,
    CNI_CONTAINERID: 'c1',
    CNI_NETNS: netns,
    CNI_IFNAME: 'eth0',
    CNI_PATH: '/opt/cni/bin',
    CNI_ARGS: args,
  }
  const stdin = Buffer.from(`${config.slice(0, -1)},"prevResult":${prevResult}}`)
  const body = formatPluginCall({ env: new Map(Object.entries(env)), stdin })
  return askSocket(room.socketPath, { path: '/cni', body, ...(signal && { signal }) })
}

/** Exit code and print of an answer. */
function printed(reply: SocketReply): { exit: string; stdout: string } {
  expect(reply.status).toBe(200)
  return { exit: String(reply.headers['cni-exit-code']), stdout: reply.body }
}

function errorOf(reply: SocketReply): { code: number; msg: string } {
  const { exit, stdout } = printed(reply)
  expect(exit).toBe('1')
  return JSON.parse(stdout) as { code: number; msg: string }
}

/** Lets a request run to its end while the clock moves. */
async function whileTimePasses<T>(running: Promise<T>): Promise<T> {
  const state = { isOver: false }
  const over = running.finally(() => (state.isOver = true))
  over.catch(() => undefined)
  while (!state.isOver) {
    await clock.advance(10)
    await tick()
  }
  return over
}

describe('an ADD', () => {
  test('enrols the pod with the addresses of the previous result, which passes byte for byte [4.1.3]', async () => {
    expect(printed(await execute())).toEqual({ exit: '0', stdout: previous })
    expect(room.decisions.enrolments).toEqual([
      { pod: 'apps/p1', uid: 'u1', ips: ['10.1.0.7'], netnsPath: '/var/run/netns/a', containerId: 'c1' },
    ])
    expect(await readCounter(room.registry, 'istio_cni_plugin_requests_total')).toEqual({ 'response_code=200': 1 })
    expect(await readCounter(room.registry, 'addressd_node_cni_commands_total')).toEqual({
      'command=ADD,outcome=enrolled': 1,
    })
  })

  test('of a pod that is not of the mesh passes, and nothing is enrolled', async () => {
    room.decisions.verdict = () => ({ kind: 'ineligible', reason: 'no label asks for it' })
    expect(printed(await execute())).toEqual({ exit: '0', stdout: previous })
    expect(room.decisions.enrolments).toEqual([])
  })

  test('waits for a pod that the tables do not have yet, ten times ten milliseconds [4.5.4]', async () => {
    const known: PodVerdict = {
      kind: 'eligible',
      pod: { uid: 'u1', namespace: 'apps', name: 'p1', serviceAccount: 's' },
    }
    room.decisions.verdict = () => (room.decisions.asked.length > 10 ? known : { kind: 'unknown', reason: 'not there' })
    expect(printed(await whileTimePasses(execute())).exit).toBe('0')
    expect(room.decisions.asked).toHaveLength(11)
    expect(room.decisions.asked[0]).toEqual({ namespace: 'apps', name: 'p1', uid: 'u1' })
  })

  test('of a pod that never comes fails, names it and says what is missing', async () => {
    room.decisions.verdict = () => ({ kind: 'unknown', reason: 'the agent knows no pod of that name' })
    const { code, msg } = errorOf(await whileTimePasses(execute()))
    expect(code).toBe(999)
    expect(msg).toContain('pod apps/p1')
    expect(msg).toContain('the agent knows no pod of that name')
    expect(room.decisions.asked).toHaveLength(11)
  })

  test('fails with the text of the enrolment, and says so in the log', async () => {
    room.decisions.onEnroll = () =>
      Promise.reject(new Retryable('pod apps/p1: no ztunnel is connected; see that ztunnel runs'))
    const { code, msg } = errorOf(await execute())
    expect({ code, msg }).toEqual({
      code: 999,
      msg: 'pod apps/p1 could not be taken into the mesh: no ztunnel is connected; see that ztunnel runs',
    })
    expect(room.logs.filter(({ level }) => level === 'warn').map(({ message }) => message)).toEqual([
      'sandbox may not start',
    ])
    expect(await readCounter(room.registry, 'istio_cni_plugin_requests_total')).toEqual({ 'response_code=500': 1 })
  })

  test('with something wrong in it is refused before anything is done for the pod', async () => {
    const refused: readonly (readonly [Call, number])[] = [
      [{ settings: { cniVersion: '0.4.0' } }, 999],
      [{ settings: { cniVersion: '7' } }, 1],
      [{ args: `${podArgs};x` }, 999],
      [{ prevResult: '{"cniVersion":"1.0.0","ips":[{"address":"x"}]}' }, 999],
      [{ settings: { cniVersion: undefined }, prevResult: 'null' }, 999],
      [{ settings: { name: '' } }, 7],
      [{ netns: '' }, 4],
      [{ command: 'FROB' }, 4],
    ]
    for (const [call, code] of refused) expect(errorOf(await execute(call)).code).toBe(code)
    expect({ asked: room.decisions.asked, enrolments: room.decisions.enrolments }).toEqual({
      asked: [],
      enrolments: [],
    })
  })

  test('without a previous result prints an empty one and names no address', async () => {
    expect(printed(await execute({ prevResult: 'null' }))).toEqual({ exit: '0', stdout: '{"cniVersion":"1.0.0"}\n' })
    expect(room.decisions.enrolments[0]?.ips).toEqual([])
  })

  test('is left alone for the agent itself, excluded namespaces, what is no pod, and a mesh that is off', async () => {
    const alone: readonly Call[] = [
      { args: 'K8S_POD_NAMESPACE=istio-system;K8S_POD_NAME=istio-cni-node-x' },
      { args: 'K8S_POD_NAMESPACE=istio-system;K8S_POD_NAME=addressd-node-x' },
      { args: 'K8S_POD_NAMESPACE=mesh;K8S_POD_NAME=addressd-node-x', settings: { pod_namespace: 'mesh' } },
      { args: 'K8S_POD_NAMESPACE=kube-system;K8S_POD_NAME=dns' },
      { settings: { exclude_namespaces: ['apps'] } },
      { args: '' },
      { args: 'K8S_POD_NAME=x' },
      { settings: { ambient_enabled: false } },
    ]
    for (const call of alone) expect(printed(await execute(call))).toEqual({ exit: '0', stdout: previous })
    expect(room.decisions.asked).toEqual([])
  })

  test('whose plugin goes away is aborted', async () => {
    const gone = new AbortController()
    const reason = await new Promise((resolve) => {
      room.decisions.onEnroll = (_pod, { signal }) =>
        new Promise((_, reject) => {
          signal.addEventListener('abort', () => {
            resolve(signal.reason)
            reject(new Retryable('nobody waits any more'))
          })
          gone.abort()
        })
      execute({ signal: gone.signal }).catch(() => undefined)
    })
    expect(reason).toEqual(new Error('the plugin went away'))
  })

  test('that has its answer is not aborted afterwards', async () => {
    let signal: AbortSignal | undefined
    room.decisions.onEnroll = (_pod, request) => {
      signal = request.signal
      return Promise.resolve()
    }
    await execute()
    await room.close()
    expect(signal?.aborted).toBe(false)
  })
})

describe('the other commands', () => {
  test('succeed in silence, ask for no pod, and CHECK, GC and STATUS do nothing [4.1.4]', async () => {
    for (const command of ['CHECK', 'GC', 'STATUS', 'DEL']) {
      const reply = await execute({ command, settings: { cniVersion: '1.1.0' } })
      expect(printed(reply)).toEqual({ exit: '0', stdout: '' })
    }
    expect({ asked: room.decisions.asked, released: room.decisions.released }).toEqual({
      asked: [],
      released: ['c1 /var/run/netns/a'],
    })
  })

  test('a DEL succeeds when there is no namespace any more, and when letting go fails', async () => {
    expect(printed(await execute({ command: 'DEL', netns: '' })).exit).toBe('0')
    room.decisions.onRelease = () => Promise.reject(new Error('no'))
    expect(printed(await execute({ command: 'DEL' })).exit).toBe('0')
    expect(room.decisions.released).toEqual(['c1 /var/run/netns/a'])
  })

  test('VERSION lists what we speak', async () => {
    const { exit, stdout } = printed(await execute({ command: 'VERSION' }))
    expect({ exit, last: (JSON.parse(stdout) as { cniVersion: string }).cniVersion }).toEqual({
      exit: '0',
      last: '1.1.0',
    })
  })
})

describe('the sockets', () => {
  test('take the place of what an agent left behind, and are gone at the end', async () => {
    await room.close()
    mkdirSync(room.folder, { recursive: true })
    const before = createServer()
    const first = join(room.folder, 'first.sock')
    await new Promise<void>((resolve) => before.listen({ path: first }, resolve))
    linkSync(first, room.socketPath)
    await new Promise((resolve) => before.close(resolve))
    await room.server.listen()
    expect(statSync(room.socketPath).isSocket()).toBe(true)
    await room.server.close()
    expect({ events: existsSync(room.socketPath), log: existsSync(join(room.folder, 'log.sock')) }).toEqual({
      events: false,
      log: false,
    })
    await room.server.close()
  })

  test('never take the place of what is no socket', async () => {
    await room.close()
    mkdirSync(room.folder, { recursive: true })
    writeFileSync(room.socketPath, 'somebody needs this')
    await expect(room.server.listen()).rejects.toThrow(
      `there is something at ${room.socketPath} that is no socket; move it away or choose another run folder`,
    )
    expect(readFileSync(room.socketPath, 'utf8')).toBe('somebody needs this')
  })

  test('of an agent that came later stay when the earlier one ends', async () => {
    const later = createCniServer({
      socketPath: room.socketPath,
      logSocketPath: undefined,
      decisions: room.decisions,
      excludeNamespaces: new Set(),
      podNamespace: '',
      agentPodPrefixes: [],
      clock,
      log: silentLogger,
      registry: new Registry(),
    })
    await later.listen()
    await room.server.close()
    expect(printed(await execute())).toEqual({ exit: '0', stdout: previous })
    await later.close()
    expect(readdirSync(room.folder)).toEqual([])
  })

  test('refuse bodies beyond reason with a text, whole or framed wrongly', async () => {
    const big = Buffer.alloc(5 << 20, 0x20)
    expect(await askSocket(room.socketPath, { path: '/cni', body: big })).toMatchObject({ status: 413 })
    expect(await askSocket(room.socketPath, { path: '/cmdadd', body: big })).toMatchObject({ status: 413 })
    expect(await askSocket(room.socketPath, { path: '/cni', body: 'no frame' })).toMatchObject({ status: 400 })
    expect(await askSocket(room.socketPath, { path: '/constructor', body: '' })).toMatchObject({ status: 404 })
    expect(printed(await execute()).exit).toBe('0')
  })

  test('say the lines of the plugin of istio-cni again, each with its level [4.7.3]', async () => {
    const line = (level: string, msg: string): string => JSON.stringify({ level, msg, time: 't', pod: 'a/b' })
    const body = JSON.stringify([line('info', 'one'), line('error', 'two')])
    const log = join(room.folder, 'log.sock')
    expect(await askSocket(log, { path: '/log', body })).toMatchObject({ status: 200, body: '' })
    expect(await askSocket(log, { path: '/log', body: 'nope' })).toMatchObject({ status: 200 })
    expect(room.logs).toEqual([
      {
        level: 'info',
        fields: { scope: 'cni-plugin', pod: 'a/b', pluginTime: 't', pluginMessage: 'one' },
        message: 'plugin said',
      },
      {
        level: 'error',
        fields: { scope: 'cni-plugin', pod: 'a/b', pluginTime: 't', pluginMessage: 'two' },
        message: 'plugin said',
      },
      { level: 'warn', fields: { bytes: 4 }, message: 'log of a plugin is no JSON array' },
    ])
  })

  withNobody('hear root alone: another user is told so whatever it asks, and named in the log', async () => {
    for (const open of [dirname(room.folder), room.folder]) chmodSync(open, 0o755)
    const log = join(room.folder, 'log.sock')
    const asked = [
      [room.socketPath, '/cni'],
      [room.socketPath, '/cmdadd'],
      [log, '/log'],
    ]
    const child = spawn('setpriv', [...toNobody, '-e', askAll, JSON.stringify(asked)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let said = ''
    child.stdout.on('data', (chunk) => (said += String(chunk)))
    await once(child, 'close')
    const refusal = { status: 403, body: 'only root and the user that the agent runs as may ask here\n' }
    expect(JSON.parse(said)).toEqual([refusal, refusal, refusal])
    const told = {
      level: 'warn',
      fields: { pid: child.pid, uid: nobody },
      message: 'refused a plugin connection of another user',
    }
    expect(room.logs).toEqual([told, told, told])
    expect([room.decisions.asked, room.decisions.released]).toEqual([[], []])
    expect(printed(await execute()).exit).toBe('0')
  })

  test('a path that no socket can have stops the start, with the length that is allowed', async () => {
    const server = createCniServer({
      socketPath: join(room.folder, 'x'.repeat(120)),
      logSocketPath: undefined,
      decisions: room.decisions,
      excludeNamespaces: new Set(),
      podNamespace: '',
      agentPodPrefixes: [],
      clock,
      log: silentLogger,
      registry: new Registry(),
    })
    await expect(server.listen()).rejects.toThrow('102 bytes')
  })

  test('closing gives requests in hand their time, then aborts them', async () => {
    let aborted = false
    const started = new Promise<void>((resolve) => {
      room.decisions.onEnroll = (_pod, { signal }) =>
        new Promise((_, reject) => {
          resolve()
          signal.addEventListener('abort', () => {
            aborted = true
            reject(new Error('the agent stops'))
          })
        })
    })
    const answer = execute().catch((error: unknown) => (error as NodeJS.ErrnoException).code)
    await started
    const closing = room.server.close(500)
    await clock.advance(499)
    expect(aborted).toBe(false)
    await clock.advance(1)
    await closing
    expect(aborted).toBe(true)
    expect(await answer).toBe('ECONNRESET')
  })
})
