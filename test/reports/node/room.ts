// SPDX-License-Identifier: Apache-2.0
// The room a report about the node agent plays in: the machine, a fake API server, the real agent in this process, fake ztunnels, one clock that runs as
// time does and can be pushed forward. Knows when everything is quiet.

import fs from 'node:fs'
import { setTimeout as realSleep } from 'node:timers/promises'
import { parseSettings } from '../../../src/base/settings.js'
import { HttpKubeApi } from '../../../src/kube/http-api.js'
import { Kernel } from '../../../src/main/node-data-plane.js'
import { toHostPlaces } from '../../../src/main/node-places.js'
import { nodeSettingsTable, type NodeSettings } from '../../../src/main/node-settings-table.js'
import { startNode, type RunningNode } from '../../../src/main/node.js'
import type { PodRuleOptions, PodRules, ProbeSet } from '../../../src/node-agent/contracts.js'
import { openNetnsFile } from '../../../src/node-agent/netns/handle.js'
import { FakeApiServer } from '../../support/fake-apiserver.js'
import { FakeNodeZtunnel, type Answer } from '../../support/fake-node-ztunnel.js'
import { JumpClock } from '../../support/jump-clock.js'
import { countOpenNamespaces } from '../../support/open-namespaces.js'
import type { Report } from '../cases.js'
import { LogBook } from '../log-book.js'
import { runCni, type CniAction, type CniRun } from './cni.js'
import { Host, toHostChange, type HostChange, type HostState } from './host.js'

export interface RoomZtunnel {
  readonly fake: FakeNodeZtunnel
  /** Records before the step. */
  seen: number
}

export class NodeRoom {
  readonly clock = new JumpClock()
  readonly api = new FakeApiServer({ clock: this.clock })
  readonly log = new LogBook()
  readonly host = new Host()
  /** In the order in which they connected. */
  readonly ztunnels = new Map<string, RoomZtunnel>()
  node: RunningNode | undefined
  runs: CniRun[] = []
  readonly settings: NodeSettings
  /** uid to the namespace that the runtime or /proc says it lives in. */
  readonly homes = new Map<string, string>()
  readonly #kernel: Kernel
  #plane: { readonly rules: PodRules; readonly probeSet: ProbeSet } | undefined

  private constructor(report: Report) {
    const { host } = this
    const state = (report as Report & { host: HostState }).host
    this.settings = parseSettings({
      table: nodeSettingsTable,
      argv: ['--node-name', state.node, '--health-addr', '127.0.0.1:0', '--monitoring-port', '0'],
      env: {
        KUBERNETES_SERVICE_HOST: '127.0.0.1',
        ALLOW_SWITCH_TO_HOST_NS: 'true',
        ADDRESSD_HOST_ROOT: '/',
        ADDRESSD_HOST_PROC: host.at('proc'),
        ADDRESSD_TOOL_PATH: host.at('tools'),
        ZTUNNEL_UDS_ADDRESS: host.at('run/ztunnel/ztunnel.sock'),
        CNI_AGENT_RUN_DIR: host.at('run/cni'),
        ...report.settings,
      },
      ownPrefix: 'ADDRESSD_',
    }).settings
    this.#kernel = this.#createKernel()
  }

  static async open(report: Report): Promise<NodeRoom> {
    const room = new NodeRoom(report)
    try {
      await room.api.start()
      room.host.applyOurs = (path) => room.#applyOurs(path)
      const { probeSet, ...state } = (report as Report & { host: HostState }).host
      await room.changeHost({ proc: [], ...state })
      for (const [ip, uid] of Object.entries(probeSet ?? {})) {
        const plane = await room.plane()
        await plane.probeSet.ensure()
        await plane.probeSet.put(ip, uid)
      }
      return room
    } catch (error) {
      await room.close()
      throw error
    }
  }

  async close(): Promise<void> {
    for (const { fake } of this.ztunnels.values()) fake.stop()
    await this.node?.stop()
    await this.#kernel.close()
    await this.api.stop()
    this.host.close()
  }

  async changeHost(value: unknown): Promise<void> {
    const change: HostChange = toHostChange(value)
    await this.host.change(change)
    for (const { podUid, netns } of change.proc ?? []) if (netns !== 'host') this.homes.set(podUid, netns)
  }

  async startAgent(): Promise<void> {
    const credentials = { read: () => Promise.resolve({ headers: {}, tls: {} }), refused: () => undefined }
    const api = new HttpKubeApi(this.api.url, credentials, this.clock)
    const { settings, clock, log } = this
    this.node = await startNode({ settings, clock, log, path: '', api, random: () => 0.5 })
    await this.quiet()
  }

  async stopAgent(): Promise<void> {
    const { node } = this
    this.node = undefined
    await node?.stop()
  }

  async runCni(action: CniAction): Promise<void> {
    const run = await runCni(this, action)
    this.runs.push(run)
    const { uid, netns, command } = action
    if (command === 'ADD' && run.exit === 0 && uid !== undefined) this.homes.set(uid, netns)
  }

  connectZtunnel(name: string, answers: Readonly<Record<string, Answer>>): void {
    const zds = this.settings.ztunnelSocket
    const fake = new FakeNodeZtunnel({ zds, answers, clock: this.clock, reconnect: false })
    this.ztunnels.delete(name)
    this.ztunnels.set(name, { fake, seen: 0 })
    fake.start()
  }

  /** The one that connected last and still is. */
  get newest(): FakeNodeZtunnel | undefined {
    return [...this.ztunnels.values()].map(({ fake }) => fake).findLast((fake) => fake.isConnected)
  }

  /** The product's own hands on rules and probe set, apart from the agent's. */
  async plane(): Promise<{ readonly rules: PodRules; readonly probeSet: ProbeSet }> {
    this.#plane ??= await this.#kernel.openDataPlane()
    return this.#plane
  }

  /** Options of a pod without annotations of its own. */
  get ruleOptions(): PodRuleOptions {
    const { ipv6, dnsCapture, probeAddress4, probeAddress6 } = this.settings
    return {
      ...{ ipv6, dnsCapture, probeAddress4, probeAddress6 },
      ...{ bypassInbound: false, virtualInterfaces: [], excludedInboundPorts: [], excludedOutboundCidrs: [] },
    }
  }

  /** Descriptors of namespaces that the agent has open. */
  openNamespaces(): number {
    let count = countOpenNamespaces()
    for (const { fake } of this.ztunnels.values()) count -= fake.holds.size + fake.pending.length
    return count
  }

  /** Waits until nothing moves any more. Time passes as it does; nothing is pushed forward. */
  async quiet(): Promise<void> {
    const end = performance.now() + 60_000
    for (let still = 0, before = ''; still < 3;) {
      if (performance.now() > end) throw new Error('nothing came to rest within a minute')
      await this.api.waitForTaken()
      await realSleep(10)
      const now = this.#mark()
      still = now === before && (this.node?.work().underWay ?? 0) === 0 ? still + 1 : 0
      before = now
    }
  }

  #mark(): string {
    let records = 0
    for (const { fake } of this.ztunnels.values()) records += fake.records.length + (fake.isConnected ? 1_000_000 : 0)
    const { activity = 0 } = this.node?.work() ?? {}
    return `${this.api.activity} ${activity} ${records} ${this.log.records.length}`
  }

  /** Pushes the clock forward in small steps, letting everything catch up after each. */
  async advance(ms: number): Promise<void> {
    const stepMs = Math.max(250, ms / 40)
    for (let left = ms; left > 0; left -= stepMs) {
      this.clock.jump(Math.min(left, stepMs))
      await this.quiet()
    }
  }

  /** Everything due within a second runs. */
  async settle(): Promise<void> {
    await this.quiet()
    await this.advance(1_000)
  }

  async #applyOurs(path: string): Promise<void> {
    const { rules } = await this.plane()
    const netns = openNetnsFile(path)
    try {
      await rules.apply(netns, this.ruleOptions)
    } finally {
      netns.close()
    }
  }

  #createKernel(): Kernel {
    const { settings, host } = this
    // Only to have hands of its own: what the agent sees is written when the machine is laid out.
    fs.mkdirSync(host.at('proc/1/ns'), { recursive: true })
    fs.symlinkSync(host.netns('host')?.path ?? '', host.at('proc/1/ns/net'))
    return new Kernel({ settings, places: toHostPlaces(settings), path: '', log: new LogBook() })
  }
}
