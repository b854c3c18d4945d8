// SPDX-License-Identifier: Apache-2.0
// A ZDS server in a folder of its own with what is wanted of it, for tests. Files stand for namespaces: the server looks into none.

import { closeSync, fstatSync, mkdtempSync, openSync, readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Registry } from 'prom-client'
import { systemClock } from '../../../src/base/clock.js'
import type { Clock } from '../../../src/base/clock.js'
import type { Fields, Logger } from '../../../src/base/log.js'
import type { PodIdentity, ZdsPod } from '../../../src/node-agent/contracts.js'
import type { Netns } from '../../../src/node-agent/netns/netns.js'
import { createProcesses } from '../../../src/node-agent/zds/processes.js'
import { createZdsServer } from '../../../src/node-agent/zds/server.js'
import type { ZdsServer, ZdsServerOptions } from '../../../src/node-agent/zds/server.js'
import { FakeNodeZtunnel } from '../../support/fake-node-ztunnel.js'
import type { FakeNodeZtunnelOptions } from '../../support/fake-node-ztunnel.js'
import { ScriptedZtunnel } from '../../support/scripted-ztunnel.js'

/** Counts its handles as the real ones do. */
class FileNetns implements Netns {
  readonly inode: bigint
  readonly device: bigint
  readonly #of: { readonly fd: number; handles: number }
  #isOpen = true

  constructor(of: { readonly fd: number; handles: number }) {
    this.#of = of
    of.handles++
    const { ino, dev } = fstatSync(of.fd, { bigint: true })
    this.inode = ino
    this.device = dev
  }

  get fd(): number {
    if (!this.#isOpen) throw new Error('used after it was closed')
    return this.#of.fd
  }

  share(): Netns {
    if (!this.#isOpen) throw new Error('shared after it was closed')
    return new FileNetns(this.#of)
  }

  close(): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    if (--this.#of.handles === 0) closeSync(this.#of.fd)
  }
}

export interface LogLine extends Fields {
  readonly level: string
  readonly message: string
}

/** Keeps every line with the fields of its parents. */
function createCollector(lines: LogLine[], outer: Fields = {}): Logger {
  const at =
    (level: string) =>
    (fields: Fields, message: string): void =>
      void lines.push({ level, message, ...outer, ...fields })
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: (fields) => createCollector(lines, { ...outer, ...fields }),
  }
}

export const toPod = (n: number): PodIdentity => ({
  uid: `uid-${n}`,
  namespace: 'default',
  name: `pod${n}`,
  serviceAccount: `sa${n}`,
})

/** Open descriptors of the kinds that are used here; what the test runner opens for itself does not count. */
export function countDescriptors(): number {
  const ours = /^(socket:|net:|anon_inode:\[pidfd\])|\/(zds|seqpacket)-/
  return readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return ours.test(readlinkSync(`/proc/self/fd/${fd}`))
    } catch {
      // The one that listed the folder.
      return false
    }
  }).length
}

export class ZdsRoom {
  readonly folder = mkdtempSync(join(tmpdir(), 'zds-'))
  readonly path = join(this.folder, 'run', 'ztunnel.sock')
  readonly log: LogLine[] = []
  readonly registry = new Registry()
  readonly wanted = new Map<string, ZdsPod>()
  readonly server: ZdsServer
  readonly #netns: Netns[] = []
  readonly #peers: { close(): void }[] = []

  /** Anyone of this user may connect, as fast as he likes. */
  constructor(options: Partial<ZdsServerOptions> & { readonly clock?: Clock } = {}) {
    const { limits, ...others } = options
    this.server = createZdsServer({
      path: this.path,
      select: () => [...this.wanted.values()],
      processes: createProcesses('/proc'),
      clock: systemClock,
      log: createCollector(this.log),
      registry: this.registry,
      allowedUid: process.getuid?.() ?? 0,
      limits: { acceptsPerSecond: 1e6, acceptBurst: 1000, ...limits },
      ...others,
    })
  }

  /** Listens and accepts. */
  open(): this {
    this.server.listen()
    this.server.open()
    return this
  }

  /** A namespace of its own; closed with the room. */
  netns(name = `netns-${this.#netns.length}`): Netns {
    const path = join(this.folder, name)
    writeFileSync(path, '')
    const netns = new FileNetns({ fd: openSync(path, 'r'), handles: 0 })
    this.#netns.push(netns)
    return netns
  }

  /** From now on this pod is wanted; without namespace it is to be kept. */
  want(pod: PodIdentity, netns: Netns | undefined = this.netns()): Netns | undefined {
    this.wanted.set(pod.uid, { pod, netns })
    return netns
  }

  wantWithout(pod: PodIdentity): void {
    this.wanted.set(pod.uid, { pod, netns: undefined })
  }

  /** Wants a pod and tells of it, as enrolment does. */
  enrol(pod: PodIdentity, netns = this.netns()): Promise<void> {
    this.want(pod, netns)
    return this.server.add(pod, netns)
  }

  /** A started fake ztunnel. */
  ztunnel(options: Partial<FakeNodeZtunnelOptions> = {}): FakeNodeZtunnel {
    const ztunnel = new FakeNodeZtunnel({ zds: this.path, ...options })
    this.#peers.push({ close: () => ztunnel.stop() })
    ztunnel.start()
    return ztunnel
  }

  /** One that has its snapshot. */
  async readyZtunnel(options: Partial<FakeNodeZtunnelOptions> = {}): Promise<FakeNodeZtunnel> {
    const before = this.server.ready
    const ztunnel = this.ztunnel(options)
    await this.until(() => this.server.ready > before)
    return ztunnel
  }

  script(): ScriptedZtunnel {
    const script = new ScriptedZtunnel(this.path)
    this.#peers.push(script)
    return script
  }

  /** A scripted one that has said hello and taken a snapshot without pods. */
  async greetedScript(): Promise<ScriptedZtunnel> {
    const before = this.server.ready
    const script = this.script()
    await script.say('0801')
    await script.acknowledge()
    await this.until(() => this.server.ready > before)
    return script
  }

  /** Lets the loop turn until it is so; the test's own limit of time ends a wait in vain. */
  async until(isSo: () => boolean): Promise<void> {
    while (!isSo()) await new Promise((resolve) => setImmediate(resolve))
  }

  async metric(name: string): Promise<readonly { readonly labels: object; readonly value: number }[]> {
    const metrics = await this.registry.getMetricsAsJSON()
    return (metrics.find((metric) => metric.name === name)?.values ?? []).map(({ labels, value }) => ({
      labels,
      value,
    }))
  }

  lines(level: string): readonly LogLine[] {
    return this.log.filter((line) => line.level === level)
  }

  close(): void {
    for (const peer of this.#peers) peer.close()
    this.server.close()
    for (const netns of this.#netns) netns.close()
    rmSync(this.folder, { recursive: true, force: true })
  }
}
