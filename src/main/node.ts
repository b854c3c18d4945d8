// SPDX-License-Identifier: Apache-2.0
// Puts the parts of the node agent together and starts them in order: pages, backend, sockets, pods, ztunnels. Also usable inside a test: time, log, API
// server and every path come from outside. Reads neither the environment nor the command line.

import { setMaxListeners } from 'node:events'
import { Registry } from 'prom-client'
import { sleep, type Clock } from '../base/clock.js'
import { createDebounce } from '../base/debounce.js'
import { Fatal, InvalidInput, formatError } from '../base/errors.js'
import type { BoundAddress } from '../base/listen.js'
import type { Logger } from '../base/log.js'
import { whenAborted } from '../base/shutdown.js'
import { createGraph } from '../collection/graph.js'
import type { KubeApi } from '../kube/api.js'
import { createInputs } from '../kube/inputs.js'
import type { Addresses } from '../node-agent/addresses.js'
import type { NodeAgent, NodeAgentParts, NodeAgentSettings } from '../node-agent/agent-parts.js'
import type { CniServer } from '../node-agent/cni-decisions.js'
import { createCniServer } from '../node-agent/cni-server.js'
import { createNodeAgent } from '../node-agent/node-agent.js'
import { createPodAnnotator, noAnnotator } from '../node-agent/pod-annotation.js'
import { createProcesses } from '../node-agent/zds/processes.js'
import { createZdsServer, type ZdsServer } from '../node-agent/zds/server.js'
import { createFeed, type ChosenFeed } from './feeds.js'
import { createNodeAddresses, noControlPlaneRoutes, toEnrolmentListener } from './node-addresses.js'
import { Kernel, type DataPlane } from './node-data-plane.js'
import { NodePages } from './node-pages.js'
import { toAgentSettings, toHostPlaces, type HostPlaces } from './node-places.js'
import { SocketWatch, refuseTakenSockets } from './node-sockets.js'
import type { NodeSettings } from './node-settings-table.js'

export interface NodeOptions {
  readonly settings: NodeSettings
  readonly clock: Clock
  readonly log: Logger
  /** Folders of programs, when the settings name none. */
  readonly path: string
  /** Default: one of its own. */
  readonly registry?: Registry
  /** Read from this API server, whatever the settings say. */
  readonly api?: KubeApi
  /** 0 up to 1; default Math.random. */
  readonly random?: () => number
}

export interface RunningNode {
  readonly bound: { readonly health: BoundAddress | undefined; readonly monitoring: BoundAddress | undefined }
  /** What /readyz says. */
  ready(): boolean
  /** Resolves when pods can be enrolled and ztunnels are let in; rejects with Fatal when that will never be. */
  readonly started: Promise<void>
  /** Resolves after stop(); rejects with Fatal when the agent cannot go on (it has stopped by then). */
  readonly ended: Promise<void>
  /** Lets go of sockets, descriptors and threads; enrolled pods stay so. Idempotent. */
  stop(): Promise<void>
  /** Work in hand, for tests that wait for rest. */
  work(): NodeWork
  readonly registry: Registry
  /** Undefined until the backend is there. */
  readonly parts: NodeParts | undefined
}

export interface NodeWork {
  /** Jobs that are done inside namespaces just now. */
  readonly underWay: number
  /** Counts such jobs since the start. */
  readonly activity: number
}

export interface NodeParts extends DataPlane {
  readonly agent: NodeAgent
  readonly zds: ZdsServer
  readonly cni: CniServer
}

/** Between two tries to get at a backend for rules. */
const backendRetryMs = 2_000
/** Changes of the inputs wait this long for more. */
const quietMs = 5
const restlessMs = 100

/** Resolves once the pages answer and the reading has begun. Rejects with Fatal or InvalidInput when something cannot be had at all. */
export async function startNode(options: NodeOptions): Promise<RunningNode> {
  const node = new NodeProgram(options)
  try {
    await node.open()
  } catch (error) {
    await node.stop()
    throw error
  }
  node.run()
  return node
}

class NodeProgram implements RunningNode {
  readonly registry: Registry
  readonly started: Promise<void>
  readonly ended: Promise<void>
  readonly #options: NodeOptions
  readonly #places: HostPlaces
  readonly #agentSettings: NodeAgentSettings
  readonly #pages: NodePages
  readonly #addresses: Addresses | undefined
  readonly #sockets: SocketWatch
  readonly #stopping = new AbortController()
  #kernel: Kernel | undefined
  #feed: ChosenFeed | undefined
  #tables: Pick<NodeAgentParts, 'graph' | 'inputs'> | undefined
  #parts: NodeParts | undefined
  #bound: RunningNode['bound'] = { health: undefined, monitoring: undefined }
  /** What is waited for before the agent itself can say it. */
  #waitingFor = 'the host'
  #work: Promise<unknown>[] = []
  #stopped: Promise<void> | undefined
  #settleStarted: { resolve: () => void; reject: (error: Error) => void } | undefined
  #settleEnded: { resolve: () => void; reject: (error: Error) => void } | undefined

  constructor(options: NodeOptions) {
    this.#options = options
    this.registry = options.registry ?? new Registry()
    this.#places = toHostPlaces(options.settings)
    this.#agentSettings = toAgentSettings(options.settings)
    setMaxListeners(0, this.#stopping.signal)
    this.started = new Promise((resolve, reject) => (this.#settleStarted = { resolve, reject }))
    this.ended = new Promise((resolve, reject) => (this.#settleEnded = { resolve, reject }))
    // Whoever does not ask how it went has not asked for a crash either.
    this.started.catch(() => undefined)
    this.ended.catch(() => undefined)
    this.#addresses = createNodeAddresses(options, this.registry)
    const { settings, log } = options
    this.#sockets = new SocketWatch(options.clock, log)
    this.#pages = new NodePages({
      settings,
      registry: this.registry,
      log,
      pending: () => this.#pending(),
      pods: () => this.#parts?.agent.describe() ?? [],
      addressRoutes: this.#addresses?.routes ?? noControlPlaneRoutes,
      socketPath: this.#places.nodeSocket,
    })
  }

  get bound(): RunningNode['bound'] {
    return this.#bound
  }

  get parts(): NodeParts | undefined {
    return this.#parts
  }

  ready(): boolean {
    return this.#pending().length === 0
  }

  work(): NodeWork {
    return this.#kernel?.work ?? { underWay: 0, activity: 0 }
  }

  async open(): Promise<void> {
    const { settings, log, path } = this.#options
    const { nodeSocket, pluginSocket } = this.#places
    await refuseTakenSockets([nodeSocket, pluginSocket, settings.ztunnelSocket])
    this.#bound = await this.#pages.open()
    this.#kernel = new Kernel({ settings, places: this.#places, path, log })
    const { clock, api } = this.#options
    const graph = createGraph({
      onFailure: ({ collection, key, error }) =>
        log.warn({ table: collection, key, error: formatError(error) }, 'a row could not be derived'),
    })
    const inputs = createInputs(graph)
    const { registry } = this
    const only = { kinds: ['Namespace', 'Pod', 'ConfigMap'], node: settings.nodeName } as const
    this.#feed = await createFeed({ settings, inputs, clock, log, registry, api, only })
    this.#tables = { graph, inputs }
  }

  run(): void {
    const { signal } = this.#stopping
    const watch = (work: Promise<unknown>): void => {
      this.#work.push(work.catch((error: unknown) => this.#fail(error)))
    }
    watch(this.#feed?.feed.run(signal) ?? Promise.resolve())
    if (this.#addresses !== undefined) watch(this.#addresses.run(signal))
    watch(this.#startAgent())
  }

  async #startAgent(): Promise<void> {
    const { settings, clock, log, random = Math.random } = this.#options
    const { signal } = this.#stopping
    const kernel = this.#kernel
    const feed = this.#feed
    const tables = this.#tables
    if (kernel === undefined || feed === undefined || tables === undefined) return
    const plane = await this.#openDataPlane(kernel)
    if (plane === undefined) return
    const { registry } = this
    const { graph, inputs } = tables
    const annotator = feed.api === undefined ? noAnnotator : createPodAnnotator(feed.api, clock)
    const zds: ZdsServer = createZdsServer({
      path: settings.ztunnelSocket,
      select: () => agent.selectZdsPods(),
      processes: createProcesses(this.#places.procRoot),
      clock,
      log: log.child({ scope: 'zds' }),
      registry,
    })
    const agent: NodeAgent = createNodeAgent({
      graph,
      inputs,
      rules: plane.rules,
      probeSet: plane.probeSet,
      ztunnels: zds,
      finder: kernel.finder,
      annotator,
      settings: this.#agentSettings,
      clock,
      log: log.child({ scope: 'enrol' }),
      registry,
      random,
      listener: this.#addresses && toEnrolmentListener(this.#addresses),
    })
    const cni = createCniServer({
      socketPath: this.#places.pluginSocket,
      logSocketPath: this.#places.logSocket,
      decisions: agent.decisions,
      excludeNamespaces: this.#agentSettings.excludedNamespaces,
      podNamespace: settings.podNamespace,
      agentPodPrefixes: [`${settings.daemonSet}-`],
      clock,
      log: log.child({ scope: 'cni' }),
      registry,
    })
    this.#parts = { ...plane, agent, zds, cni }
    const { pluginSocket, nodeSocket } = this.#places
    // The backend may have been long in coming.
    await refuseTakenSockets([pluginSocket, settings.ztunnelSocket])
    zds.listen()
    await cni.listen()
    if (!this.#isStopping()) this.#sockets.start([settings.ztunnelSocket, pluginSocket, nodeSocket])
    this.#waitingFor = 'the API server'
    await Promise.race([feed.feed.synced, whenAborted(signal)])
    if (this.#isStopping()) return
    const debounce = createDebounce({ clock, quietMs, maxMs: restlessMs, run: () => void graph.commit() })
    signal.addEventListener('abort', () => debounce.stop(), { once: true })
    graph.commit()
    graph.onDirty(() => debounce.touch())
    this.#waitingFor = ''
    await agent.start(signal)
    if (this.#isStopping()) return
    zds.open()
    log.info({ node: settings.nodeName, backend: plane.rules.backend, ...this.#bound }, 'ready for pods and ztunnels')
    this.#settleStarted?.resolve()
    await agent.ended
  }

  /** Tries until there is one: what is missing now, a module or a program, may come. */
  async #openDataPlane(kernel: Kernel): Promise<DataPlane | undefined> {
    const { clock, log } = this.#options
    const { signal } = this.#stopping
    let last = ''
    for (;;) {
      try {
        const plane = await kernel.openDataPlane()
        return this.#isStopping() ? undefined : plane
      } catch (error) {
        if (this.#isStopping()) return undefined
        if (!(error instanceof Fatal || error instanceof InvalidInput)) throw error
        this.#waitingFor = `rules: ${error.message}`
        if (error.message !== last) log.error({ error: error.message }, 'rules cannot be made on this node')
        last = error.message
      }
      await sleep(clock, backendRetryMs, signal).catch(() => undefined) // aborted: the loop sees it
      if (this.#isStopping()) return undefined
    }
  }

  #isStopping(): boolean {
    return this.#stopping.signal.aborted
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stop().then(() => this.#settleEnded?.resolve())
    return this.#stopped
  }

  async #stop(): Promise<void> {
    this.#settleStarted?.reject(new Fatal('stopped before it was ready'))
    this.#stopping.abort(new Error('the agent stops'))
    this.#sockets.stop()
    await this.#parts?.cni.close()
    this.#parts?.zds.close()
    await Promise.all([...this.#work, this.#pages.close()])
    this.#feed?.close()
    await this.#kernel?.close()
  }

  #fail(error: unknown): void {
    if (this.#stopping.signal.aborted) return
    const fatal = error instanceof Fatal ? error : new Fatal(`unexpected failure: ${formatError(error)}`, error)
    this.#settleStarted?.reject(fatal)
    this.#stopped ??= this.#stop().then(() => this.#settleEnded?.reject(fatal))
  }

  #pending(): readonly string[] {
    if (this.#stopping.signal.aborted) return ['stopping']
    if (this.#waitingFor !== '') return [this.#waitingFor]
    return [...(this.#parts?.agent.pending() ?? ['the agent']), ...this.#sockets.lost()]
  }
}
