// SPDX-License-Identifier: Apache-2.0
// The room a report plays in: a fake API server, the real program on real sockets, clients, one clock for all. Knows when everything is quiet.

import { readFileSync } from 'node:fs'
import net from 'node:net'
import { setTimeout as realSleep } from 'node:timers/promises'
import v8 from 'node:v8'
import vm from 'node:vm'
import { parseSettings } from '../../src/base/settings.js'
import { runCtl } from '../../src/ctl/ctl.js'
import { HttpKubeApi } from '../../src/kube/http-api.js'
import { kubeLimits } from '../../src/kube/limits.js'
import { startServer, type RunningServer } from '../../src/main/serve.js'
import { settingsTable } from '../../src/main/settings-table.js'
import { toDeadPeerMs, xdsLimits } from '../../src/xds/limits.js'
import { FakeApiServer } from '../support/fake-apiserver.js'
import { FakeClock, tick } from '../support/fake-clock.js'
import { XdsClient } from '../support/xds-client.js'
import type { Report } from './cases.js'
import { ReportClient, toNode, toResource } from './client.js'
import { LogBook } from './log-book.js'
import type { ReceivedResource } from './ztunnel-model.js'

export interface CtlRun {
  readonly exit: number
  readonly output: string
  readonly error: string
}

/** How far a `{"past": name}` moves the clock. */
export const pastMs: Readonly<Record<string, number>> = {
  watchdog: kubeLimits.watchdogMs + 1_000,
  backoff: kubeLimits.backoffMaxMs + 1_000,
  sendTimeout: xdsLimits.sendTimeoutMs + 1_000,
  keepalive: toDeadPeerMs(xdsLimits) + 1_000,
}

const collectGarbage = (): void => {
  v8.setFlagsFromString('--expose-gc')
  const gc = vm.runInNewContext('gc') as () => void
  gc()
  gc()
}

export class Room {
  readonly clock = new FakeClock()
  readonly api = new FakeApiServer({ clock: this.clock })
  readonly log = new LogBook()
  readonly clients = new Map<string, ReportClient>()
  server: RunningServer | undefined
  lastRun: CtlRun | undefined
  /** Told of every client that comes to be. */
  onClient: (client: ReportClient) => void = () => undefined
  readonly #report: Report
  readonly #background: Promise<unknown>[] = []
  #port = 0

  constructor(report: Report) {
    this.#report = report
  }

  get port(): number {
    return this.#port
  }

  async open(): Promise<void> {
    this.#port = await freePort()
    await this.api.start()
    const { mesh } = this.#report
    if (mesh !== undefined) {
      this.api.upsert({
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: { name: 'istio', namespace: 'istio-system' },
        data: { mesh: JSON.stringify(mesh) },
      })
    }
  }

  async close(): Promise<void> {
    for (const client of this.clients.values()) client.destroy()
    await this.server?.stop()
    await this.api.stop()
    await Promise.allSettled(this.#background)
  }

  async startServer(): Promise<void> {
    const { settings } = parseSettings({
      table: settingsTable,
      argv: [
        ...['--grpcAddr', `127.0.0.1:${this.#port}`, '--secureGRPCAddr', ''],
        ...['--httpAddr', '127.0.0.1:0', '--monitoringAddr', ''],
      ],
      env: this.#report.settings ?? {},
      ownPrefix: 'ADDRESSD_',
    })
    const credentials = { read: () => Promise.resolve({ headers: {}, tls: {} }), refused: () => undefined }
    const api = new HttpKubeApi(this.api.url, credentials, this.clock)
    this.server = await startServer({ settings, clock: this.clock, log: this.log, api, random: () => 0.5 })
  }

  async stopServer(): Promise<void> {
    const { server } = this
    this.server = undefined
    await server?.stop()
  }

  /** As SIGTERM does: clients are let go in good order, then the process ends. */
  terminateServer(): void {
    const { server } = this
    if (server === undefined) return
    this.#background.push(
      server.drain().then(async () => {
        await server.stop()
        if (this.server === server) this.server = undefined
      }),
    )
  }

  client(name: string): ReportClient {
    const known = this.clients.get(name)
    if (known !== undefined) return known
    const fresh = new ReportClient(name, this.#port)
    this.clients.set(name, fresh)
    this.onClient(fresh)
    return fresh
  }

  /** Lets everything that has been written be read and answered. No time passes. */
  async quiet(): Promise<void> {
    await this.#calm()
    // What other threads and the kernel still do on their own gets a moment of real time, and once more if anything came of it.
    for (let before = ''; before !== this.#mark();) {
      before = this.#mark()
      await this.api.waitForTaken()
      await realSleep(2)
      await this.#calm()
    }
  }

  /** Turns the event loop until nothing moves any more. */
  async #calm(): Promise<void> {
    // Whoever finds nobody listening tries once each time, not for ever.
    const returned = new Set<ReportClient>()
    for (let stable = 0, before = this.#mark(), end = performance.now() + 60_000; stable < 3;) {
      if (performance.now() > end) throw new Error('nothing came to rest within a minute')
      for (let i = 0; i < 8; i++) await tick()
      let moved = false
      for (const client of this.clients.values()) {
        const did = client.pump(!returned.has(client))
        if (did === 'returned') returned.add(client)
        moved ||= did !== 'nothing'
      }
      const now = this.#mark()
      stable = !moved && now === before && this.#nothingUnderWay() ? stable + 1 : 0
      before = now
    }
  }

  /** True when the kernel holds no byte of our streams; a client that does not read is not waited for. */
  #nothingUnderWay(): boolean {
    if ([...this.clients.values()].some((client) => !client.reading)) return true
    return bytesUnderWay(this.#port) === 0
  }

  #mark(): string {
    const work = this.server?.work()
    let received = 0
    for (const client of this.clients.values()) received += client.received
    return `${this.api.activity} ${work?.activity ?? 0} ${work?.unread ?? 0} ${received} ${this.log.records.length}`
  }

  /** Moves the clock, letting everything catch up after each timer. */
  async advance(ms: number): Promise<void> {
    await this.clock.advance(ms, () => this.#calm())
    await this.quiet()
  }

  /** Everything due within a second runs. */
  async settle(): Promise<void> {
    await this.quiet()
    for (let left = 1_000; left > 0;) {
      const next = this.clock.untilNext()
      if (next === undefined || next > left) break
      await this.advance(next)
      left -= Math.max(next, 1)
    }
    await this.quiet()
  }

  async ctl(args: readonly string[]): Promise<void> {
    let output = ''
    let error = ''
    const exit = await runCtl(args, {
      stdout: (text) => (output += text),
      stderr: (text) => (error += text),
      env: { ADDRESSD_SERVER: `127.0.0.1:${this.#port}` },
    })
    this.lastRun = { exit, output, error }
  }

  /** What a fresh on-demand client without a node is told of these keys. */
  async ask(
    keys: readonly string[],
    type = 'Address',
  ): Promise<{ found: Map<string, ReceivedResource>; removed: readonly string[] }> {
    const client = new XdsClient({ port: this.#port, node: toNode('asker', '') })
    try {
      client.send({ type, subscribe: ['*'], unsubscribe: ['*'] })
      await client.receivedAtLeast(1)
      client.send({ type, subscribe: keys })
      await client.receivedAtLeast(2)
      const answer = client.responses[1]
      const resources = (answer?.resources ?? []).map((r) => toResource(type, r))
      return { found: new Map(resources.map((r) => [r.name, r])), removed: answer?.removed ?? [] }
    } finally {
      client.destroy()
    }
  }

  /** What /ready says; false when nobody answers. */
  async ready(): Promise<boolean> {
    const at = this.server?.bound.http
    if (at === undefined) return false
    const response = await fetch(`http://127.0.0.1:${at.port}/ready`)
    await response.arrayBuffer()
    return response.status === 200
  }

  /** Value of a metric, all labels summed, or of one series when labels are named. */
  async metric(name: string): Promise<number> {
    const [, base = name, labels = ''] = /^([^{]+)(?:\{(.*)\})?$/.exec(name) ?? []
    const wanted = [...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, key, value]) => [key, value] as const)
    const families = (await this.server?.parts.registry.getMetricsAsJSON()) ?? []
    const family = families.find((f) => f.name === base || `${f.name}_total` === base)
    const values = (family?.values ?? []) as { labels: Record<string, unknown>; value: number }[]
    return values
      .filter((v) => wanted.every(([key, value]) => String(v.labels[key ?? '']) === value))
      .reduce((sum, v) => sum + v.value, 0)
  }

  /** Resident memory in MiB after a collection. */
  memoryMiB(): number {
    collectGarbage()
    return process.memoryUsage().rss / 1024 / 1024
  }
}

/** Bytes in the queues of all TCP sockets at this port, both ends; 0 where there is no such table. */
function bytesUnderWay(port: number): number {
  let table: string
  try {
    table = readFileSync('/proc/net/tcp', 'latin1')
  } catch {
    return 0 // not Linux
  }
  const end = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  let bytes = 0
  for (const line of table.split('\n').slice(1)) {
    const [, , local = '', remote = '', state, queues = ''] = line.split(/\s+/)
    // Established only: a listener counts connections there, and ended ones keep what nobody will read.
    if (state !== '01' || !(local.endsWith(end) || remote.endsWith(end))) continue
    for (const queue of queues.split(':')) bytes += Number.parseInt(queue, 16)
  }
  return bytes
}

async function freePort(): Promise<number> {
  const server = net.createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as net.AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}
