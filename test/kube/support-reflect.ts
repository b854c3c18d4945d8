// SPDX-License-Identifier: Apache-2.0
// A feed against the fake API server with a clock that tests move, and the rows it fills. For the tests of this folder.

import { Registry } from 'prom-client'
import type { Fields, Logger } from '../../src/base/log.js'
import type { Source } from '../../src/collection/types.js'
import { createKubeApi } from '../../src/kube/client.js'
import type { Inputs } from '../../src/kube/inputs.js'
import { kinds } from '../../src/kube/inputs.js'
import { createKubeFeed, type KubeFeed, type KubeFeedOptions } from '../../src/kube/kube-feed.js'
import type { Kind, RecordByKind } from '../../src/kube/records.js'
import { FakeApiServer, type FakeApiServerOptions } from '../support/fake-apiserver.js'
import { ticks, until } from '../support/fake-apiserver-taken.js'
import { FakeClock } from '../support/fake-clock.js'

/** A Source that remembers, one line each, what was done to it. */
export class RowTable<V> implements Source<V> {
  rows = new Map<string, V>()
  readonly log: string[] = []

  constructor(readonly name: string) {}

  get size(): number {
    return this.rows.size
  }

  get(key: string): V | undefined {
    return this.rows.get(key)
  }

  keys(): Iterable<string> {
    return this.rows.keys()
  }

  values(): Iterable<V> {
    return this.rows.values()
  }

  index(): never {
    throw new Error('not used here')
  }

  set(key: string, row: V): void {
    this.log.push(`set ${key}`)
    this.rows.set(key, row)
  }

  delete(key: string): void {
    this.log.push(`delete ${key}`)
    this.rows.delete(key)
  }

  replace(rows: ReadonlyMap<string, V>): void {
    this.log.push(`replace ${[...rows.keys()].sort().join(' ')}`.trim())
    this.rows = new Map(rows)
  }
}

export interface LogRecord {
  readonly level: string
  readonly fields: Fields
  readonly message: string
}

export function createLog(records: LogRecord[]): Logger {
  const at =
    (level: string) =>
    (fields: Fields, message: string): void =>
      void records.push({ level, fields, message })
  const logger: Logger = {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: () => logger,
  }
  return logger
}

export interface World {
  readonly server: FakeApiServer
  readonly clock: FakeClock
  readonly feed: KubeFeed
  readonly registry: Registry
  readonly logs: LogRecord[]
  table<K extends Kind>(kind: K): RowTable<RecordByKind[K]>
  /** Everything written is taken in and acted on; time stands still. */
  settle(): Promise<void>
  /** Moves time, letting sockets work at each timer. */
  advance(ms: number): Promise<void>
  stop(): Promise<void>
}

const running: World[] = []

/** To be called after each test. */
export async function stopWorlds(): Promise<void> {
  for (const world of running.splice(0)) await world.stop()
}

export interface WorldOptions extends FakeApiServerOptions {
  readonly prepare?: (server: FakeApiServer) => void
  readonly token?: string
  /** False: does not wait for the feed to be synced. */
  readonly wait?: boolean
  /** What the feed is told to read; everything when left out. */
  readonly only?: Pick<KubeFeedOptions, 'kinds' | 'node'>
}

/** Starts the server with what `prepare` puts there, then a feed, and waits until it is synced. */
export async function createWorld(options: WorldOptions = {}): Promise<World> {
  const clock = new FakeClock()
  const server = new FakeApiServer({ ...options, clock })
  options.prepare?.(server)
  await server.start()
  const tables = Object.fromEntries(kinds.map((kind) => [kind, new RowTable(kind)])) as unknown as Inputs
  const registry = new Registry()
  const logs: LogRecord[] = []
  const api = await createKubeApi({ server: server.url, clock })
  const log = createLog(logs)
  const feed = createKubeFeed({
    api,
    inputs: tables,
    cluster: 'c',
    systemNamespace: 'istio-system',
    revision: '',
    clock,
    log,
    registry,
    random: () => 0.5,
    ...options.only,
  })
  const controller = new AbortController()
  const ended = feed.run(controller.signal)
  const settle = async (): Promise<void> => {
    await server.waitForTaken()
    await quiet(server)
  }
  const world: World = {
    server,
    clock,
    feed,
    registry,
    logs,
    table: (kind) => tables[kind] as unknown as RowTable<any>,
    settle,
    advance: (ms) => clock.advance(ms, settle),
    async stop() {
      controller.abort()
      await ended
      api.close()
      await server.stop()
    },
  }
  running.push(world)
  if (options.wait !== false) {
    await feed.synced
    await until(() => kinds.every((k) => feed.seen(k) === '' || server.openWatches(k) === 1), 'every watch is open')
  }
  return world
}

/** Waits until the server has seen no new request for a while of this process's turns. */
async function quiet(server: FakeApiServer): Promise<void> {
  let still = 0
  let last = server.activity
  while (still < 10) {
    await ticks(1)
    still = server.activity === last ? still + 1 : 0
    last = server.activity
  }
}

/** A pod as an API server shows it. */
export function makePod(name: string, ip: string, more: { uid?: string; phase?: string; labels?: object } = {}): any {
  const { uid = `uid-${name}`, phase = 'Running', labels = { app: 'web' } } = more
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: 'shop', uid, labels, creationTimestamp: '2026-01-01T00:00:10Z' },
    spec: { serviceAccountName: 'default', nodeName: 'node-1', containers: [{ name: 'app', image: 'app:1' }] },
    status: { phase, podIP: ip, podIPs: [{ ip }], conditions: [{ type: 'Ready', status: 'True' }] },
  }
}

/** An object of a kind with nothing in it. */
export function makeObject(kind: string, name: string, more: object = {}): any {
  return { kind, metadata: { name, namespace: 'shop' }, spec: {}, ...more }
}
