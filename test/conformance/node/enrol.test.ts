// SPDX-License-Identifier: Apache-2.0
// Recorded enrolments and removals, with real namespaces, rules, probe set and ZDS server; ztunnel and the API server are played. Knows no case by name.
// Needs root and dist/.

import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { afterAll, describe, expect } from '@jest/globals'
import { Registry } from 'prom-client'
import { systemClock } from '../../../src/base/clock.js'
import { Retryable } from '../../../src/base/errors.js'
import { silentLogger } from '../../../src/base/log.js'
import { createGraph } from '../../../src/collection/graph.js'
import { createInputs } from '../../../src/kube/inputs.js'
import { clusterKey, objectKey } from '../../../src/kube/records.js'
import { AnnotationLedger } from '../../../src/node-agent/annotation-ledger.js'
import {
  redirectionAnnotation,
  type PodAnnotator,
  type PodRules,
  type ProbeSet,
} from '../../../src/node-agent/contracts.js'
import { EnrolMetrics } from '../../../src/node-agent/enrol-metrics.js'
import { EnrolledPods } from '../../../src/node-agent/enrolled-pods.js'
import { Enroller } from '../../../src/node-agent/enroll.js'
import { createNetnsFinder } from '../../../src/node-agent/netns/finder.js'
import { openNetnsFile } from '../../../src/node-agent/netns/handle.js'
import type { Netns } from '../../../src/node-agent/netns/netns.js'
import { createNetnsWorkers } from '../../../src/node-agent/netns/workers.js'
import { createNodeAgent } from '../../../src/node-agent/node-agent.js'
import { ZdsRoom } from '../../node-agent/zds/zds-room.js'
import { hostParts } from '../../support/host-parts.js'
import { ambient, makePod, testSettings } from '../../support/node-room.js'
import { testWith } from '../../support/optional.js'
import { createTestProbeSet, createTestRules, testBackends } from '../../support/rule-backends.js'
import type { ScriptedZtunnel } from '../../support/scripted-ztunnel.js'
import { createTestNetworks, type TestNetns } from '../../support/test-netns.js'
import { decodeRequest } from '../../support/zds-messages.js'
import { casesFolder, listCases } from '../folder.js'

interface RecordedPod {
  readonly uid: string
  readonly name: string
  readonly podIPs: readonly string[]
  readonly annotations?: Readonly<Record<string, string>>
}

interface Entry {
  readonly event?: string
  readonly observe?: string
  readonly dir?: string
  readonly conn?: string
  readonly hex?: string
  readonly fdOf?: readonly string[]
  readonly message?: Readonly<Record<string, { readonly uid?: string; readonly error?: string }>>
  readonly operation?: string
  readonly pod?: RecordedPod
  readonly pods?: readonly RecordedPod[]
  readonly ips?: readonly string[]
  readonly netns?: string | null
  readonly isDelete?: boolean
  readonly error?: string | null
  readonly retryable?: boolean
  readonly patches?: readonly { readonly body: object; readonly name: string; readonly namespace: string }[]
  readonly probeSet?: Readonly<Record<string, string>>
  readonly rulesIn?: readonly string[]
}

interface Expectation {
  readonly rulesIn?: readonly string[]
  readonly probeSet?: Readonly<Record<string, string>>
  readonly patches?: readonly (string | null)[]
  readonly noErrors?: boolean
  readonly snapshot?: readonly string[]
  readonly mayPrune?: readonly string[]
  readonly sameAs?: string
}

interface EnrolCase {
  readonly about: string
  readonly input: { readonly backend: string; readonly ipv6: boolean; readonly podsInApi: readonly string[] }
  readonly setup: readonly { readonly pod: string; readonly ip: string }[]
  readonly sequence: readonly Entry[]
  readonly deviation?: { readonly expect: Expectation }
}

const folder = casesFolder('node')
const cases = folder === undefined ? '' : join(folder, 'enrol')
const missing = hostParts.netns ?? hostParts.built ?? hostParts.nft ?? hostParts.iptablesNft ?? hostParts.ipset

if (!existsSync(cases)) {
  testWith('recorded enrolments', 'there is no enrol/ among the cases')('enrolments', () => undefined)
} else {
  describe('recorded enrolments', () => {
    const networks = createTestNetworks()
    const workers = createNetnsWorkers({ log: silentLogger })
    afterAll(async () => {
      await workers.close()
      networks.close()
    })
    for (const path of listCases(cases)) {
      const recorded = JSON.parse(readFileSync(path, 'utf8')) as EnrolCase
      testWith('root', missing)(
        `${basename(path, '.json')}: ${recorded.about}`,
        async () => {
          const twin = recorded.deviation?.expect.sameAs
          const played =
            twin === undefined ? recorded : (JSON.parse(readFileSync(join(cases, `${twin}.json`), 'utf8')) as EnrolCase)
          // Same as another one, but with our own backend.
          const node = await Player.open({ ...played, input: recorded.input }, networks, workers)
          try {
            expect(await node.play()).toEqual([])
          } finally {
            await node.close()
          }
        },
        60_000,
      )
    }
  })
}

type Networks = ReturnType<typeof createTestNetworks>
type Workers = ReturnType<typeof createNetnsWorkers>

class Player {
  readonly #differences: string[] = []
  readonly #connections = new Map<string, ScriptedZtunnel>()
  readonly #acknowledged = new Set<string>()
  readonly #patches: object[] = []
  readonly #pods = new EnrolledPods()
  readonly #zds: ZdsRoom
  readonly #enroller: Enroller
  readonly #controller = new AbortController()
  #refusesPatches = false
  #operation: Promise<Error | undefined> | undefined
  #isOver = true
  #select: () => ReturnType<EnrolledPods['selectZdsPods']> = () => this.#pods.selectZdsPods()
  #skippedAck = new Set<string>()

  private constructor(
    private readonly recorded: EnrolCase,
    private readonly parts: {
      readonly node: TestNetns
      readonly hostNetns: Netns
      readonly netns: ReadonlyMap<string, TestNetns>
      readonly proc: string
      readonly rules: PodRules
      readonly probeSet: ProbeSet
      readonly workers: Workers
    },
  ) {
    this.#zds = new ZdsRoom({ select: () => this.#select() })
    const registry = new Registry()
    this.#enroller = new Enroller({
      ...this.#shared(),
      pods: this.#pods,
      ledger: new AnnotationLedger(),
      defaults: { ...testSettings, ipv6: recorded.input.ipv6 },
      metrics: new EnrolMetrics(registry, this.#pods),
      isThere: () => true,
      onUnfinished: () => undefined,
    })
  }

  static async open(recorded: EnrolCase, networks: Networks, workers: Workers): Promise<Player> {
    const node = networks.add('host')
    const netns = new Map<string, TestNetns>()
    for (const { pod, ip } of recorded.setup) {
      const made = networks.add(pod)
      made.addAddress(ip.includes('/') ? ip : `${ip}/24`)
      netns.set(pod, made)
    }
    const backend = testBackends.find(({ recordedAs }) => recordedAs === recorded.input.backend)
    if (backend === undefined) throw new Error(`there is no backend ${recorded.input.backend}`)
    const hostNetns = openNetnsFile(node.path)
    const proc = mkdtempSync(join(tmpdir(), 'addressd-enrol-'))
    mkdirSync(join(proc, '1/ns'), { recursive: true })
    writeFileSync(join(proc, '1/cgroup'), '0::/init.scope\n')
    symlinkSync(node.path, join(proc, '1/ns/net'))
    const rules = await createTestRules(backend, workers)
    const probeSet = await createTestProbeSet(backend, workers, hostNetns, recorded.input.ipv6)
    await probeSet.ensure()
    return new Player(recorded, { node, hostNetns, netns, proc, rules, probeSet, workers })
  }

  async play(): Promise<readonly string[]> {
    this.#zds.server.listen()
    if (!this.recorded.sequence.some(({ operation }) => operation === 'firstSnapshot')) this.#zds.server.open()
    const { sequence } = this.recorded
    // What is in the set before anything is done was put there by an agent before this one.
    const before = sequence.find(({ event, observe }) => event === 'begins' || observe === 'state')?.probeSet
    const left = before ?? this.#leftover()
    for (const [ip, uid] of Object.entries(left)) await this.parts.probeSet.put(ip, uid)
    for (const [at, entry] of sequence.entries()) await this.#perform(entry, at)
    return this.#differences
  }

  async close(): Promise<void> {
    this.#controller.abort(new Error('the case is over'))
    await this.#enroller.close()
    this.#zds.close()
    this.parts.hostNetns.close()
    rmSync(this.parts.proc, { recursive: true })
    for (const netns of [this.parts.node, ...this.parts.netns.values()]) netns.remove()
  }

  /** An entry that the recording keeps although nothing in it put it there. */
  #leftover(): Readonly<Record<string, string>> {
    const isFirst = this.recorded.sequence.find(({ event }) => event === 'begins')?.operation === 'firstSnapshot'
    const known = this.recorded.sequence
      .flatMap(({ pod, pods = [] }) => [...(pod ? [pod] : []), ...pods])
      .map(({ uid }) => uid)
    const states = isFirst ? this.recorded.sequence.map(({ probeSet = {} }) => probeSet) : []
    return Object.fromEntries(
      states.flatMap((state) => Object.entries(state)).filter(([, uid]) => !known.includes(uid)),
    )
  }

  async #perform(entry: Entry, at: number): Promise<void> {
    const { event = '', conn = '' } = entry
    if (entry.dir === 'agent->ztunnel') return this.#hear(conn, entry)
    if (entry.dir === 'ztunnel->agent') return this.#say(conn, entry)
    if (entry.observe === 'state') return this.#compareState(entry)
    if (event === 'begins') {
      this.#begin(entry)
      return
    }
    if (event === 'ends') return this.#end(entry)
    if (event === 'ztunnel connects') return void this.#connections.set(conn, this.#zds.script())
    if (event === 'ztunnel closes') {
      this.#connections.get(conn)?.close()
      return
    }
    if (event === 'the API server refuses patches') return void (this.#refusesPatches = true)
    const destroyed = /^somebody destroys the v([46]) probe set$/.exec(event)?.[1]
    if (destroyed !== undefined) {
      this.#destroy(destroyed)
      return
    }
    throw new Error(`entry ${at}: the player does not know how to do "${event || (entry.observe ?? '')}"`)
  }

  /** As somebody would who knows only the tools. */
  #destroy(family: string): void {
    const { node } = this.parts
    if (this.recorded.input.backend === 'nftables') {
      node.run(['nft', 'flush', 'ruleset'])
      return
    }
    const program = family === '4' ? 'iptables-nft' : 'ip6tables-nft'
    node.run([program, '-t', 'nat', '-F'])
    for (const name of node.run(['ipset', 'list', '-n']).split('\n')) {
      if (name.includes(`v${family}`)) node.run(['ipset', 'destroy', name])
    }
  }

  #begin(entry: Entry): void {
    this.#patches.length = 0
    this.#isOver = false
    this.#operation = this.#operate(entry).then(
      () => undefined,
      (error: unknown) => error as Error,
    )
    void this.#operation.then(() => (this.#isOver = true))
  }

  async #operate({ operation, pod, pods = [], ips = [], netns, isDelete }: Entry): Promise<void> {
    if (operation === 'firstSnapshot') return this.#start(pods)
    if (pod === undefined) throw new Error('an operation without a pod')
    const identity = { uid: pod.uid, namespace: 'apps', name: pod.name, serviceAccount: 'sa1' }
    switch (operation) {
      case 'add': {
        const path = typeof netns === 'string' ? this.parts.netns.get(netns)?.path : undefined
        await this.#enroller.enroll({
          pod: identity,
          ips,
          annotations: pod.annotations,
          ...(path === undefined ? {} : { netnsPath: path }),
        })
        return
      }
      case 'remove':
        await this.#enroller.release({ pod: identity, ips: pod.podIPs, how: isDelete === true ? 'ended' : 'left' })
        return
      case 'syncProbeSet':
        await this.#enroller.syncAddresses(identity, ips)
        return
      default:
        throw new Error(`the player does not know the operation "${operation ?? ''}"`)
    }
  }

  /** A whole agent, as it starts on a node with these pods. */
  async #start(pods: readonly RecordedPod[]): Promise<void> {
    const graph = createGraph()
    const inputs = createInputs(graph)
    inputs.Namespace.set(clusterKey('c', 'apps'), {
      cluster: 'c',
      name: 'apps',
      labels: ambient,
      annotations: undefined,
    })
    for (const { uid, name, podIPs } of pods) {
      const annotations = { [redirectionAnnotation]: 'enabled' }
      inputs.Pod.set(objectKey('c', 'apps', name), makePod(name, { namespace: 'apps', uid, ips: podIPs, annotations }))
    }
    const agent = createNodeAgent({
      ...this.#shared(),
      graph,
      inputs,
      settings: { ...testSettings, ipv6: this.recorded.input.ipv6 },
      registry: new Registry(),
    })
    this.#select = () => agent.selectZdsPods()
    graph.commit()
    await agent.start(this.#controller.signal)
    this.#zds.server.open()
    while (agent.pending().length > 0) await new Promise((resolve) => setTimeout(resolve, 5))
    await agent.idle()
  }

  async #end({ error, retryable, patches = [] }: Entry): Promise<void> {
    const deviation = this.recorded.deviation?.expect
    // Where the original failed half-way, ours goes on to ztunnel.
    while (!this.#isOver && deviation?.noErrors === true) {
      for (const connection of this.#connections.values())
        if (connection.waiting.length > 0) await connection.acknowledge()
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    const failure = await this.#operation
    const isFirst = this.recorded.sequence.some(({ operation }) => operation === 'firstSnapshot')
    const shouldFail = (error ?? null) !== null && deviation?.noErrors !== true
    const isFree = deviation?.snapshot !== undefined || isFirst
    const mayDo = deviation?.patches !== undefined && deviation.noErrors !== true
    if (!isFree && (failure !== undefined) !== shouldFail && !mayDo) {
      this.#differences.push(
        `ends with ${failure?.message ?? 'success'} where ${shouldFail ? 'a failure' : 'success'} was recorded`,
      )
    }
    if (failure !== undefined && shouldFail && failure instanceof Retryable !== retryable) {
      this.#differences.push(`${failure.message} is${retryable === true ? ' not' : ''} retryable`)
    }
    if (isFirst) return
    const seen = JSON.stringify(this.#patches)
    const wanted = JSON.stringify(patches.map(({ body }) => body))
    const words = this.#patches.map((body) => JSON.stringify(body))
    const fits = deviation?.patches?.some((value) => words.length === 1 && words[0] === JSON.stringify(toPatch(value)))
    // Whoever succeeds where the original failed has written that it did.
    const isMended = deviation?.patches !== undefined && failure === undefined && words.length === 1
    if (seen !== wanted && fits !== true && !isMended)
      this.#differences.push(`patches ${seen} where ${wanted} was recorded`)
  }

  async #compareState({ probeSet = {}, rulesIn = [] }: Entry): Promise<void> {
    const { mayPrune = [], ...instead } = this.recorded.deviation?.expect ?? {}
    const isLast = this.recorded.sequence.findLast(({ observe }) => observe === 'state')?.probeSet === probeSet
    const isFree = instead.noErrors === true || instead.patches !== undefined || instead.snapshot !== undefined
    const wanted = new Map(Object.entries((isLast ? instead.probeSet : undefined) ?? probeSet))
    const entries = [...(await this.parts.probeSet.list())].filter(([ip]) => !mayPrune.includes(ip))
    for (const ip of mayPrune) wanted.delete(ip)
    if (!isFree && formatMap(entries) !== formatMap([...wanted])) {
      this.#differences.push(`probe set ${formatMap(entries)} where ${formatMap([...wanted])} was recorded`)
    }
    const inside: string[] = []
    for (const [name, netns] of this.parts.netns) {
      const handle = openNetnsFile(netns.path)
      const options = {
        ...testSettings,
        bypassInbound: false,
        virtualInterfaces: [],
        excludedInboundPorts: [],
        excludedOutboundCidrs: [],
      }
      if ((await this.parts.rules.check(handle, { ...options, ipv6: this.recorded.input.ipv6 })) !== 'absent')
        inside.push(name)
      handle.close()
    }
    const expected = (isLast ? instead.rulesIn : undefined) ?? rulesIn
    if (inside.join() !== expected.join())
      this.#differences.push(`rules in ${inside.join() || 'none'} where ${expected.join() || 'none'} was recorded`)
  }

  async #say(conn: string, { hex = '', message }: Entry): Promise<void> {
    if (message?.ack !== undefined && this.#skippedAck.delete(conn)) return
    await this.#connections.get(conn)?.say(hex)
  }

  async #hear(conn: string, entry: Entry): Promise<void> {
    const connection = this.#connections.get(conn)
    const wanted = entry.hex ?? ''
    const deviation = this.recorded.deviation?.expect
    for (let turn = 0; turn < 2_000 && (connection?.waiting.length ?? 0) === 0; turn++) {
      if (this.#isOver && this.#acknowledged.has(`${conn} ${wanted}`)) {
        this.#skippedAck.add(conn)
        return
      }
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    if (connection === undefined || connection.waiting.length === 0) {
      this.#differences.push(`${conn} did not hear ${JSON.stringify(entry.message)}`)
      this.#skippedAck.add(conn)
      return
    }
    const heard = await connection.next()
    if (heard === 'end') {
      this.#differences.push(`${conn} ended instead of ${JSON.stringify(entry.message)}`)
      return
    }
    this.#acknowledged.add(`${conn} ${heard.hex}`)
    const request = decodeRequest(Buffer.from(heard.hex, 'hex'))
    if (deviation?.snapshot !== undefined && request?.kind !== 'snapshotSent') {
      // More than was recorded: taken, and the recorded one comes after it.
      await connection.say('0a00')
      return this.#hear(conn, entry)
    }
    const isFreeOrder = request?.kind === 'keep' || request?.kind === 'add'
    const inSnapshot = this.recorded.sequence.some((other) => other.conn === conn && other.hex === heard.hex)
    if (heard.hex !== wanted && !(isFreeOrder && inSnapshot)) {
      this.#differences.push(`${conn} heard ${JSON.stringify(request)} instead of ${JSON.stringify(entry.message)}`)
    }
    const inode = entry.fdOf?.map((name) => {
      const netns = openNetnsFile(this.parts.netns.get(name)?.path ?? '')
      netns.close()
      return netns.inode
    })
    if (heard.hex === wanted && heard.inodes.join() !== (inode ?? []).join())
      this.#differences.push(`${conn} got another descriptor`)
  }

  #shared() {
    const annotator: PodAnnotator = {
      annotate: (_pod, value) => {
        this.#patches.push(toPatch(value ?? null))
        return this.#refusesPatches
          ? Promise.reject(new Retryable('the API server refuses'))
          : Promise.resolve('written')
      },
    }
    const { rules, probeSet, proc, workers, hostNetns } = this.parts
    const finder = createNetnsFinder({ procRoot: proc, hostPrefix: '', workers, log: silentLogger, hostNetns })
    return { rules, probeSet, ztunnels: this.#zds.server, finder, annotator, clock: systemClock, log: silentLogger }
  }
}

function toPatch(value: string | null): object {
  return { metadata: { annotations: { [redirectionAnnotation]: value } } }
}

function formatMap(entries: readonly (readonly [string, string])[]): string {
  return entries
    .map(([ip, uid]) => `${ip}=${uid}`)
    .sort()
    .join(' ')
}
