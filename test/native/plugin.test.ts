// SPDX-License-Identifier: Apache-2.0
// The plugin's program alone, against agents that are absent, late, silent, broken or not ours. What it prints and how it ends is all a runtime sees.

import { afterEach, beforeEach, describe, expect } from '@jest/globals'
import { spawn } from 'node:child_process'
import { chmodSync, linkSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parsePluginCall } from '../../src/node-agent/plugin-protocol/framing.js'
import { findPlugin, pluginProgram, runPlugin, type PluginRun } from '../support/native-plugin.js'
import { testWith } from '../support/optional.js'

const withPlugin = testWith('gcc', findPlugin())
const previous = '{ "cniVersion": "1.0.0",\n  "ips": [{"address": "10.0.0.7/24"}], "strange":1.50 }'

let folder: string
let servers: Server[]
let sockets: Socket[]

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'plugin-'))
  servers = []
  sockets = []
})
afterEach(async () => {
  for (const socket of sockets) socket.destroy()
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))))
  rmSync(folder, { recursive: true, force: true })
})

/** An agent that does what `onData` says with everything it has received so far. */
async function agent(onData: (socket: Socket, received: Buffer) => void, at = folder): Promise<void> {
  const server = createServer((socket) => {
    sockets.push(socket)
    let received: Buffer = Buffer.alloc(0)
    socket.on('error', () => undefined)
    socket.on('data', (part) => {
      received = Buffer.concat([received, part])
      onData(socket, received)
    })
  })
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(join(at, 'pluginevent.sock'), resolve))
}

/** An agent that answers every whole request with these bytes and ends the connection. */
function answering(text: string): Promise<void> {
  return agent((socket, received) => {
    if (bodyOf(received) !== undefined) socket.end(text)
  })
}

/** The body of a whole request; undefined while more is to come. */
function bodyOf(received: Buffer): Buffer | undefined {
  const end = received.indexOf('\r\n\r\n')
  const length = /content-length: (\d+)/i.exec(received.toString('latin1', 0, end))?.[1]
  const body = received.subarray(end + 4)
  return end >= 0 && body.length === Number(length) ? body : undefined
}

function config(more: Readonly<Record<string, unknown>> = {}, prevResult = previous): string {
  const settings = { cniVersion: '1.0.0', name: 'net', type: 'istio-cni', cni_agent_run_dir: folder, ...more }
  const text = JSON.stringify(settings)
  return `${text.slice(0, -1)},"prevResult":${prevResult}}`
}

function env(command: string, args = 'IgnoreUnknown=1;K8S_POD_NAMESPACE=apps;K8S_POD_NAME=p1'): Record<string, string> {
  return {
    CNI_COMMAND: command,
    CNI_CONTAINERID: 'c1',
    CNI_NETNS: '/n',
    CNI_IFNAME: 'eth0',
    CNI_PATH: '/b',
    CNI_ARGS: args,
  }
}

function errorOf(run: PluginRun): { code: number; msg: string } {
  expect({ exitCode: run.exitCode, stderr: run.stderr }).toEqual({ exitCode: 1, stderr: '' })
  return JSON.parse(run.stdout) as { code: number; msg: string }
}

const success = { exitCode: 0, stdout: '', stderr: '' }

describe('the program', () => {
  withPlugin('is one static file, small enough for every host', () => {
    const elf = readFileSync(pluginProgram)
    expect(elf.toString('latin1', 1, 4)).toBe('ELF')
    // Program headers of a 64-bit file: type 3 would name a dynamic loader.
    const [from, size, count] = [Number(elf.readBigUInt64LE(32)), elf.readUInt16LE(54), elf.readUInt16LE(56)]
    const types = Array.from({ length: count }, (_, i) => elf.readUInt32LE(from + i * size))
    expect(types).not.toContain(3)
    expect(elf.length).toBeLessThan(1_000_000)
    expect(readFileSync(join(pluginProgram, '../istio-cni')).equals(elf)).toBe(true)
    expect(statSync(pluginProgram).mode & 0o111).toBe(0o111)
  })

  withPlugin('answers VERSION by itself, whatever stdin holds', async () => {
    const run = await runPlugin({ CNI_COMMAND: 'VERSION' }, '{nope')
    const supportedVersions = ['0.1.0', '0.2.0', '0.3.0', '0.3.1', '0.4.0', '1.0.0', '1.1.0']
    expect(run.exitCode).toBe(0)
    expect(JSON.parse(run.stdout)).toEqual({ cniVersion: '1.1.0', supportedVersions })
  })

  withPlugin('says what it is when it is run without a command, and that is no error', async () => {
    const run = await runPlugin({}, '')
    expect({ exitCode: run.exitCode, stdout: run.stdout }).toEqual({ exitCode: 0, stdout: '' })
    expect(run.stderr).toContain('CNI plugin')
  })
})

describe('with an agent', () => {
  withPlugin('environment and stdin arrive byte for byte, and no other variable does', async () => {
    let body: Buffer | undefined
    await agent((socket, received) => {
      body = bodyOf(received)
      if (body !== undefined) socket.end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\nCni-Exit-Code: 0\r\n\r\n')
    })
    const stdin = Buffer.concat([Buffer.from(config({ name: 'né' })), Buffer.from(' \n\t\r\n')])
    stdin[stdin.indexOf('strange')] = 0xff
    const variables = { ...env('ADD'), CNI_LATER: 'a=b;"\n', SECRET: 'x' }
    expect(await runPlugin(variables, stdin)).toMatchObject(success)
    const { env: seen, stdin: through } = parsePluginCall(body ?? Buffer.alloc(0))
    const { SECRET: _secret, ...own } = variables
    expect(Object.fromEntries(seen)).toEqual(own)
    expect(through.equals(stdin)).toBe(true)
  })

  withPlugin('what it says is printed as it is, with its exit code', async () => {
    await answering('HTTP/1.1 200 OK\r\ncni-exit-code: 1\r\nX: y\r\ncontent-length: 9\r\n\r\n{"code":4ignored')
    expect(await runPlugin(env('ADD'), config())).toMatchObject({ exitCode: 1, stdout: '{"code":4', stderr: '' })
  })

  withPlugin('a long answer in small pieces is whole', async () => {
    const long = `{"x":"${'y'.repeat(300_000)}"}`
    await agent((socket, received) => {
      if (bodyOf(received) === undefined) return
      socket.write('HTTP/1.1 200 OK\r\nCNI-EXIT-CODE: 0\r\nContent-')
      setImmediate(() => {
        socket.write(`Length: ${long.length}\r\n\r`)
        setImmediate(() => socket.end(`\n${long}`))
      })
    })
    expect(await runPlugin(env('ADD'), config())).toMatchObject({ exitCode: 0, stdout: long })
  })

  withPlugin('a path longer than sockets have is reached', async () => {
    const deep = join(folder, 'd'.repeat(80), 'e'.repeat(80))
    mkdirSync(deep, { recursive: true })
    // Listening needs a short path as well: this process would have to enter the folder, so a link stands in for it.
    await answering('HTTP/1.1 200 OK\r\ncni-exit-code: 0\r\ncontent-length: 2\r\n\r\n{}')
    linkSync(join(folder, 'pluginevent.sock'), join(deep, 'pluginevent.sock'))
    expect(await runPlugin(env('ADD'), config({ cni_agent_run_dir: deep }))).toMatchObject({
      exitCode: 0,
      stdout: '{}',
    })
  })
})

describe('without an agent', () => {
  withPlugin('a pod waits: the error names the socket, the pod and what to look at, within five seconds', async () => {
    const run = await runPlugin(env('ADD'), config())
    const { code, msg } = errorOf(run)
    expect(code).toBe(999)
    expect(msg).toContain(`${folder}/pluginevent.sock`)
    expect(msg).toContain('No such file or directory')
    expect(msg).toContain('apps/p1')
    expect(msg).toContain('addressd-node')
    expect(run.tookMs).toBeLessThan(5_000)
  })

  withPlugin('an agent that comes a moment later is waited for', async () => {
    const running = runPlugin(env('ADD'), config())
    setTimeout(() => void answering('HTTP/1.1 200 OK\r\ncni-exit-code: 0\r\ncontent-length: 2\r\n\r\n{}'), 300)
    expect(await running).toMatchObject({ exitCode: 0, stdout: '{}' })
  })

  for (const command of ['DEL', 'CHECK', 'GC', 'STATUS']) {
    withPlugin(`${command} succeeds at once, in silence`, async () => {
      const run = await runPlugin(env(command), config({ cniVersion: '1.1.0' }))
      expect(run).toMatchObject(success)
      expect(run.tookMs).toBeLessThan(2_900)
    })
  }

  const passing: readonly (readonly [about: string, args: string, more: Readonly<Record<string, unknown>>])[] = [
    ['the agent of istio-cni', 'K8S_POD_NAMESPACE=istio-system;K8S_POD_NAME=istio-cni-node-x', {}],
    ['our agent', 'K8S_POD_NAME=addressd-node-x;K8S_POD_NAMESPACE=istio-system', {}],
    ['our agent under another name', 'K8S_POD_NAMESPACE=istio-system;K8S_POD_NAME=mesh-x', { agent_daemonset: 'mesh' }],
    ['a pod of an excluded namespace', 'K8S_POD_NAMESPACE=kube-system;K8S_POD_NAME=dns', {}],
    ['what is no pod of Kubernetes', 'IgnoreUnknown=1', {}],
  ]
  for (const [about, args, more] of passing) {
    withPlugin(`${about} passes with its previous result, byte for byte`, async () => {
      const settings = { pod_namespace: 'istio-system', exclude_namespaces: ['other', 'kube-system'], ...more }
      const run = await runPlugin(env('ADD', args), config(settings))
      expect(run).toMatchObject({ exitCode: 0, stdout: previous, stderr: '' })
      expect(run.tookMs).toBeLessThan(2_900)
    })
  }

  withPlugin('without a previous result they get an empty one of their version', async () => {
    const args = 'K8S_POD_NAMESPACE=istio-system;K8S_POD_NAME=addressd-node-x'
    const seen: unknown[] = []
    for (const cniVersion of ['0.2.0', '0.4.0', '1.0.0', '1.1.0', '2.0.0', undefined]) {
      const run = await runPlugin(env('ADD', args), config({ pod_namespace: 'istio-system', cniVersion }, 'null'))
      seen.push(run.exitCode === 0 ? JSON.parse(run.stdout) : errorOf(run).code)
    }
    expect(seen).toEqual([
      { cniVersion: '0.2.0', dns: {} },
      { cniVersion: '0.4.0', dns: {} },
      { cniVersion: '1.0.0' },
      { cniVersion: '1.1.0' },
      1,
      999,
    ])
  })

  const strangers: readonly (readonly [about: string, args: string, more: Readonly<Record<string, unknown>>])[] = [
    ['a pod named like the agent in another namespace', 'K8S_POD_NAMESPACE=apps;K8S_POD_NAME=addressd-node-x', {}],
    ['a pod whose namespace only begins like an excluded one', 'K8S_POD_NAMESPACE=kube-system2;K8S_POD_NAME=x', {}],
    ['a pod with malformed arguments', 'K8S_POD_NAMESPACE=kube-system;K8S_POD_NAME', {}],
    [
      'a pod when the list of exclusions is none',
      'K8S_POD_NAMESPACE=kube-system;K8S_POD_NAME=x',
      { exclude_namespaces: 'kube-system' },
    ],
  ]
  withPlugin('nobody else does', async () => {
    const runs = strangers.map(([, args, more]) => {
      const settings = { pod_namespace: 'istio-system', exclude_namespaces: ['kube-system'], ...more }
      return runPlugin(env('ADD', args), config(settings))
    })
    const codes = (await Promise.all(runs)).map((run, i) => [strangers[i]?.[0], errorOf(run).code])
    expect(codes).toEqual(strangers.map(([about]) => [about, 999]))
  })
})

describe('with an agent that is no good', () => {
  const broken: readonly (readonly [about: string, text: string])[] = [
    ['says nothing and closes', ''],
    ['does not know our path', 'HTTP/1.1 404 Not Found\r\ncontent-length: 19\r\n\r\n404 page not found\n'],
    ['does not say how to exit', 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}'],
    ['says to exit with 7', 'HTTP/1.1 200 OK\r\ncni-exit-code: 7\r\ncontent-length: 2\r\n\r\n{}'],
    ['does not say how long', 'HTTP/1.1 200 OK\r\ncni-exit-code: 0\r\n\r\n{}'],
    ['says it is endless', 'HTTP/1.1 200 OK\r\ncni-exit-code: 0\r\ncontent-length: 99999999999999999999\r\n\r\n{}'],
    ['stops half way', 'HTTP/1.1 200 OK\r\ncni-exit-code: 0\r\ncontent-length: 20\r\n\r\n{"cni'],
    ['speaks another protocol', `\0${'x'.repeat(100_000)}`],
  ]
  for (const [about, text] of broken) {
    withPlugin(`that ${about}: a pod waits, a removal does not`, async () => {
      await answering(text)
      expect(errorOf(await runPlugin(env('ADD'), config())).code).toBe(999)
      expect(await runPlugin(env('DEL'), config())).toMatchObject(success)
    })
  }

  withPlugin('that never answers: a pod waits, the agent itself and removals pass', async () => {
    await agent(() => undefined)
    const own = 'K8S_POD_NAMESPACE=istio-system;K8S_POD_NAME=addressd-node-x'
    const [add, passed, removed] = await Promise.all([
      runPlugin(env('ADD'), config()),
      runPlugin(env('ADD', own), config({ pod_namespace: 'istio-system' })),
      runPlugin(env('DEL'), config()),
    ])
    expect(errorOf(add).msg).toContain('did not answer in time')
    expect(add.tookMs).toBeLessThan(5_500)
    expect(passed).toMatchObject({ exitCode: 0, stdout: previous })
    expect(removed).toMatchObject(success)
  })

  withPlugin('where nobody may connect: the reason is in the message', async () => {
    writeFileSync(join(folder, 'pluginevent.sock'), '')
    chmodSync(join(folder, 'pluginevent.sock'), 0o666)
    expect(errorOf(await runPlugin(env('ADD'), config())).msg).toContain('Connection refused')
  })
})

describe('bad input', () => {
  withPlugin('five megabytes on stdin are refused and do not stop a removal', async () => {
    const big = config({ filler: 'x'.repeat(5 << 20) })
    expect(errorOf(await runPlugin(env('ADD'), big))).toMatchObject({ code: 6 })
    expect(await runPlugin(env('DEL'), big)).toMatchObject(success)
  })

  withPlugin('what is no JSON object is refused, for a removal too', async () => {
    const seen = await Promise.all(
      ['', '{nope', '[]', '{"a":1}x', '{"a":"\\', '{"a":[[}}'].map((stdin) => runPlugin(env('DEL'), stdin)),
    )
    expect(seen.map((run) => errorOf(run).code)).toEqual([6, 6, 6, 6, 6, 6])
  })

  withPlugin('variables beyond reason are refused', async () => {
    const variables = {
      ...env('ADD'),
      CNI_A: 'a'.repeat(100_000),
      CNI_B: 'b'.repeat(100_000),
      CNI_C: 'c'.repeat(100_000),
    }
    expect(errorOf(await runPlugin(variables, config())).code).toBe(4)
  })

  withPlugin('names that break JSON come out as JSON', async () => {
    const args = 'K8S_POD_NAMESPACE="\\\n\u00e9;K8S_POD_NAME=p'
    expect(errorOf(await runPlugin(env('ADD', args), config())).msg).toContain('pod "\\???/p')
  })

  withPlugin('a runtime that reads nothing gets an exit code, not a signal', async () => {
    const end = await new Promise((resolve, reject) => {
      const child = spawn(pluginProgram, [], { env: { CNI_COMMAND: 'VERSION' }, stdio: ['pipe', 'pipe', 'pipe'] })
      child.once('error', reject)
      // Closed before the program can have written.
      child.stdout.destroy()
      child.once('exit', (code, signal) => resolve({ code, signal }))
    })
    expect([
      { code: 1, signal: null },
      { code: 0, signal: null },
    ]).toContainEqual(end)
  })
})
