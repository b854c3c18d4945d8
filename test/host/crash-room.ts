// SPDX-License-Identifier: Apache-2.0
// A made-up node whose agent and ztunnels are real processes that can be killed: namespaces, /proc and tools of a test, a fake API server, pods that join
// and leave by label or come by the plugin. Says in which pods the truth differs from what labels say.

import fs from 'node:fs'
import net from 'node:net'
import { Host } from '../reports/node/host.js'
import { FakeApiServer } from '../support/fake-apiserver.js'
import { runPlugin } from '../support/native-plugin.js'
import { listenInside } from '../support/netns-listeners.js'
import type { TestNetns } from '../support/test-netns.js'
import { ToolGates } from './crash-gates.js'
import { AgentProgram, ZtunnelProgram } from './crash-programs.js'
import { readOpenNamespaces, readPodKernel, readProbeSet, untilSo } from './crash-view.js'

export type CrashBackend = 'netlink' | 'iptables-nft'

export interface CrashPod {
  readonly name: string
  readonly uid: string
  readonly ips: readonly string[]
  readonly netns: TestNetns
  readonly inode: string
  /** What labels say. */
  isWanted: boolean
}

const namespace = 'apps'
const label = 'istio.io/dataplane-mode'
const redirection = 'ambient.istio.io/redirection'
const apiPort = 6443
/** Above every number that the kernel gives. */
const firstPid = 5_000_000

export class CrashRoom {
  readonly api = new FakeApiServer()
  readonly host = new Host()
  readonly gates: ToolGates
  readonly pods = new Map<string, CrashPod>()
  readonly ztunnels = new Map<string, ZtunnelProgram>()
  agent!: AgentProgram
  readonly #backend: CrashBackend
  #relay: net.Server | undefined
  #number = 0
  /** What the kernel shows of a pod in the mesh, and of one outside. */
  #inside: readonly string[] = []
  #outside: readonly string[] = []

  private constructor(backend: CrashBackend) {
    this.#backend = backend
    const calls = [{ tool: 'iptables-nft-restore' }, { tool: 'ip6tables-nft-restore' }]
    this.gates = new ToolGates(this.host.root, this.host.at('tools'), [...calls, { tool: 'ipset', first: 'restore' }])
  }

  /** With an agent that is ready, a ztunnel called `first`, and one pod that shows what enrolled means. */
  static async open(backend: CrashBackend): Promise<CrashRoom> {
    const room = new CrashRoom(backend)
    try {
      await room.#open()
      return room
    } catch (error) {
      await room.close()
      throw error
    }
  }

  async #open(): Promise<void> {
    await this.host.change({ proc: [] })
    await this.api.start()
    this.api.upsert({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } })
    this.#relay = this.#openRelay()
    const cluster = { name: 'c', cluster: { server: `http://127.0.0.1:${apiPort}` } }
    const context = { name: 'c', context: { cluster: 'c', user: 'c' } }
    const kubeconfig = { clusters: [cluster], contexts: [context], users: [{ name: 'c', user: {} }] }
    const text = JSON.stringify({ apiVersion: 'v1', kind: 'Config', ...kubeconfig, 'current-context': 'c' })
    fs.writeFileSync(this.host.at('kubeconfig'), text)
    await this.startZtunnel('first')
    await this.startAgent()
    const pod = await this.addPod('model', true)
    this.#outside = readPodKernel((await this.addPod('bystander', false)).netns)
    await untilSo(
      'the first pod is enrolled',
      () => this.annotationOf(pod) === 'enabled',
      () => this.agent.lastLines(),
    )
    this.#inside = readPodKernel(pod.netns)
    await this.settled()
  }

  async close(): Promise<void> {
    for (const program of [this.agent as AgentProgram | undefined, ...this.ztunnels.values()])
      if (program?.hasEnded === false) await program.kill('SIGKILL')
    this.#relay?.close()
    await this.api.stop()
    this.host.close()
  }

  /** The API server as the node's own namespace sees it. */
  #openRelay(): net.Server {
    const netns = fs.openSync(this.hostNetns.path, 'r')
    const [fd = -1] = listenInside(netns, [apiPort])
    fs.closeSync(netns)
    const server = net.createServer((socket) => {
      const { port } = new URL(this.api.url)
      const onward = net.connect(Number(port), '127.0.0.1')
      for (const [one, other] of [
        [socket, onward],
        [onward, socket],
      ] as const) {
        one.on('error', () => other.destroy())
        one.on('close', () => other.destroy())
        one.pipe(other)
      }
    })
    return server.listen({ fd })
  }

  get hostNetns(): TestNetns {
    const netns = this.host.netns('host')
    if (netns === undefined) throw new Error('there is no host')
    return netns
  }

  get zds(): string {
    return this.host.at('run/zds.sock')
  }

  /** Resolves when it is ready. */
  async startAgent(): Promise<void> {
    const flags = ['--kubeconfig', this.host.at('kubeconfig'), '--node-name', 'node-1']
    const places = ['--cni-agent-run-dir', this.host.at('run'), '--ztunnel-uds-address', this.zds]
    const pages = ['--health-addr', '127.0.0.1:0', '--monitoring-port', '0', '--log_output_level', 'default:info']
    const isNetlink = this.#backend === 'netlink'
    this.agent = new AgentProgram(this.hostNetns.path, [...flags, ...places, ...pages], {
      PATH: process.env['PATH'],
      ADDRESSD_HOST_ROOT: '/',
      ADDRESSD_HOST_PROC: this.host.at('proc'),
      ADDRESSD_TOOL_PATH: this.host.at('tools'),
      ALLOW_SWITCH_TO_HOST_NS: 'true',
      NATIVE_NFTABLES: String(isNetlink),
      ...(isNetlink ? {} : { FORCE_IPTABLES_BINARY: 'nft' }),
    })
    this.#showProcess(this.agent.pid, 'self')
    await this.agent.ready()
  }

  /** Resolves when it runs; it may not be connected yet. `answers` as the program takes them. */
  async startZtunnel(name: string, answers = ''): Promise<ZtunnelProgram> {
    const ztunnel = new ZtunnelProgram(this.zds, answers)
    this.ztunnels.set(name, ztunnel)
    this.#showProcess(ztunnel.pid)
    ztunnel.say('state')
    await untilSo('ztunnel runs', () => ztunnel.isRunning)
    return ztunnel
  }

  async killZtunnel(name: string): Promise<void> {
    await this.ztunnel(name).kill('SIGKILL')
    this.ztunnels.delete(name)
  }

  ztunnel(name: string): ZtunnelProgram {
    const found = this.ztunnels.get(name)
    if (found === undefined) throw new Error(`there is no ztunnel ${name}`)
    return found
  }

  /** The made-up /proc shows a real process, too: who talks to the agent is looked up there. */
  #showProcess(pid: number, alias?: string): void {
    fs.symlinkSync(`/proc/${pid}`, this.host.at(`proc/${pid}`))
    if (alias === undefined) return
    fs.rmSync(this.host.at(`proc/${alias}`), { force: true })
    fs.symlinkSync(String(pid), this.host.at(`proc/${alias}`))
  }

  /** A pod that runs. */
  async addPod(name: string, isWanted: boolean): Promise<CrashPod> {
    const pod = await this.makeSandbox(name, isWanted)
    this.announce(pod)
    return pod
  }

  /** Namespace and addresses of a pod that nobody has heard of. */
  async makeSandbox(name: string, isWanted: boolean, uid?: string): Promise<CrashPod> {
    const number = ++this.#number
    const ips = [`10.9.${number >> 8}.${number & 255}`, `fd00:9::${number.toString(16)}`]
    const label = `${name}-${number}`
    await this.host.change({ netns: { [label]: { addresses: ips, rules: [] } } })
    const netns = this.host.netns(label)
    if (netns === undefined) throw new Error(`no namespace ${label}`)
    const inode = String(fs.statSync(netns.path).ino)
    return { name, uid: uid ?? toUid(number), ips, netns, inode, isWanted }
  }

  /** Known to the API server; with its addresses and a process when it runs. */
  announce(pod: CrashPod, isRunning = true): void {
    this.pods.set(pod.uid, pod)
    const { name, uid, isWanted, ips } = pod
    const labels = isWanted ? { [label]: 'ambient' } : {}
    const spec = { nodeName: 'node-1', serviceAccountName: 'web', containers: [{ name: 'app', image: 'app' }] }
    const status = isRunning
      ? { phase: 'Running', podIP: ips[0], podIPs: ips.map((ip) => ({ ip })) }
      : { phase: 'Pending' }
    const before = this.api.get('Pod', namespace, name) as { metadata?: { annotations?: object } } | undefined
    const annotations = before?.metadata?.annotations ?? {}
    if (isRunning) {
      const pid = firstPid + Number(pod.netns.name.split('-')[2])
      this.host.addProcess({ pid, netns: this.#nameOf(pod), podUid: uid, started: pid })
    }
    const metadata = { namespace, name, uid, labels, annotations }
    this.api.upsert({ apiVersion: 'v1', kind: 'Pod', metadata, spec, status })
  }

  #nameOf(pod: CrashPod): string {
    return this.host.names().find((name) => this.host.netns(name) === pod.netns) ?? ''
  }

  /** Changes the label. */
  want(pod: CrashPod, isWanted: boolean): void {
    pod.isWanted = isWanted
    const merge = { metadata: { labels: { [label]: isWanted ? 'ambient' : null } } }
    this.api.patch({ kind: 'Pod', namespace, name: pod.name, merge })
  }

  /** Object and namespace are gone. */
  async removePod(pod: CrashPod): Promise<void> {
    this.pods.delete(pod.uid)
    this.api.remove({ kind: 'Pod', namespace, name: pod.name })
    await this.removeSandbox(pod)
  }

  async removeSandbox(pod: CrashPod): Promise<void> {
    await this.host.change({ netns: { [this.#nameOf(pod)]: null } })
  }

  /** As a runtime does it, last in the chain. Resolves to the exit code. */
  async runCni(command: 'ADD' | 'DEL', pod: CrashPod): Promise<number | null> {
    const ips = pod.ips.map((ip) => ({ address: `${ip}/${ip.includes(':') ? 128 : 32}`, interface: 0 }))
    const prevResult = { cniVersion: '1.0.0', interfaces: [{ name: 'eth0', sandbox: pod.netns.path }], ips }
    const config = { cni_agent_run_dir: this.host.at('run'), exclude_namespaces: [], pod_namespace: 'istio-system' }
    const entry = { type: 'addressd-cni', cniVersion: '1.0.0', name: 'net', ...config, prevResult }
    const args = { K8S_POD_NAMESPACE: namespace, K8S_POD_NAME: pod.name, K8S_POD_UID: pod.uid }
    const env = {
      CNI_COMMAND: command,
      CNI_CONTAINERID: `c-${pod.inode}`,
      CNI_NETNS: pod.netns.path,
      CNI_IFNAME: 'eth0',
      CNI_PATH: this.host.at('bin'),
      CNI_ARGS: ['IgnoreUnknown=1', ...Object.entries(args).map(([key, value]) => `${key}=${value}`)].join(';'),
    }
    return (await runPlugin(env, JSON.stringify(entry))).exitCode
  }

  annotationOf(pod: CrashPod): string | undefined {
    const stored = this.api.get('Pod', namespace, pod.name) as
      { metadata: { annotations?: Record<string, string> } } | undefined
    return stored?.metadata.annotations?.[redirection]
  }

  /** Where the truth differs from what labels say, as sentences; the kernel is asked of these pods, of none when all else differs already. */
  differences(pods: Iterable<CrashPod> = this.pods.values()): readonly string[] {
    const out: string[] = []
    const same = (what: string, got: readonly string[], wanted: readonly string[]): void => {
      if (got.join('\n') === wanted.join('\n')) return
      const [spare, missing] = [got.filter((one) => !wanted.includes(one)), wanted.filter((one) => !got.includes(one))]
      out.push(`${what}: not wanted ${JSON.stringify(spare)}, missing ${JSON.stringify(missing)}`)
    }
    const wanted = [...this.pods.values()].filter(({ isWanted }) => isWanted)
    for (const [name, { state }] of this.ztunnels)
      same(`${name} holds`, sorted(Object.entries(state.holds)), sorted(wanted.map(({ uid, inode }) => [uid, inode])))
    for (const pod of this.pods.values())
      same(`annotation of ${pod.name}`, [this.annotationOf(pod) ?? ''], [pod.isWanted ? 'enabled' : ''])
    if (out.length > 0) return out
    const addresses = wanted.flatMap(({ ips, uid }) => ips.map((ip) => [ip, uid] as const))
    same('the probe set', sorted(readProbeSet(this.hostNetns)), sorted(addresses))
    for (const { name, netns, isWanted } of pods)
      same(`kernel of ${name}`, readPodKernel(netns), isWanted ? this.#inside : this.#outside)
    return out
  }

  /** Namespaces of pods that the agent has open though they are not in the mesh, or not open, or open more than once. */
  descriptorDifferences(): readonly string[] {
    const open = readOpenNamespaces(this.agent.pid)
    const hosts = new Set([String(fs.statSync(this.hostNetns.path).ino)])
    const wanted = new Set([...this.pods.values()].filter(({ isWanted }) => isWanted).map(({ inode }) => inode))
    const strangers = [...open].filter(([inode]) => !wanted.has(inode) && !hosts.has(inode))
    const missing = [...wanted].filter((inode) => open.get(inode) !== 1)
    return [
      ...strangers.map(([inode, times]) => `open ${times} times, but of no pod in the mesh: ${inode}`),
      ...missing.map((inode) => `open ${open.get(inode) ?? 0} times, not once: ${inode}`),
    ]
  }

  /** Resolves when everything is as labels say. */
  async settled(pods?: Iterable<CrashPod>): Promise<void> {
    let last: readonly string[] = []
    const isSo = (): boolean => {
      last = this.differences(pods)
      if (last.length === 0) last = this.descriptorDifferences()
      return last.length === 0
    }
    await untilSo('all is as labels say', isSo, () => `${last.join('\n')}\n${this.agent.lastLines()}`)
  }
}

function sorted(entries: Iterable<readonly [string, string]>): readonly string[] {
  return [...entries].map(([key, value]) => `${key} ${value}`).sort()
}

function toUid(number: number): string {
  return `00000000-0000-4000-8000-${number.toString(16).padStart(12, '0')}`
}
