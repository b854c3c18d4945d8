// SPDX-License-Identifier: Apache-2.0
// Replicas with their controllers against one fake API server, all on one clock: objects go in as a person would write them, what is written back
// stands in the server. Nothing moves on the clock but what a test moves.

import { Registry } from 'prom-client'
import { createAddressStore, type AddressStore } from '../../src/address/store.js'
import { defaultAddressOptions, type AddressOptions } from '../../src/address/options.js'
import { createGraph } from '../../src/collection/graph.js'
import { createControllers, type ControllerOptions, type Controllers } from '../../src/control/controllers.js'
import { HttpKubeApi } from '../../src/kube/http-api.js'
import { createInputs } from '../../src/kube/inputs.js'
import { createKubeFeed, type KubeFeed } from '../../src/kube/kube-feed.js'
import { LogBook } from '../reports/log-book.js'
import { FakeApiServer } from '../support/fake-apiserver.js'
import type { Json } from '../support/fake-apiserver-store.js'
import { ticks, until } from '../support/fake-apiserver-taken.js'
import { FakeClock } from '../support/fake-clock.js'

export type Wishes = Partial<Pick<ControllerOptions, 'conditions' | 'allocation' | 'untaint' | 'tasks'>>

export const leaseNamespace = 'istio-system'

export class ControlRoom {
  readonly clock = new FakeClock()
  readonly server = new FakeApiServer({ clock: this.clock })
  readonly replicas: Replica[] = []

  static async open(...objects: readonly Json[]): Promise<ControlRoom> {
    const room = new ControlRoom()
    await room.server.start()
    room.server.upsert(...objects)
    return room
  }

  async start(name: string, wishes: Wishes, options: Partial<AddressOptions> = {}): Promise<Replica> {
    const replica = new Replica(this, name, wishes, { ...defaultAddressOptions, ...options })
    this.replicas.push(replica)
    await replica.begin()
    return replica
  }

  /** Lets everything that has been written be read and answered, and commits it. No time passes. */
  async quiet(): Promise<void> {
    let rounds = 0
    let before = this.#mark()
    await until(() => this.server.heldRequests === 0, 'no request is held')
    while (rounds < 2) {
      await this.server.waitForTaken()
      await ticks(4)
      for (const replica of this.replicas) await replica.takeIn()
      const now = this.#mark()
      rounds = now === before ? rounds + 1 : 0
      before = now
    }
  }

  /** Moves the clock; after each timer everything comes to rest. */
  async advance(ms: number): Promise<void> {
    await this.clock.advance(ms, () => this.quiet())
    await this.quiet()
  }

  /** Makes a change and gives the leader a second to act on it. */
  async change(...objects: readonly Json[]): Promise<void> {
    this.server.upsert(...objects)
    await this.advance(1_000)
  }

  conditions(kind: string, namespace: string, name: string): readonly Json[] {
    const all = (this.server.get(kind, namespace, name)?.['status']?.conditions ?? []) as readonly Json[]
    return all.map(({ lastTransitionTime: _, ...rest }) => rest)
  }

  /** `host=value` of a ServiceEntry's status. */
  addresses(namespace: string, name: string): readonly string[] | undefined {
    const list = this.server.get('ServiceEntry', namespace, name)?.['status']?.addresses as readonly Json[] | undefined
    return list?.map(({ host, value }) => `${String(host)}=${String(value)}`)
  }

  /** Writes to anything but the lease. */
  writes(): readonly string[] {
    return this.server.writes
      .filter(({ kind }) => kind !== 'Lease')
      .map(
        ({ kind, name, verb, subresource }) =>
          `${verb} ${kind} ${name}${subresource === undefined ? '' : `/${subresource}`}`,
      )
  }

  async close(): Promise<void> {
    for (const replica of this.replicas) await replica.kill()
    await this.server.stop()
  }

  #mark(): string {
    const commits = this.replicas.reduce((sum, replica) => sum + replica.commits, 0)
    return `${this.server.activity} ${this.server.store.version} ${commits}`
  }
}

export class Replica {
  readonly log = new LogBook()
  readonly address: AddressStore
  readonly registry = new Registry()
  /** Names that were pushed, commit by commit. */
  readonly pushes: string[][] = []
  commits = 0
  readonly controllers: Controllers
  readonly #room: ControlRoom
  readonly #graph = createGraph({
    onFailure: ({ collection, key, error }) => {
      throw new Error(`${collection} ${key}: ${String(error)}`)
    },
  })
  readonly #feed: KubeFeed
  readonly #stop = new AbortController()
  readonly #now = new AbortController()
  #isDirty = false
  #running: readonly Promise<void>[] = []

  constructor(room: ControlRoom, name: string, wishes: Wishes, options: AddressOptions) {
    this.#room = room
    const { clock, server } = room
    const credentials = { read: () => Promise.resolve({ headers: {}, tls: {} }), refused: () => undefined }
    const api = new HttpKubeApi(server.url, credentials, clock)
    const inputs = createInputs(this.#graph)
    this.address = createAddressStore({ graph: this.#graph, inputs, options, log: this.log })
    this.address.store.onCommit((changes) => {
      this.pushes.push([...new Set([...changes.values()].flatMap((list) => list.map((change) => change.name)))])
    })
    this.#graph.onDirty(() => (this.#isDirty = true))
    this.#feed = createKubeFeed({
      api,
      inputs,
      cluster: options.clusterId,
      systemNamespace: options.systemNamespace,
      revision: options.revision,
      clock,
      log: this.log,
      registry: this.registry,
      random: () => 0.5,
    })
    this.controllers = createControllers({
      graph: this.#graph,
      domain: this.address.domain,
      api,
      clock,
      log: this.log,
      registry: this.registry,
      lease: { namespace: leaseNamespace, name: 'addressd-leader', identity: name },
      conditions: false,
      allocation: undefined,
      untaint: undefined,
      random: () => 0.5,
      ...wishes,
    })
  }

  get isLeader(): boolean {
    return this.controllers.isLeader()
  }

  async begin(): Promise<void> {
    const reading = this.#feed.run(this.#now.signal)
    await this.#feed.synced
    this.#commit()
    this.#running = [reading, this.controllers.run(this.#stop.signal, this.#now.signal)]
    await this.#room.quiet()
  }

  /** Commits what the feed has read. */
  async takeIn(): Promise<void> {
    if (this.#now.signal.aborted) return
    await this.#room.server.waitForSeen((kind) => this.#feed.seen(kind as never))
    if (this.#isDirty) this.#commit()
  }

  /** As SIGTERM does: no more writing, and another may lead. */
  finish(): void {
    this.#stop.abort(new Error('told to finish'))
  }

  /** As SIGKILL does. */
  async kill(): Promise<void> {
    this.#now.abort(new Error('killed'))
    this.#stop.abort(new Error('killed'))
    await Promise.allSettled(this.#running)
  }

  #commit(): void {
    this.#isDirty = false
    this.#graph.commit()
    this.commits++
  }
}

let age = 0

const meta = (namespace: string, name: string, more: Json): Json => ({
  name,
  namespace,
  // One second after the other, as things are made.
  creationTimestamp: `2026-01-01T00:00:${String(++age % 60).padStart(2, '0')}Z`,
  ...more,
})

export const namespace = (name: string, labels: Json = {}): Json => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name, labels },
})

export const service = (ns: string, name: string, metadata: Json = {}): Json => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: meta(ns, name, metadata),
  spec: { type: 'ClusterIP', clusterIP: '10.0.0.1', clusterIPs: ['10.0.0.1'], ports: [{ port: 80, targetPort: 80 }] },
})

export const serviceEntry = (ns: string, name: string, hosts: readonly string[], more: Json = {}): Json => ({
  apiVersion: 'networking.istio.io/v1',
  kind: 'ServiceEntry',
  metadata: meta(ns, name, (more['metadata'] ?? {}) as Json),
  spec: {
    hosts,
    resolution: 'DNS',
    ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
    ...((more['spec'] ?? {}) as Json),
  },
  ...(more['status'] === undefined ? {} : { status: more['status'] }),
})

export const policy = (ns: string, name: string, spec: Json, metadata: Json = {}): Json => ({
  apiVersion: 'security.istio.io/v1',
  kind: 'AuthorizationPolicy',
  metadata: meta(ns, name, { generation: 1, ...metadata }),
  spec,
})

/** A waypoint for all kinds of traffic, ready. */
export const waypoint = (ns: string, name: string): Json => ({
  apiVersion: 'gateway.networking.k8s.io/v1',
  kind: 'Gateway',
  metadata: meta(ns, name, { labels: { 'istio.io/waypoint-for': 'all' } }),
  spec: { gatewayClassName: 'istio-waypoint', listeners: [{ name: 'mesh', port: 15008, protocol: 'HBONE' }] },
  status: { addresses: [{ type: 'IPAddress', value: '10.0.0.99' }] },
})
