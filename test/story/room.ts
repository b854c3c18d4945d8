// SPDX-License-Identifier: Apache-2.0
// A room for stories: the real program on a folder of manifests, over real sockets and in real time, and a witness who follows everything.
// After whatever a story did, `beat` changes one pod and gives all that the witness was told since the last beat.

import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { systemClock } from '../../src/base/clock.js'
import { parseSettings } from '../../src/base/settings.js'
import { startServer, type RunningServer } from '../../src/main/serve.js'
import { settingsTable } from '../../src/main/settings-table.js'
import { LogBook, type LogRecord } from '../reports/log-book.js'
import { XdsClient, ztunnelNode } from '../support/xds-client.js'

/** What the witness was told in one response. */
export interface Told {
  readonly names: readonly string[]
  readonly removed: readonly string[]
}

/** What a beat alone tells. */
export const onlyTheBeat: readonly Told[] = [{ names: ['Kubernetes//Pod/story/beat'], removed: [] }]

export const podManifest = (name: string, ip: string, namespace = 'story'): string => `apiVersion: v1
kind: Pod
metadata: { name: ${name}, namespace: ${namespace}, uid: uid-of-${name} }
spec: { nodeName: node-1, containers: [] }
status: { phase: Running, podIP: ${ip}, podIPs: [{ ip: ${ip} }], conditions: [{ type: Ready, status: 'True' }] }
`

/** Asks again and again until it is so. Rejects after `timeoutMs` of real time. */
export async function until(isSo: () => boolean | Promise<boolean>, what: string, timeoutMs = 30_000): Promise<void> {
  const end = Date.now() + timeoutMs
  while (!(await isSo())) {
    if (Date.now() > end) throw new Error(`waited ${timeoutMs} ms for ${what}`)
    await sleep(10)
  }
}

export class Room {
  readonly folder = mkdtempSync(join(tmpdir(), 'addressd-story-'))
  readonly log = new LogBook()
  #server: RunningServer | undefined
  #witness: XdsClient | undefined
  #told = 0
  #beats = 0

  get server(): RunningServer {
    if (this.#server === undefined) throw new Error('the room is not open')
    return this.#server
  }

  get port(): number {
    return this.server.bound.grpc?.port ?? 0
  }

  /** Starts the program, and a witness who holds everything when this resolves. */
  async open(flags: readonly string[] = []): Promise<this> {
    this.write('beat.yaml', podManifest('beat', '10.99.0.0'))
    const off = ['--secureGRPCAddr=', '--httpAddr=127.0.0.1:0', '--monitoringAddr=127.0.0.1:0']
    const { settings } = parseSettings({
      table: settingsTable,
      argv: ['--files', this.folder, '--grpcAddr=127.0.0.1:0', ...off, ...flags],
      env: {},
      ownPrefix: 'ADDRESSD_',
    })
    this.#server = await startServer({ settings, clock: systemClock, log: this.log })
    await this.#server.started
    this.#witness = new XdsClient({ port: this.port, node: ztunnelNode('witness', 'node-witness') })
    this.#witness.send({ type: 'Address', subscribe: ['*'] })
    await this.#witness.receivedAtLeast(1)
    this.#told = 1
    return this
  }

  async close(): Promise<void> {
    this.#witness?.destroy()
    await this.#server?.stop()
    rmSync(this.folder, { recursive: true, force: true })
  }

  /** Puts a file into the folder at once, as `mv` does. */
  write(name: string, content: string | Uint8Array): void {
    const path = join(this.folder, name)
    if (!existsSync(dirname(path))) mkdirSync(dirname(path), { recursive: true })
    const draft = join(dirname(path), '.draft')
    writeFileSync(draft, content)
    renameSync(draft, path)
  }

  remove(name: string): void {
    rmSync(join(this.folder, name), { recursive: true, force: true })
  }

  /** Warnings and errors whose fields say this text. */
  complaints(text: string): LogRecord[] {
    return this.log.records.filter(
      ({ level, fields }) => (level === 'warn' || level === 'error') && JSON.stringify(fields).includes(text),
    )
  }

  /** Everything that the program wrote when something in it failed that should not. */
  failures(): LogRecord[] {
    return this.log.records.filter(({ level }) => level === 'error')
  }

  /** Changes one pod, and gives all that the witness was told since the last beat, the change included. */
  async beat(): Promise<readonly Told[]> {
    const witness = this.#witness
    if (witness === undefined) throw new Error('the room is not open')
    this.#beats++
    const ip = `10.99.${this.#beats >> 8}.${this.#beats & 255}`
    const hex = Buffer.from(ip.split('.').map(Number)).toString('hex')
    this.write('beat.yaml', podManifest('beat', ip))
    await witness.until(
      () => witness.responses.slice(this.#told).some((r) => r.resources.some((x) => x.hex.includes(hex))),
      `the beat ${ip}`,
      30_000,
    )
    await witness.ping()
    const told = witness.responses.slice(this.#told)
    this.#told = witness.responses.length
    return told.map(({ resources, removed }) => ({ names: resources.map((r) => r.name), removed }))
  }

  async page(listener: 'http' | 'monitoring', path: string, init?: RequestInit): Promise<Response> {
    return await fetch(`http://127.0.0.1:${this.server.bound[listener]?.port ?? 0}${path}`, init)
  }
}
