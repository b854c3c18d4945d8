// SPDX-License-Identifier: Apache-2.0
// The whole of addressd in this process on a real API server, with clients on real sockets. Knows exactly when a change has been taken in and sent,
// so that no time is waited for; a relay can stand in between, and the clock can be pushed forward.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parse, stringify } from 'yaml'
import { parseSettings } from '../../src/base/settings.js'
import { runCtl } from '../../src/ctl/ctl.js'
import { createKubeApi } from '../../src/kube/client.js'
import type { KubeFeed } from '../../src/kube/kube-feed.js'
import { startServer, type RunningServer } from '../../src/main/serve.js'
import { settingsTable } from '../../src/main/settings-table.js'
import { LogBook } from '../reports/log-book.js'
import type { ApiServer } from '../support/apiserver.js'
import { tick } from '../support/fake-clock.js'
import { JumpClock } from '../support/jump-clock.js'
import { TcpRelay } from '../support/tcp-relay.js'
import { RoomClient } from './client.js'
import type { Markers } from './markers.js'

/** Nothing is decided by this: whoever waits longer waits in vain. */
const patienceMs = 60_000

export interface RoomOptions {
  /** Read this instead of the administrator's. */
  readonly kubeconfigPath?: string
  /** The relay refuses until it is told to accept. */
  readonly isCutOff?: boolean
}

export class ClusterRoom {
  readonly clock: JumpClock
  readonly log: LogBook
  readonly relay: TcpRelay
  readonly server: RunningServer
  readonly clients: RoomClient[] = []
  readonly #markers: Markers | undefined

  private constructor(
    parts: { clock: JumpClock; log: LogBook; relay: TcpRelay; server: RunningServer },
    markers: Markers | undefined,
  ) {
    this.clock = parts.clock
    this.log = parts.log
    this.relay = parts.relay
    this.server = parts.server
    this.#markers = markers
  }

  /** Starts; whether it became ready is to be asked. Without `markers` there is no `settle`. */
  static async open(api: ApiServer, markers?: Markers, options: RoomOptions = {}): Promise<ClusterRoom> {
    const clock = new JumpClock()
    const log = new LogBook()
    const relay = await TcpRelay.open(Number(new URL(api.url).port))
    if (options.isCutOff === true) relay.refuse()
    const from = options.kubeconfigPath ?? api.kubeconfigPath
    const kubeconfig = join(api.folder, `kubeconfig-${relay.port}`)
    writeKubeconfig(from, kubeconfig, (config) => {
      config.clusters[0].cluster.server = `https://127.0.0.1:${relay.port}`
    })
    const settings = readSettings(['--kubeconfig', kubeconfig])
    const kube = await createKubeApi({ kubeconfig, clock })
    // Pushing the clock must not look to xds as if clients had been deaf for minutes.
    const limits = { keepaliveMs: 3_600_000, sendTimeoutMs: 3_600_000, maxConnectionAgeMs: 0 }
    const server = await startServer({ settings, clock, log, api: kube, limits })
    return new ClusterRoom({ clock, log, relay, server }, markers)
  }

  get port(): number {
    const grpc = this.server.bound.grpc
    if (grpc === undefined) throw new Error('the gRPC port is not open')
    return grpc.port
  }

  /** A client that asks for these names of type Address, and has the first answer. Default: everything. */
  async connect(...names: string[]): Promise<RoomClient> {
    const client = await RoomClient.connect(this.port, names.length === 0 ? ['*'] : names)
    this.clients.push(client)
    return client
  }

  /** Makes a change and waits until it has reached everybody; then each client's `news` is what it led to. */
  async change(make: () => Promise<unknown>): Promise<void> {
    for (const client of this.clients) client.forget()
    await make()
    await this.settle()
  }

  /** Resolves when all that has happened so far was read, committed, sent and received. */
  async settle(): Promise<void> {
    if (this.#markers === undefined) throw new Error('this room has no markers')
    const marks = await this.#markers.mark()
    const feed = this.server.parts.feed as KubeFeed
    await this.until(() => [...marks].every(([kind, mark]) => BigInt(feed.seen(kind) || '0') >= mark), 'reading')
    await this.rest()
  }

  /** Resolves when nothing is in hand. */
  async rest(): Promise<void> {
    let turns = 0
    let activity = -1
    await this.until(() => {
      const work = this.server.work()
      const isIdle = work.unread === 0 && !work.uncommitted && !work.unsent
      turns = isIdle && work.activity === activity ? turns + 1 : 0
      activity = work.activity
      return turns > 5
    }, 'rest')
    await Promise.all(this.clients.map((client) => client.ping()))
  }

  /** As `settle`, while pauses between tries are cut short. */
  async settleAfterOutage(): Promise<void> {
    const stop = this.hurry()
    try {
      await this.settle()
    } finally {
      stop()
    }
  }

  /** Makes time pass six times as fast, until the answer is called: pauses become short, and nobody who answers late is given up yet. */
  hurry(): () => void {
    const timer = setInterval(() => this.clock.jump(1_000), 200)
    return () => clearInterval(timer)
  }

  async until(condition: () => boolean, what: string): Promise<void> {
    const end = performance.now() + patienceMs
    while (!condition()) {
      if (performance.now() > end) throw new Error(`waited in vain for ${what}`)
      await (what === 'rest' ? tick() : sleep(5))
    }
  }

  /** Runs addressctl. */
  async ctl(...args: string[]): Promise<{ exit: number; output: string; error: string }> {
    let output = ''
    let error = ''
    const exit = await runCtl(args, {
      stdout: (text) => (output += text),
      stderr: (text) => (error += text),
      env: { ADDRESSD_SERVER: `127.0.0.1:${this.port}` },
    })
    return { exit, output, error }
  }

  async close(): Promise<void> {
    for (const client of this.clients) client.close()
    await this.server.stop()
    await this.relay.close()
  }
}

/** Settings of a program on free ports. */
export function readSettings(
  flags: readonly string[],
): ReturnType<typeof parseSettings<typeof settingsTable>>['settings'] {
  const free = ['--grpcAddr=127.0.0.1:0', '--httpAddr=127.0.0.1:0', '--monitoringAddr=', '--secureGRPCAddr=']
  return parseSettings({ table: settingsTable, argv: [...free, ...flags], env: {}, ownPrefix: 'ADDRESSD_' }).settings
}

/** Writes a changed copy of a kubeconfig. */
export function writeKubeconfig(from: string, to: string, change: (config: any) => void): void {
  const config: unknown = parse(readFileSync(from, 'utf8'))
  change(config)
  writeFileSync(to, stringify(config), { mode: 0o600 })
}
