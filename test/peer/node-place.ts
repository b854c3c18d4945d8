// SPDX-License-Identifier: Apache-2.0
// A node with our agent on it, in this process and over real sockets: pods in real namespaces, a fake API server, a made-up /proc that shows the pods and the
// real processes of this test, the plugin as a runtime runs it. ztunnels are started beside it by the test.

import { spawn, type ChildProcess } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { systemClock } from '../../src/base/clock.js'
import { parseSettings } from '../../src/base/settings.js'
import { HttpKubeApi } from '../../src/kube/http-api.js'
import { nodeSettingsTable } from '../../src/main/node-settings-table.js'
import { startNode, type RunningNode } from '../../src/main/node.js'
import { LogBook } from '../reports/log-book.js'
import { FakeApiServer } from '../support/fake-apiserver.js'
import { hostParts } from '../support/host-parts.js'
import { findPlugin, pluginProgram, runPlugin, type PluginRun } from '../support/native-plugin.js'
import type { TestNetns } from '../support/test-netns.js'
import { addressOf, TrafficRoom } from '../support/traffic-room.js'
import { localNode } from './local-ztunnel.js'
import { MadeUpProc } from './made-up-proc.js'
import { until } from './ztunnel.js'

const agentProgram = fileURLToPath(new URL('../../bin/addressd-node', import.meta.url))
const ambientLabel = 'istio.io/dataplane-mode'
const agentFlags = ['--node-name', localNode, '--health-addr', '127.0.0.1:0', '--monitoring-port', '0']
export const inMesh = { [ambientLabel]: 'ambient' } as const

/** Why this machine has no such node; undefined when it has. */
export function whyNoNode(): string | undefined {
  return hostParts.netns ?? hostParts.nft ?? hostParts.built ?? findPlugin()
}

export interface PlacedPod {
  readonly name: string
  readonly uid: string
  readonly netns: TestNetns
  readonly ips: readonly string[]
  readonly serviceAccount?: string
  readonly namespace?: string
}

export class NodePlace {
  readonly api = new FakeApiServer()
  readonly log = new LogBook()
  readonly room: TrafficRoom
  readonly podA: PlacedPod
  readonly podB: PlacedPod
  readonly #root = fs.mkdtempSync(path.join(os.tmpdir(), 'adp-'))
  readonly #proc: MadeUpProc
  readonly #env: Readonly<Record<string, string>>
  #node: RunningNode | undefined
  #program: ChildProcess | undefined
  readonly #killProgram = (): void => void this.#program?.kill('SIGKILL')

  private constructor(room: TrafficRoom, env: Readonly<Record<string, string>>) {
    this.room = room
    this.#env = env
    fs.mkdirSync(path.join(this.#root, 'run'))
    this.#proc = new MadeUpProc(path.join(this.#root, 'proc'), room.netns.node)
    const toPod = (place: 'podA' | 'podB', name: string): PlacedPod => ({
      name,
      uid: randomUUID(),
      netns: room.netns[place],
      ips: [addressOf(place), addressOf(place, 6)],
    })
    this.podA = toPod('podA', 'pod-a')
    this.podB = toPod('podB', 'pod-b')
  }

  /** Without an agent. `env`: settings of the agent over those of the place. */
  static async open(env: Readonly<Record<string, string>> = {}): Promise<NodePlace> {
    const place = new NodePlace(await TrafficRoom.open('peer'), env)
    await place.api.start()
    place.api.upsert({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'default', uid: 'uid-of-default' } })
    return place
  }

  get zds(): string {
    return path.join(this.#root, 'run/ztunnel.sock')
  }

  get node(): RunningNode {
    if (this.#node === undefined) throw new Error('the agent is not running')
    return this.#node
  }

  /** Lets the agent see a real process of this machine. */
  showProcess(pid: number): void {
    this.#proc.show(pid)
  }

  /** A pod without a way to the others. */
  addPod(name: string, ip: string): PlacedPod {
    return { name, uid: randomUUID(), netns: this.room.addApart(name, ip), ips: [ip] }
  }

  /** A client of the API server of this place. */
  createApi(): HttpKubeApi {
    const credentials = { read: () => Promise.resolve({ headers: {}, tls: {} }), refused: () => undefined }
    return new HttpKubeApi(this.api.url, credentials, systemClock)
  }

  /** `env`: settings over those of the place. */
  async startAgent(env: Readonly<Record<string, string>> = {}): Promise<void> {
    this.#proc.showAgent(process.pid)
    const { settings } = parseSettings({
      table: nodeSettingsTable,
      argv: agentFlags,
      env: { KUBERNETES_SERVICE_HOST: '127.0.0.1', ...this.#settings(), ...env },
      ownPrefix: 'ADDRESSD_',
    })
    this.#node = await startNode({
      settings,
      clock: systemClock,
      log: this.log,
      path: process.env['PATH'] ?? '',
      api: this.createApi(),
    })
    await this.#node.started
  }

  /** The same as a program of its own; resolves when it is ready for pods. */
  async startAgentProgram(): Promise<void> {
    const cluster = { name: 'c', cluster: { server: this.api.url } }
    const context = { name: 'c', context: { cluster: 'c', user: 'c' } }
    const kubeconfig = { clusters: [cluster], contexts: [context], users: [{ name: 'c', user: {} }] }
    const file = path.join(this.#root, 'kubeconfig')
    fs.writeFileSync(file, JSON.stringify({ apiVersion: 'v1', kind: 'Config', ...kubeconfig, 'current-context': 'c' }))
    const program = spawn(process.execPath, [agentProgram, 'run', '--kubeconfig', file, ...agentFlags], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { PATH: process.env['PATH'], ...this.#settings() },
    })
    this.#program = program
    process.once('exit', this.#killProgram)
    this.#proc.showAgent(program.pid ?? 0)
    await new Promise<void>((resolve, reject) => {
      const lines = createInterface({ input: program.stdout })
      lines.on('line', (line) => {
        if (line.includes('ready for pods and ztunnels')) resolve()
      })
      lines.on('close', () => reject(new Error('the agent ended before it was ready')))
    })
  }

  /** Gives it no time for anything. Idempotent. */
  async killAgentProgram(): Promise<void> {
    process.removeListener('exit', this.#killProgram)
    const program = this.#program
    this.#program = undefined
    if (program === undefined || program.exitCode !== null || program.signalCode !== null) return
    program.kill('SIGKILL')
    await once(program, 'exit')
  }

  /** Pods stay as they are. */
  async stopAgent(): Promise<void> {
    const node = this.#node
    this.#node = undefined
    await node?.stop()
  }

  /** The pod is there; with `isRunning` it has an address by now and a process in its namespace. */
  putPod(pod: PlacedPod, labels: Readonly<Record<string, string>>, isRunning = true): void {
    const { name, uid, ips, serviceAccount = 'default', namespace = 'default' } = pod
    if (isRunning) this.#runProcess(pod)
    this.api.upsert({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, namespace, uid, labels: { app: name, ...labels } },
      spec: { nodeName: localNode, serviceAccountName: serviceAccount, containers: [{ name: 'app' }] },
      status: isRunning
        ? {
            phase: 'Running',
            podIP: ips[0],
            podIPs: ips.map((ip) => ({ ip })),
            conditions: [{ type: 'Ready', status: 'True' }],
          }
        : { phase: 'Pending' },
    })
  }

  /** Kubelet says where it runs. */
  confirmRunning(pod: PlacedPod): void {
    this.#runProcess(pod)
    const { name, namespace = 'default', ips } = pod
    this.api.patch({
      kind: 'Pod',
      namespace,
      name,
      merge: {
        status: {
          phase: 'Running',
          podIP: ips[0],
          podIPs: ips.map((ip) => ({ ip })),
          conditions: [{ type: 'Ready', status: 'True' }],
        },
      },
    })
  }

  /** null takes a label away. */
  label({ name, namespace = 'default' }: PlacedPod, labels: Readonly<Record<string, string | null>>): void {
    this.api.patch({ kind: 'Pod', namespace, name, merge: { metadata: { labels } } })
  }

  deletePod({ name, namespace = 'default' }: PlacedPod): void {
    this.api.remove({ kind: 'Pod', namespace, name })
  }

  annotationOf({ name, namespace = 'default' }: PlacedPod): string | undefined {
    const pod = this.api.get('Pod', namespace, name) as
      { readonly metadata: { readonly annotations?: Readonly<Record<string, string>> } } | undefined
    return pod?.metadata.annotations?.['ambient.istio.io/redirection']
  }

  /** What a container runtime does when it makes the pod's network, or takes it down. */
  async runPlugin(command: 'ADD' | 'DEL', pod: PlacedPod): Promise<PluginRun> {
    const { name, uid, netns, ips, namespace = 'default' } = pod
    const prevResult = {
      cniVersion: '1.0.0',
      interfaces: [{ name: 'eth0', sandbox: netns.path }],
      ips: ips.map((ip) => ({ address: `${ip}/${ip.includes(':') ? 64 : 24}`, interface: 0 })),
    }
    const config = {
      cniVersion: '1.0.0',
      name: 'k8s-pod-network',
      type: 'addressd-cni',
      cni_agent_run_dir: path.join(this.#root, 'run'),
      exclude_namespaces: ['kube-system'],
      pod_namespace: 'istio-system',
      prevResult,
    }
    const container = `container-of-${name}`
    const args = {
      IgnoreUnknown: '1',
      K8S_POD_NAMESPACE: namespace,
      K8S_POD_NAME: name,
      K8S_POD_INFRA_CONTAINER_ID: container,
      K8S_POD_UID: uid,
    }
    return await runPlugin(
      {
        CNI_COMMAND: command,
        CNI_CONTAINERID: container,
        CNI_NETNS: netns.path,
        CNI_IFNAME: 'eth0',
        CNI_PATH: path.dirname(pluginProgram),
        CNI_ARGS: Object.entries(args)
          .map(([key, value]) => `${key}=${value}`)
          .join(';'),
      },
      JSON.stringify(config),
    )
  }

  /** Resolves when the agent has marked the pod, or taken its mark away. */
  async untilMarked(pod: PlacedPod, mark: string | undefined): Promise<void> {
    await until(
      () => Promise.resolve(this.annotationOf(pod) === mark),
      () => `${pod.name} to be marked ${String(mark)}; the agent's last words:\n${this.lastWords()}`,
    )
  }

  lastWords(): string {
    return this.log.records
      .slice(-15)
      .map(
        ({ level, message, fields }) =>
          `${level} ${message} ${JSON.stringify(fields, (_, v: unknown) => (typeof v === 'bigint' ? String(v) : v))}`,
      )
      .join('\n')
  }

  async close(): Promise<void> {
    await this.stopAgent()
    await this.killAgentProgram()
    await this.api.stop()
    this.room.close()
    fs.rmSync(this.#root, { recursive: true, force: true })
  }

  #settings(): Readonly<Record<string, string>> {
    return {
      ALLOW_SWITCH_TO_HOST_NS: 'true',
      ADDRESSD_HOST_ROOT: '/',
      ADDRESSD_HOST_PROC: this.#proc.root,
      ZTUNNEL_UDS_ADDRESS: this.zds,
      CNI_AGENT_RUN_DIR: path.join(this.#root, 'run'),
      ...this.#env,
    }
  }

  #runProcess({ uid, netns }: PlacedPod): void {
    this.#proc.addPodProcess(uid, netns)
  }
}
