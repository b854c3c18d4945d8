// SPDX-License-Identifier: Apache-2.0
// The room of recorded traffic: two pods, a host outside, our rules in the pods, our server of namespaces, real ztunnels that know both pods. Each step of an
// enrolment can be made alone, as recorders did.

import { setTimeout as sleep } from 'node:timers/promises'
import { Registry } from 'prom-client'
import { systemClock } from '../../../src/base/clock.js'
import { silentLogger } from '../../../src/base/log.js'
import type { PodIdentity, PodRules, ZdsPod } from '../../../src/node-agent/contracts.js'
import { openNetnsFile } from '../../../src/node-agent/netns/handle.js'
import type { Netns } from '../../../src/node-agent/netns/netns.js'
import type { NetnsWorkers } from '../../../src/node-agent/netns/workers.js'
import { parsePodOverrides } from '../../../src/node-agent/rules/overrides.js'
import { createProcesses } from '../../../src/node-agent/zds/processes.js'
import { createZdsServer, type ZdsServer } from '../../../src/node-agent/zds/server.js'
import { LocalZtunnels } from '../../peer/local-ztunnel.js'
import { until, type Ztunnel } from '../../peer/ztunnel.js'
import { probeAddress4, probeAddress6 } from '../../support/packet-room.js'
import { createTestRules, type TestBackend } from '../../support/rule-backends.js'
import { addressOf, TrafficRoom } from '../../support/traffic-room.js'

export type PodPlace = 'podA' | 'podB'

const identities: Readonly<Record<PodPlace, PodIdentity>> = {
  podA: { uid: 'uid-a', namespace: 'default', name: 'pod-a', serviceAccount: 'default' },
  podB: { uid: 'uid-b', namespace: 'default', name: 'pod-b', serviceAccount: 'default' },
}

const service = { name: 'svc', hostname: 'svc.example.com', vips: ['10.96.0.50'], ports: { 80: 8080 } }

export class EnrolledTraffic {
  readonly room: TrafficRoom
  readonly ztunnels = new Map<string, Ztunnel>()
  readonly #rules: PodRules
  readonly #local: LocalZtunnels
  readonly #wanted = new Map<PodPlace, ZdsPod>()
  readonly #netns: Readonly<Record<PodPlace, Netns>>
  readonly server: ZdsServer

  private constructor(room: TrafficRoom, rules: PodRules) {
    this.room = room
    this.#rules = rules
    const both = (place: PodPlace): string[] => [addressOf(place), addressOf(place, 6)]
    this.#local = new LocalZtunnels(
      [
        { name: 'pod-a', ips: both('podA') },
        { name: 'pod-b', ips: both('podB'), services: { 'default/svc.example.com': { 80: 8080 } } },
      ],
      [service],
    )
    this.#netns = { podA: openNetnsFile(room.netns.podA.path), podB: openNetnsFile(room.netns.podB.path) }
    this.server = createZdsServer({
      path: this.#local.zds,
      select: () => [...this.#wanted.values()],
      processes: createProcesses('/proc'),
      clock: systemClock,
      log: silentLogger,
      registry: new Registry(),
    })
    this.server.listen()
    this.server.open()
  }

  static async open(backend: TestBackend, workers: NetnsWorkers): Promise<EnrolledTraffic> {
    const rules = await createTestRules(backend, workers)
    return new EnrolledTraffic(await TrafficRoom.open('traffic'), rules)
  }

  /** Resolves when it has its snapshot. */
  async startZtunnel(name: string, env: Readonly<Record<string, string>> = {}): Promise<Ztunnel> {
    const before = this.server.ready
    const ztunnel = await this.#local.start(env)
    this.ztunnels.set(name, ztunnel)
    await until(
      () => Promise.resolve(this.server.ready > before),
      () => `a snapshot:\n${ztunnel.lines.slice(-10).join('\n')}`,
    )
    await until(
      () => ztunnel.isReady(),
      () => 'ztunnel to be ready',
    )
    return ztunnel
  }

  /** The chart's defaults. */
  async makeRules(place: PodPlace): Promise<void> {
    const defaults = { ipv6: true, dnsCapture: true, probeAddress4, probeAddress6 }
    const { options } = parsePodOverrides({ namespace: 'default', name: place, annotations: {} }, defaults)
    await this.#rules.apply(this.#netns[place], options)
  }

  async takeRulesOut(place: PodPlace): Promise<void> {
    await this.#rules.remove(this.#netns[place])
  }

  /** From now on the pod is part of every snapshot. */
  want(place: PodPlace, other: Partial<PodIdentity> = {}): ZdsPod {
    const wanted = { pod: { ...identities[place], ...other }, netns: this.#netns[place] }
    this.#wanted.set(place, wanted)
    return wanted
  }

  /** Hands the pod to ztunnel; under another name when one is given. */
  async tell(place: PodPlace, other: Partial<PodIdentity> = {}): Promise<void> {
    const { pod, netns } = this.want(place, other)
    if (netns !== undefined) await this.server.add(pod, netns)
  }

  /** Takes the pod from ztunnel. */
  async tellRemoval(place: PodPlace): Promise<void> {
    const wanted = this.#wanted.get(place)
    this.#wanted.delete(place)
    if (wanted !== undefined) await this.server.remove(wanted.pod.uid)
  }

  async takeOut(place: PodPlace): Promise<void> {
    await this.takeRulesOut(place)
    await this.tellRemoval(place)
  }

  async killZtunnel(name: string): Promise<void> {
    await this.ztunnels.get(name)?.stop()
    // Its sockets in the pods go with the process; the agent sees the end a moment later.
    while (this.server.connected > 0) await sleep(5)
  }

  async close(): Promise<void> {
    await this.#local.close()
    this.server.close()
    for (const netns of Object.values(this.#netns)) netns.close()
    this.room.close()
  }
}
