// SPDX-License-Identifier: Apache-2.0
// A node with an agent on it, made of fakes: objects go in as rows, time moves by hand, and everything that comes out can be looked at.

import { Registry } from 'prom-client'
import type { Fields, Logger } from '../../src/base/log.js'
import { createGraph } from '../../src/collection/graph.js'
import { createInputs } from '../../src/kube/inputs.js'
import { clusterKey, objectKey, type Labels, type PodRecord } from '../../src/kube/records.js'
import type { NodeAgent, NodeAgentSettings } from '../../src/node-agent/agent-parts.js'
import { redirectionAnnotation } from '../../src/node-agent/contracts.js'
import { parseEnablementSelectors } from '../../src/node-agent/eligibility.js'
import { createNodeAgent } from '../../src/node-agent/node-agent.js'
import { FakeClock, tick } from './fake-clock.js'
import { FakeAnnotator, FakeHost, FakePodRules, FakeProbeSet, FakeZtunnels } from './node-fakes.js'

export const chartSelectors = `
- podSelector: {matchLabels: {istio.io/dataplane-mode: ambient}}
- podSelector: {matchExpressions: [{key: istio.io/dataplane-mode, operator: NotIn, values: [none]}]}
  namespaceSelector: {matchLabels: {istio.io/dataplane-mode: ambient}}
`
export const ambient: Labels = { 'istio.io/dataplane-mode': 'ambient' }

export const testSettings: NodeAgentSettings = {
  cluster: 'c',
  node: 'node-1',
  systemNamespace: 'istio-system',
  revision: '',
  selectors: parseEnablementSelectors(chartSelectors),
  excludedNamespaces: new Set(),
  ipv6: true,
  dnsCapture: true,
  probeAddress4: '169.254.7.127',
  probeAddress6: 'fd16:9254:7127:1337:ffff:ffff:ffff:ffff',
}

export interface PodShape {
  readonly namespace?: string
  readonly uid?: string
  readonly labels?: Labels
  readonly annotations?: Labels
  readonly ips?: readonly string[]
  readonly phase?: string
  readonly hostNetwork?: boolean
  readonly node?: string
  readonly deleting?: boolean
}

/** A running pod of the node; its uid is `uid-` and its name. */
export function makePod(name: string, shape: PodShape = {}): PodRecord {
  return {
    cluster: 'c',
    namespace: shape.namespace ?? 'shop',
    name,
    uid: shape.uid ?? `uid-${name}`,
    labels: shape.labels,
    annotations: shape.annotations,
    created: 0,
    deleting: shape.deleting ?? false,
    generated: false,
    owner: undefined,
    node: shape.node ?? 'node-1',
    serviceAccount: 'sa',
    hostNetwork: shape.hostNetwork ?? false,
    ports: [],
    phase: shape.phase ?? 'Running',
    ips: shape.ips ?? [],
    ready: true,
  }
}

export interface LogLine {
  readonly level: string
  readonly fields: Fields
  readonly message: string
}

export class NodeRoom {
  readonly clock = new FakeClock()
  readonly host = new FakeHost()
  readonly rules = new FakePodRules(this.host)
  readonly probeSet = new FakeProbeSet(this.host)
  readonly registry: Registry
  readonly graph = createGraph({
    onFailure: ({ collection, error }) =>
      this.logged.push({ level: 'error', fields: { collection, error: String(error) }, message: 'a transform failed' }),
  })
  readonly inputs = createInputs(this.graph)
  readonly logged: LogLine[] = []
  /** What the listener was told. */
  readonly told: string[] = []
  readonly annotator: FakeAnnotator
  /** False: patches are taken and never show. */
  isWrittenBack = true
  readonly ztunnels: FakeZtunnels
  readonly agent: NodeAgent
  #controller = new AbortController()

  /** `before`: what an agent before this one left on the host. Annotations are written to the rows at once and committed with the next settling. */
  constructor(settings: Partial<NodeAgentSettings> = {}, before?: NodeRoom) {
    if (before !== undefined) {
      this.clock = before.clock
      this.host = before.host
      this.rules = before.rules
      this.probeSet = before.probeSet
    }
    this.registry = new Registry()
    this.annotator = new FakeAnnotator(this.host, (pod, value) => {
      const key = objectKey('c', pod.namespace, pod.name)
      const row = this.inputs.Pod.get(key)
      if (row?.uid !== pod.uid) return false
      if (!this.isWrittenBack) return true
      const { [redirectionAnnotation]: _, ...rest } = row.annotations ?? {}
      const annotations = value === undefined ? rest : { ...rest, [redirectionAnnotation]: value }
      this.inputs.Pod.set(key, { ...row, annotations: Object.keys(annotations).length === 0 ? undefined : annotations })
      return true
    })
    this.ztunnels = new FakeZtunnels(this.host, this.clock, () => this.agent.selectZdsPods())
    this.agent = createNodeAgent({
      graph: this.graph,
      inputs: this.inputs,
      rules: this.rules,
      probeSet: this.probeSet,
      ztunnels: this.ztunnels,
      finder: this.host,
      annotator: this.annotator,
      settings: { ...testSettings, ...settings },
      clock: this.clock,
      log: this.#logger(),
      registry: this.registry,
      random: () => 0.5,
      listener: {
        onEnrolled: ({ uid }) => void this.told.push(`${uid} enrolled`),
        onReleased: (uid) => void this.told.push(`${uid} released`),
      },
    })
    if (before !== undefined) {
      for (const kind of ['Namespace', 'Pod', 'ConfigMap'] as const) {
        for (const key of before.inputs[kind].keys()) this.inputs[kind].set(key, before.inputs[kind].get(key) as never)
      }
    }
  }

  namespace(name: string, labels?: Labels): this {
    this.inputs.Namespace.set(clusterKey('c', name), { cluster: 'c', name, labels, annotations: undefined })
    return this
  }

  /** Sets the pod's row. With `netns`, a process of it runs there; the namespace is made when it is new. */
  pod(pod: PodRecord, netns?: string): this {
    this.inputs.Pod.set(objectKey('c', pod.namespace, pod.name), pod)
    if (netns !== undefined) {
      if (!this.host.netnsNames().includes(netns)) this.host.addNetns(netns)
      this.host.setProcess(pod.uid, netns)
    }
    return this
  }

  /** Changes some fields of a pod's row. */
  change(name: string, fields: Partial<PodRecord>, namespace = 'shop'): this {
    const key = objectKey('c', namespace, name)
    const row = this.inputs.Pod.get(key)
    if (row === undefined) throw new Error(`there is no pod ${name}`)
    this.inputs.Pod.set(key, { ...row, ...fields })
    return this
  }

  deletePod(name: string, namespace = 'shop'): this {
    this.inputs.Pod.delete(objectKey('c', namespace, name))
    return this
  }

  mesh(text: string): this {
    const record = { cluster: 'c', namespace: 'istio-system', name: 'istio', mesh: text }
    this.inputs.ConfigMap.set(objectKey('c', 'istio-system', 'istio'), record)
    return this
  }

  async start(): Promise<this> {
    this.graph.commit()
    await this.agent.start(this.#controller.signal)
    await this.settle()
    return this
  }

  /** Commits and lets everything run that waits for no time. */
  async settle(): Promise<void> {
    for (let quiet = 0; quiet < 2; quiet++) {
      if (this.graph.commit()) quiet = 0
      for (let i = 0; i < 4; i++) await tick()
    }
  }

  async advance(ms: number): Promise<void> {
    await this.settle()
    await this.clock.advance(ms, () => this.settle())
    await this.settle()
  }

  /** As if the plugin asked; its five seconds pass with the clock. */
  add(
    name: string,
    netns: string,
    ips: readonly string[],
    signal = new AbortController().signal,
    containerId = `c-${netns}`,
  ): Promise<void> {
    const verdict = this.agent.decisions.lookUp({ namespace: 'shop', name, uid: undefined })
    if (verdict.kind !== 'eligible') return Promise.reject(new Error(verdict.reason))
    return this.agent.decisions.enroll(verdict.pod, { ips, netnsPath: netns, containerId, signal })
  }

  /** Stops the agent and waits for its end. */
  async stop(): Promise<void> {
    this.#controller.abort(new Error('stopped'))
    await this.settle()
    await this.agent.ended
    this.ztunnels.closeAll()
  }

  annotation(name: string, namespace = 'shop'): string | undefined {
    return this.inputs.Pod.get(objectKey('c', namespace, name))?.annotations?.[redirectionAnnotation]
  }

  /** Everything that can be seen of one pod: where our rules are, what ztunnel holds, its addresses in the set, its annotation. */
  view(name: string, netns: string, namespace = 'shop'): object {
    const uid = this.inputs.Pod.get(objectKey('c', namespace, name))?.uid ?? `uid-${name}`
    const at = this.host.netnsNames().includes(netns) ? this.host.netns(netns).rules : undefined
    return {
      rules: at === undefined ? 'none' : at === 'old' ? 'old' : 'ours',
      ztunnel: this.ztunnels.holds()[uid] ?? 'nothing',
      probes: [...this.probeSet.entries].filter(([, owner]) => owner === uid).map(([ip]) => ip),
      annotation: this.annotation(name, namespace) ?? 'none',
    }
  }

  lines(level: string): readonly LogLine[] {
    return this.logged.filter((line) => line.level === level)
  }

  #logger(): Logger {
    const to = (level: string) => (fields: Fields, message: string) => void this.logged.push({ level, fields, message })
    const logger: Logger = {
      debug: to('debug'),
      info: to('info'),
      warn: to('warn'),
      error: to('error'),
      child: () => logger,
    }
    return logger
  }
}

/** What view() shows of a pod that is all in, or all out. */
export function inMesh(netns: string, ...probes: readonly string[]): object {
  return { rules: 'ours', ztunnel: netns, probes, annotation: 'enabled' }
}

export const outOfMesh = { rules: 'none', ztunnel: 'nothing', probes: [], annotation: 'none' }
