// SPDX-License-Identifier: Apache-2.0
// A room for stories about a node: addressd and addressd-node on one folder of manifests, a ztunnel that obeys, pods in namespaces of their own.
// The test plays the runtime, and the API server that would write annotations down. Needs root and dist/.

import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../src/base/clock.js'
import { parseSettings } from '../../src/base/settings.js'
import { runCtl } from '../../src/ctl/ctl.js'
import { nodeSettingsTable } from '../../src/main/node-settings-table.js'
import { startNode, type RunningNode } from '../../src/main/node.js'
import { startServer, type RunningServer } from '../../src/main/serve.js'
import { settingsTable } from '../../src/main/settings-table.js'
import { LogBook } from '../reports/log-book.js'
import { runCni, type CniRun } from '../reports/node/cni.js'
import { Host } from '../reports/node/host.js'
import { FakeNodeZtunnel } from '../support/fake-node-ztunnel.js'
import { JumpClock } from '../support/jump-clock.js'
import { countOpenNamespaces } from '../support/open-namespaces.js'

/** One pod of the story. */
export interface StoryPod {
  readonly name: string
  readonly ips: readonly string[]
  readonly node: string
  /** As the runtime has it before it told the API server. */
  readonly isStarting?: boolean
  readonly isAnnotated?: boolean
  readonly isReady?: boolean
  readonly mode?: 'none'
}

export const uidOf = (name: string): string => {
  const hex = Buffer.from(name).toString('hex').padEnd(12, '0').slice(-12)
  return `5d1f6a3e-9a41-4d0c-8f0e-${hex}`
}

const list = (items: readonly string[]): string => `[${items.join(', ')}]`

function formatPod({ name, ips, node, isStarting, isAnnotated, isReady = true, mode }: StoryPod): string {
  const addresses = isStarting === true ? [] : ips
  const labels = ['app: web', ...(mode === undefined ? [] : [`istio.io/dataplane-mode: ${mode}`])]
  return `apiVersion: v1
kind: Pod
metadata:
  name: ${name}
  namespace: shop
  uid: ${uidOf(name)}
  labels: { ${labels.join(', ')} }
  annotations: { ${isAnnotated === true ? 'ambient.istio.io/redirection: enabled' : ''} }
spec: { nodeName: ${node}, serviceAccountName: web, containers: [] }
status:
  phase: ${isStarting === true ? 'Pending' : 'Running'}
  ${addresses[0] === undefined ? '' : `podIP: ${addresses[0]}`}
  podIPs: ${list(addresses.map((ip) => `{ ip: '${ip}' }`))}
  conditions: [{ type: Ready, status: '${isReady && isStarting !== true ? 'True' : 'False'}' }]
`
}

const mesh = `apiVersion: v1
kind: Namespace
metadata: { name: istio-system }
---
apiVersion: v1
kind: Namespace
metadata: { name: shop, labels: { istio.io/dataplane-mode: ambient } }
---
apiVersion: v1
kind: Service
metadata: { name: web, namespace: shop }
spec: { clusterIP: 10.96.0.10, clusterIPs: [10.96.0.10], selector: { app: web }, ports: [{ port: 80, targetPort: 8080 }] }
`

/** What a person sees of one question. */
export interface Asked {
  readonly code: number
  readonly out: string
  readonly err: string
}

export class NodeStory {
  readonly clock = new JumpClock()
  readonly host = new Host()
  readonly nodeLog = new LogBook()
  readonly serverLog = new LogBook()
  readonly folder = mkdtempSync(join(tmpdir(), 'addressd-story-'))
  readonly settings
  ztunnel: FakeNodeZtunnel
  #pods = new Map<string, StoryPod>()
  #plane: RunningServer | undefined
  #node: RunningNode | undefined
  #port = 0

  constructor() {
    this.write('mesh.yaml', mesh)
    const { host } = this
    this.settings = this.#parse(0)
    this.ztunnel = new FakeNodeZtunnel({ zds: this.settings.ztunnelSocket })
    // The runtime's own configuration, which the plugin is put into.
    writeFileSync(
      host.at('net.d/10-net.conflist'),
      JSON.stringify({ cniVersion: '1.0.0', name: 'net', plugins: [{ type: 'bridge' }] }),
    )
  }

  async close(): Promise<void> {
    this.ztunnel.stop()
    await this.#node?.stop()
    await this.#plane?.stop()
    this.host.close()
    rmSync(this.folder, { recursive: true, force: true })
  }

  get node(): RunningNode {
    if (this.#node === undefined) throw new Error('the agent was not started')
    return this.#node
  }

  /** Writes or rewrites manifests of pods, in one file each. */
  tell(...pods: readonly StoryPod[]): void {
    for (const pod of pods) {
      this.#pods.set(pod.name, pod)
      this.write(`${pod.name}.yaml`, formatPod(pod))
    }
  }

  /** Changes some fields of a pod's manifest. */
  change(name: string, fields: Partial<StoryPod>): void {
    const pod = this.#pods.get(name)
    if (pod === undefined) throw new Error(`there is no pod ${name}`)
    this.tell({ ...pod, ...fields })
  }

  untell(name: string): void {
    this.#pods.delete(name)
    rmSync(join(this.folder, `${name}.yaml`))
  }

  /** Puts a file into the folder at once, as `mv` does. */
  write(name: string, content: string): void {
    const draft = join(this.folder, '.draft')
    writeFileSync(draft, content)
    renameSync(draft, join(this.folder, name))
  }

  /** On the port that it had before, if it had one. */
  async startPlane(): Promise<void> {
    const listeners = ['--secureGRPCAddr=', '--httpAddr=', '--monitoringAddr=', `--grpcAddr=127.0.0.1:${this.#port}`]
    const { settings } = parseSettings({
      table: settingsTable,
      argv: ['--files', this.folder, ...listeners],
      env: {},
      ownPrefix: 'ADDRESSD_',
    })
    this.#plane = await startServer({ settings, clock: systemClock, log: this.serverLog })
    await this.#plane.started
    this.#port = this.#plane.bound.grpc?.port ?? 0
  }

  async killPlane(): Promise<void> {
    await this.#plane?.stop()
    this.#plane = undefined
  }

  async startNode(): Promise<void> {
    const { clock, nodeLog: log } = this
    this.#node = await startNode({ settings: this.#parse(this.#port), clock, log, path: '', random: () => 0.5 })
    await this.#node.started
  }

  async stopNode(): Promise<void> {
    await this.node.stop()
    this.#node = undefined
  }

  /** The runtime starts or takes down the sandbox of a pod. */
  async runtime(command: 'ADD' | 'DEL', pod: StoryPod): Promise<CniRun> {
    const { name, ips } = pod
    const sandbox = { netns: name, containerId: `sandbox-of-${name}`, ...(command === 'ADD' ? { ips } : {}) }
    return await runCni(this, { command, pod: `shop/${name}`, uid: uidOf(name), ...sandbox })
  }

  /** `addressctl whatis --node`; nobody listens where addressd would be asked. */
  async whatis(question: string): Promise<Asked> {
    const seen = { out: '', err: '' }
    const socket = join(this.settings.runFolder, 'node.sock')
    const code = await runCtl(['whatis', '--node', question], {
      stdout: (text) => (seen.out += text),
      stderr: (text) => (seen.err += text),
      env: { ADDRESSD_NODE_SOCKET: socket, ADDRESSD_SERVER: '127.0.0.1:1' },
    })
    return { code, ...seen }
  }

  /** Values of one metric of the agent by the text of its labels. */
  async metric(name: string): Promise<Readonly<Record<string, number>>> {
    const metric = await this.node.registry.getSingleMetric(name)?.get()
    const values = metric?.values ?? []
    return Object.fromEntries(values.map(({ labels, value }) => [Object.values(labels).join(' '), value]))
  }

  /** Names of pods to what a namespace's number says: where ztunnel serves them. */
  served(): Readonly<Record<string, string | undefined>> {
    const names = new Map([...this.#pods.keys()].map((name) => [uidOf(name), name]))
    return Object.fromEntries(
      [...this.ztunnel.holds].map(([uid, inode]) => [names.get(uid) ?? uid, this.host.nameOf(inode)]).sort(),
    )
  }

  /** Addresses in the host's set to names of pods. */
  async probed(): Promise<Readonly<Record<string, string>>> {
    const names = new Map([...this.#pods.keys()].map((name) => [uidOf(name), name]))
    const set = (await this.node.parts?.probeSet.list()) ?? new Map<string, string>()
    return Object.fromEntries([...set].map(([ip, uid]) => [ip, names.get(uid) ?? uid]).sort())
  }

  hasRules(name: string): boolean {
    return this.host.netns(name)?.run(['nft', 'list', 'ruleset']).includes('15006') ?? false
  }

  /** Descriptors of namespaces that the agent has open. */
  openNamespaces(): number {
    return countOpenNamespaces() - this.ztunnel.holds.size
  }

  #parse(port: number) {
    const { host } = this
    return parseSettings({
      table: nodeSettingsTable,
      argv: ['--files', this.folder, '--node-name', 'node-1', '--health-addr', '', '--monitoring-port', '0'],
      env: {
        ALLOW_SWITCH_TO_HOST_NS: 'true',
        ADDRESSD_HOST_ROOT: '/',
        ADDRESSD_HOST_PROC: host.at('proc'),
        ADDRESSD_TOOL_PATH: host.at('tools'),
        ZTUNNEL_UDS_ADDRESS: host.at('run/ztunnel/ztunnel.sock'),
        CNI_AGENT_RUN_DIR: host.at('run/cni'),
        XDS_ADDRESS: `http://127.0.0.1:${port === 0 ? 1 : port}`,
      },
      ownPrefix: 'ADDRESSD_',
    }).settings
  }
}
