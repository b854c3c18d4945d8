// SPDX-License-Identifier: Apache-2.0
// addressd-node as a person runs it on a node: beside addressd, without rights, twice. Everything runs in a namespace made for it, which is the host here.
// Needs root and dist/; skipped aloud without them.

import { afterEach, beforeEach, describe, expect } from '@jest/globals'
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { request } from 'node:http'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Host } from '../reports/node/host.js'
import { FakeNodeZtunnel } from '../support/fake-node-ztunnel.js'
import { hostParts } from '../support/host-parts.js'
import { findPlugin, runPlugin } from '../support/native-plugin.js'
import { testWith } from '../support/optional.js'
import { until } from '../story/room.js'

const root = fileURLToPath(new URL('../../', import.meta.url))
const missing = hostParts.built ?? hostParts.netns ?? hostParts.nft ?? findPlugin()
const maybe = testWith('root', missing)
const nobody = 65_534
const toNobody = ['--reuid', String(nobody), '--regid', String(nobody), '--clear-groups', '--']
const asNobody = ['setpriv', ...toNobody]

/** Why nobody cannot run our programs here. */
function whyNotNobody(): string | undefined {
  const args = [...toNobody, process.execPath, join(root, 'bin/addressd-node'), '--version']
  const { status, error, stderr } = spawnSync('setpriv', args, { encoding: 'utf8' })
  return status === 0 ? undefined : `nobody cannot run the program here: ${error?.message ?? stderr.split('\n')[0]}`
}
const unprivileged = testWith('setpriv', missing ?? whyNotNobody())

interface Line {
  readonly level: string
  readonly msg: string
  readonly [field: string]: unknown
}

const cleanups: (() => unknown)[] = []
let host: Host
beforeEach(() => {
  if (missing !== undefined) return
  host = new Host()
  chmodSync(host.root, 0o755)
  cleanups.push(() => host.close())
})
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

/** A program of ours inside the namespace that is the host of this test. */
class Run {
  out = ''
  err = ''
  code: number | undefined
  readonly #child: ChildProcess

  constructor(program: string, args: readonly string[], options: { before?: readonly string[]; env?: object } = {}) {
    const { before = [], env = {} } = options
    const command = [...before, process.execPath, join(root, 'bin', program), ...args]
    this.#child = spawn('nsenter', [`--net=${host.netns('host')?.path ?? ''}`, '--', ...command], {
      env: { PATH: process.env['PATH'] ?? '', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.#child.stdout?.on('data', (text: Buffer) => (this.out += text.toString()))
    this.#child.stderr?.on('data', (text: Buffer) => (this.err += text.toString()))
    this.#child.on('exit', (code) => (this.code = code ?? -1))
    cleanups.push(() => this.#child.kill('SIGKILL'))
  }

  get lines(): Line[] {
    const whole = this.out.slice(0, this.out.lastIndexOf('\n') + 1)
    return whole
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Line)
  }

  async says(msg: string): Promise<Line> {
    const find = (): Line | undefined => this.lines.find((line) => line.msg === msg)
    await until(() => find() !== undefined || this.code !== undefined, `"${msg}" in ${this.out} ${this.err}`)
    const found = find()
    if (found === undefined) throw new Error(`it ended with ${this.code} and did not say "${msg}": ${this.err}`)
    return found
  }

  async ended(): Promise<number> {
    await until(() => this.code !== undefined, 'the end of the process')
    return this.code ?? -1
  }

  async stop(signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<{ code: number; err: string }> {
    this.#child.kill(signal)
    return { code: await this.ended(), err: this.err }
  }
}

const at = (path: string): string => host.at(path)

/** The probe set of the host is made beside the pods: a moment later than the first word of readiness. */
const untilReady = (): Promise<void> => until(async () => (await page('/readyz')).status === 200, '/readyz to be 200')

/** The agent of node-a of the samples. */
function runAgent(
  flags: readonly string[] = [],
  env: Record<string, string> = {},
  before?: readonly string[],
  folder = join(root, 'samples'),
): Run {
  const files = ['--files', folder, '--node-name', 'node-a']
  const places = ['--cni-agent-run-dir', at('run/cni'), '--ztunnel-uds-address', at('run/ztunnel/z.sock')]
  const pages = ['--health-addr', '', '--monitoring-port', '0']
  const all = { ADDRESSD_HOST_ROOT: '/', ADDRESSD_HOST_PROC: at('proc'), ...env }
  return new Run('addressd-node', ['run', ...files, ...places, ...pages, ...flags], {
    env: all,
    ...(before === undefined ? {} : { before }),
  })
}

/** A page of the socket for people. */
function page(path: string): Promise<{ status: number | undefined; text: string }> {
  return new Promise((resolve, reject) => {
    const call = request({ socketPath: at('run/cni/node.sock'), path, agent: false }, (response) => {
      let text = ''
      response.on('data', (part: Buffer) => (text += part.toString()))
      response.on('end', () => resolve({ status: response.statusCode, text }))
    })
    call.once('error', reject)
    call.end()
  })
}

/** The runtime starts a sandbox of a pod, in its namespace. */
function add(pod: string, netns: string, ip: string) {
  const [namespace = '', name = ''] = pod.split('/')
  const ips = [{ address: `${ip}/32`, interface: 0 }]
  const stdin = JSON.stringify({
    cniVersion: '1.0.0',
    name: 'net',
    type: 'addressd-cni',
    cni_agent_run_dir: at('run/cni'),
    prevResult: { cniVersion: '1.0.0', interfaces: [{ name: 'eth0', sandbox: netns }], ips },
  })
  const env = {
    CNI_COMMAND: 'ADD',
    CNI_CONTAINERID: `sandbox-of-${name}`,
    CNI_NETNS: netns,
    CNI_IFNAME: 'eth0',
    CNI_PATH: '/opt/cni/bin',
    CNI_ARGS: `K8S_POD_NAMESPACE=${namespace};K8S_POD_NAME=${name}`,
  }
  return runPlugin(env, stdin)
}

describe('addressd-node run', () => {
  maybe('enrols pods of the samples beside addressd, and SIGTERM is exit code 0 and leaves no socket', async () => {
    await host.change({ proc: [], netns: { storefront: { addresses: ['10.20.1.11'], rules: [] } } })
    const listeners = ['--grpcAddr=127.0.0.1:15010', '--secureGRPCAddr=', '--httpAddr=', '--monitoringAddr=']
    const server = new Run('addressd', ['serve', '--files', join(root, 'samples'), ...listeners])
    await server.says('ready')
    const agent = runAgent([], { XDS_ADDRESS: '127.0.0.1:15010', CLUSTER_ID: 'Kubernetes', NETWORK: 'net-1' })
    await agent.says('ready for pods and ztunnels')
    await agent.says('control plane answers')
    const ztunnel = new FakeNodeZtunnel({ zds: at('run/ztunnel/z.sock') })
    cleanups.push(() => ztunnel.stop())
    ztunnel.start()
    await ztunnel.until(({ isReady }) => isReady)
    const pod = 'shop/storefront-6c9f7d5b8-4kxqz'
    const netns = host.netns('storefront')?.path ?? ''
    expect(await add(pod, netns, '10.20.1.11')).toMatchObject({ exitCode: 0, stderr: '' })
    expect([...ztunnel.holds.values()].map((inode) => host.nameOf(inode))).toEqual(['storefront'])
    const asked = spawnSync(
      process.execPath,
      [join(root, 'bin/addressctl'), 'whatis', '--node', '--node-socket', at('run/cni/node.sock'), '10.20.1.11'],
      { encoding: 'utf8' },
    )
    expect([asked.status, asked.stderr, asked.stdout.split('\n')[0]]).toEqual([0, '', `Workload ${pod}`])
    expect(asked.stdout).toMatch(/^ +Protocol: +HBONE$/m)
    await untilReady()
    expect((await page('/metrics')).text).toMatch(/^addressd_node_unconfirmed_pods 0$/m)
    expect(await agent.stop()).toEqual({ code: 0, err: '' })
    expect(agent.lines.at(-1)?.msg).toBe('stopped')
    expect([readdirSync(at('run/cni')), readdirSync(at('run/ztunnel'))]).toEqual([[], []])
    expect(await server.stop()).toEqual({ code: 0, err: '' })
  })

  unprivileged('without rights says what is missing, is not ready, and ends as asked', async () => {
    mkdirSync(at('run/cni'))
    chownSync(at('run/cni'), nobody, nobody)
    await host.change({ proc: [] })
    const agent = runAgent([], {}, asNobody)
    const line = await agent.says('rules cannot be made on this node')
    const why = 'the kernel does not let this process see its rules: the capability NET_ADMIN is missing'
    expect([line.level, line['error']]).toEqual(['error', why])
    expect(await page('/readyz')).toEqual({ status: 503, text: `not ready: rules: ${why}\n` })
    expect(await agent.stop()).toEqual({ code: 0, err: '' })
    expect(readdirSync(at('run/cni'))).toEqual([])
  })

  maybe('a manifest that changes what a pod has on it about rules is followed, with no mark on the pod', async () => {
    await host.change({ proc: [], netns: { storefront: { addresses: ['10.20.1.11'], rules: [] } } })
    const folder = at('manifests')
    cpSync(join(root, 'samples'), folder, { recursive: true })
    const file = join(folder, 'shop/storefront.yaml')
    const sample = readFileSync(file, 'utf8')
    const mark = 'ambient.istio.io/redirection: enabled'
    writeFileSync(file, sample.replace(mark, 'example.org/nothing: here'))
    const agent = runAgent([], {}, undefined, folder)
    await agent.says('ready for pods and ztunnels')
    const ztunnel = new FakeNodeZtunnel({ zds: at('run/ztunnel/z.sock') })
    cleanups.push(() => ztunnel.stop())
    ztunnel.start()
    await ztunnel.until(({ isReady }) => isReady)
    const netns = host.netns('storefront')
    const answer = await add('shop/storefront-6c9f7d5b8-4kxqz', netns?.path ?? '', '10.20.1.11')
    expect(answer).toMatchObject({ exitCode: 0, stderr: '' })
    const rules = (): string => netns?.run(['nft', 'list', 'ruleset']) ?? ''
    for (const port of ['9090', '9100']) {
      writeFileSync(file, sample.replace(mark, `addressd.io/exclude-inbound-ports: "${port}"`))
      await until(() => rules().includes(port), `rules with ${port} in ${rules()} ${agent.out}`)
    }
    expect(await agent.stop()).toEqual({ code: 0, err: '' })
  })

  unprivileged('without the right to its folder ends with one sentence that names setting and folder', async () => {
    const agent = runAgent([], {}, asNobody)
    expect(await agent.ended()).toBe(1)
    expect(agent.err).toBe(
      `addressd-node: --cni-agent-run-dir=${at('run/cni')}/node.sock: cannot listen there: EACCES: permission denied, mkdir '${at('run/cni')}'\n`,
    )
  })

  maybe('without a look at process 1 says so and takes its own namespace; told not to, it ends', async () => {
    const proc = { ADDRESSD_HOST_PROC: at('no-proc') }
    const agent = runAgent([], proc)
    const line = await agent.says('process 1 cannot be looked at; the namespace of this agent is taken for the host')
    expect([line.level, line['procRoot']]).toEqual(['warn', at('no-proc')])
    expect(await agent.stop()).toEqual({ code: 0, err: '' })
    const other = runAgent([], { ...proc, ALLOW_SWITCH_TO_HOST_NS: 'true' })
    expect(await other.ended()).toBe(1)
    expect(other.err).toMatch(
      /^addressd-node: the network namespace of the host's process 1 cannot be opened at \S+\/no-proc\/1\/ns\/net \(.+\); the agent needs the host's \/proc and the capability SYS_PTRACE\n$/,
    )
  })

  maybe('with a folder that is not there ends with one sentence, and leaves no socket', async () => {
    await host.change({ proc: [] })
    const agent = runAgent([], {}, undefined, at('nowhere'))
    expect(await agent.ended()).toBe(1)
    expect(agent.err).toMatch(/^addressd-node: .*\/nowhere.*\n$/)
    expect(readdirSync(at('run/cni'))).toEqual([])
  })

  maybe('started twice with the same pages ends at once and leaves the first as it is', async () => {
    await host.change({ proc: [] })
    const health = ['--health-addr', '127.0.0.1:8000']
    const first = runAgent(health)
    await first.says('ready for pods and ztunnels')
    const elsewhere = ['--cni-agent-run-dir', at('run/other'), '--ztunnel-uds-address', at('run/other/z.sock')]
    const second = runAgent([...health, ...elsewhere])
    expect(await second.ended()).toBe(1)
    expect(second.err).toBe(
      'addressd-node: --health-addr=127.0.0.1:8000: this address is in use by another process; stop it or choose another one\n',
    )
    await untilReady()
    expect(await first.stop()).toEqual({ code: 0, err: '' })
  })

  maybe(
    'started twice on the same sockets ends at once, and takes none from the first until that is gone',
    async () => {
      await host.change({ proc: [] })
      const first = runAgent()
      await first.says('ready for pods and ztunnels')
      const expectRefused = async (flags: readonly string[], path: string): Promise<void> => {
        const second = runAgent(flags)
        expect(await second.ended()).toBe(1)
        expect(second.err).toBe(
          `addressd-node: another process listens at ${path}; stop the other agent of this node first\n`,
        )
      }
      await expectRefused([], at('run/cni/node.sock'))
      await expectRefused(['--cni-agent-run-dir', at('run/other')], at('run/ztunnel/z.sock'))
      expect(existsSync(at('run/other'))).toBe(false)
      await untilReady()
      await first.stop('SIGKILL')
      const left = ['log.sock', 'node.sock', 'pluginevent.sock']
      expect([readdirSync(at('run/cni')).sort(), existsSync(at('run/ztunnel/z.sock'))]).toEqual([left, true])
      const third = runAgent()
      await third.says('ready for pods and ztunnels')
      await untilReady()
      expect(await third.stop()).toEqual({ code: 0, err: '' })
      expect([readdirSync(at('run/cni')), readdirSync(at('run/ztunnel'))]).toEqual([[], []])
    },
  )

  maybe('that loses its sockets says which, is not ready, and takes no other process its own away', async () => {
    await host.change({ proc: [] })
    const agent = runAgent(['--health-addr', '127.0.0.1:8000'])
    await agent.says('ready for pods and ztunnels')
    const other = createServer()
    cleanups.push(() => other.close())
    await new Promise<void>((resolve) => other.listen({ path: at('run/other.sock') }, resolve))
    renameSync(at('run/other.sock'), at('run/cni/pluginevent.sock'))
    rmSync(at('run/ztunnel/z.sock'))
    const troubles = [
      `another process has taken ${at('run/cni/pluginevent.sock')}`,
      `the socket ${at('run/ztunnel/z.sock')} is gone`,
    ]
    const lost = (): Line[] => agent.lines.filter(({ msg }) => msg.startsWith('a socket is lost: '))
    await until(() => lost().length === 2, 'the agent to say what it lost')
    const said = lost().map(({ level, trouble }) => `${level}: ${String(trouble)}`)
    expect(said.sort()).toEqual(troubles.map((trouble) => `error: ${trouble}`))
    const ask = "fetch('http://127.0.0.1:8000/readyz').then(async (r) => console.log(r.status, await r.text()))"
    const answer = host.netns('host')?.run([process.execPath, '-e', ask])
    expect(answer).toMatch(/^503 not ready: /)
    for (const trouble of troubles) expect(answer).toContain(trouble)
    expect(await agent.stop()).toEqual({ code: 0, err: '' })
    expect(readdirSync(at('run/cni'))).toEqual(['pluginevent.sock'])
  })

  maybe('with no control plane to ask tells who asks which setting is missing', async () => {
    await host.change({ proc: [] })
    const agent = runAgent()
    await agent.says('ready for pods and ztunnels')
    const socket = ['--node-socket', at('run/cni/node.sock')]
    const ctl = [join(root, 'bin/addressctl'), 'whatis', '--node', ...socket, '10.20.1.11']
    const { status, stdout, stderr } = spawnSync(process.execPath, ctl, { encoding: 'utf8' })
    const sentence = 'this agent asks no control plane: set XDS_ADDRESS'
    expect([status, stdout, stderr]).toEqual([3, '', `addressctl: the node does not know: ${sentence}\n`])
    expect(await agent.stop()).toEqual({ code: 0, err: '' })
  })

  maybe('with a file in place of a folder of manifests says so', async () => {
    await host.change({ proc: [] })
    const file = join(root, 'package.json')
    const agent = runAgent([], {}, undefined, file)
    expect(await agent.ended()).toBe(1)
    expect(agent.err).toBe(`addressd-node: cannot read the folder of manifests ${file}: ${file} is no folder\n`)
  })
})
