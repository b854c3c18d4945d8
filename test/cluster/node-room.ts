// SPDX-License-Identifier: Apache-2.0
// The whole node agent on a real API server, with the rights of its chart: pods in real namespaces, a ztunnel that obeys, the plugin as a program. The test
// plays scheduler, kubelet and runtime. Needs root and dist/.

import { writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { systemClock } from '../../src/base/clock.js'
import { parseSettings } from '../../src/base/settings.js'
import type { KubeApi } from '../../src/kube/api.js'
import { nodeSettingsTable, type NodeSettings } from '../../src/main/node-settings-table.js'
import { startNode, type RunningNode } from '../../src/main/node.js'
import { redirectionAnnotation } from '../../src/node-agent/contracts.js'
import { LogBook } from '../reports/log-book.js'
import { runCni, type CniRun } from '../reports/node/cni.js'
import { Host } from '../reports/node/host.js'
import type { ApiServer } from '../support/apiserver.js'
import { FakeNodeZtunnel } from '../support/fake-node-ztunnel.js'
import { nodeName, openAsNode } from './node-account.js'

/** Nothing is decided by this: whoever waits longer waits in vain. */
const patienceMs = 40_000

/** What there is of one pod. */
export interface PodView {
  /** The annotation; `no pod` when the API server has none. */
  readonly mark: string | undefined
  readonly hasRules: boolean
  /** Its namespace is the one that ztunnel holds for it. */
  readonly isServed: boolean
  /** Addresses in the host's set. */
  readonly probed: readonly string[]
}

export class NodeClusterRoom {
  readonly host = new Host()
  readonly log = new LogBook()
  readonly settings: NodeSettings
  readonly ztunnel: FakeNodeZtunnel
  readonly #api: ApiServer
  readonly #kubeconfig: string
  /** Names of pods to the uids that the API server gave them. */
  readonly #uids = new Map<string, string>()
  #node: RunningNode | undefined
  #kube: KubeApi | undefined

  constructor(api: ApiServer, kubeconfig: string) {
    this.#api = api
    this.#kubeconfig = kubeconfig
    const { host } = this
    this.settings = parseSettings({
      table: nodeSettingsTable,
      argv: ['--node-name', nodeName, '--health-addr', '127.0.0.1:0', '--monitoring-port', '0'],
      env: {
        KUBERNETES_SERVICE_HOST: '127.0.0.1',
        ALLOW_SWITCH_TO_HOST_NS: 'true',
        ADDRESSD_HOST_ROOT: '/',
        ADDRESSD_HOST_PROC: host.at('proc'),
        ADDRESSD_TOOL_PATH: host.at('tools'),
        ZTUNNEL_UDS_ADDRESS: host.at('run/ztunnel/ztunnel.sock'),
        CNI_AGENT_RUN_DIR: host.at('run/cni'),
      },
      ownPrefix: 'ADDRESSD_',
    }).settings
    this.ztunnel = new FakeNodeZtunnel({ zds: this.settings.ztunnelSocket })
    const runtime = { cniVersion: '1.0.0', name: 'net', plugins: [{ type: 'bridge' }] }
    writeFileSync(host.at('net.d/10-net.conflist'), JSON.stringify(runtime))
  }

  async start(): Promise<void> {
    this.#kube = await openAsNode(this.#kubeconfig, systemClock)
    const { settings, log } = this
    this.#node = await startNode({ settings, clock: systemClock, log, path: '', api: this.#kube })
    await this.#node.started
  }

  async stop(): Promise<void> {
    await this.#node?.stop()
    this.#kube?.close()
    this.#node = undefined
    this.#kube = undefined
  }

  async close(): Promise<void> {
    this.ztunnel.stop()
    await this.stop()
    this.host.close()
  }

  get node(): RunningNode {
    if (this.#node === undefined) throw new Error('the agent was not started')
    return this.#node
  }

  /** The runtime makes namespaces for pods that the API server has, and processes in them. */
  async lodge(homes: Readonly<Record<string, readonly string[]>>): Promise<void> {
    for (const name of Object.keys(homes)) this.#uids.set(name, (await this.read(name)).metadata.uid)
    const netns = Object.entries(homes).map(([name, addresses]) => [name, { addresses, rules: [] }])
    await this.host.change({ netns: Object.fromEntries(netns) })
    const processes = Object.keys(homes).map((name, i) => ({
      pid: 100 + i,
      netns: name,
      podUid: this.uidOf(name),
      started: 1,
    }))
    await this.host.change({ proc: processes })
  }

  uidOf(name: string): string {
    const uid = this.#uids.get(name)
    if (uid === undefined) throw new Error(`${name} was not lodged`)
    return uid
  }

  /** The pod as the API server has it. */
  async read(name: string): Promise<any> {
    const answer = await this.#api.request('GET', `/api/v1/namespaces/shop/pods/${name}`)
    return answer.status === 200 ? answer.json() : undefined
  }

  async label(name: string, mode: string | null): Promise<void> {
    const patch = { metadata: { labels: { 'istio.io/dataplane-mode': mode } } }
    const merge = { 'content-type': 'application/merge-patch+json' }
    const answer = await this.#api.request('PATCH', `/api/v1/namespaces/shop/pods/${name}`, patch, merge)
    if (answer.status !== 200) throw new Error(`${name}: ${answer.status} ${answer.body.toString()}`)
  }

  /** The runtime starts or takes down the sandbox of a pod. */
  async runtime(command: 'ADD' | 'DEL', name: string, ips: readonly string[]): Promise<CniRun> {
    const sandbox = { netns: name, containerId: `sandbox-of-${name}`, ...(command === 'ADD' ? { ips } : {}) }
    return await runCni(this, { command, pod: `shop/${name}`, uid: this.uidOf(name), ...sandbox })
  }

  async look(name: string): Promise<PodView> {
    const pod = await this.read(name)
    const set = (await this.#node?.parts?.probeSet.list()) ?? new Map<string, string>()
    const uid = this.uidOf(name)
    return {
      mark: pod === undefined ? 'no pod' : pod.metadata.annotations?.[redirectionAnnotation],
      hasRules: this.host.netns(name)?.run(['nft', 'list', 'ruleset']).includes('15006') ?? false,
      isServed: this.host.nameOf(this.ztunnel.holds.get(uid)) === name,
      probed: [...set]
        .filter(([, owner]) => owner === uid)
        .map(([ip]) => ip)
        .sort(),
    }
  }

  /** Waits until that is so, and gives what there is then, or at the end of all patience. */
  async lookUntil(name: string, wanted: PodView): Promise<PodView> {
    const end = performance.now() + patienceMs
    for (;;) {
      const view = await this.look(name)
      if (JSON.stringify(view) === JSON.stringify(wanted) || performance.now() > end) return view
      await sleep(20)
    }
  }
}
