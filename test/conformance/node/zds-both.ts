// SPDX-License-Identifier: Apache-2.0
// Plays again what was recorded between the original agent and the real ztunnel, with ours in the place of the agent: real rules, real namespaces, our server, a
// real ztunnel. Compares every message in between and what can be seen in the pods.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Registry } from 'prom-client'
import { systemClock } from '../../../src/base/clock.js'
import { formatError } from '../../../src/base/errors.js'
import { silentLogger } from '../../../src/base/log.js'
import type { PodIdentity, PodRules, ZdsPod } from '../../../src/node-agent/contracts.js'
import { openNetnsFile } from '../../../src/node-agent/netns/handle.js'
import type { Netns } from '../../../src/node-agent/netns/netns.js'
import { parsePodOverrides } from '../../../src/node-agent/rules/overrides.js'
import { createProcesses } from '../../../src/node-agent/zds/processes.js'
import { createZdsServer, type ZdsServer } from '../../../src/node-agent/zds/server.js'
import { LocalZtunnels } from '../../peer/local-ztunnel.js'
import { listSockets } from '../../peer/served-sockets.js'
import { until, type Ztunnel } from '../../peer/ztunnel.js'
import { probeAddress4, probeAddress6 } from '../../support/packet-room.js'
import { createTestNetworks, type TestNetns } from '../../support/test-netns.js'
import { ZdsTap } from '../../support/zds-tap.js'
import type { Entry, RecordedConversation } from './zds-agent.js'
import { listRecorded, listTapped } from './zds-transcript.js'

/** What such a recording has beside the messages. */
interface BothEntry extends Entry {
  readonly pod?: string
  readonly present?: boolean
  readonly sockets?: readonly { readonly proto: string; readonly address: string }[]
}

interface Place {
  readonly netns: TestNetns
  readonly handle: Netns
  /** Policy rules and routes before anybody touched it. */
  readonly routing: string
}

const knownEvents = [
  /^agent (has its socket|begins to accept|operation begins|operation ends|closes the connection|is killed)$/,
  /^ztunnel (starts|connects|closes)$/,
  /^somebody takes the lock file of the node$/,
  /^the lock is released$/,
  /^somebody removes the ip rule in \S+$/,
]
const knownOperations = ['cached', 'ensure', 'add', 'unenrol', 'del']
const knownSights = ['readiness', 'metrics', 'redirect rules', 'listening sockets', 'left in the pod']

/** Why a recording cannot be played here; undefined when it can. */
export function whyNotPlayedByBoth({ conversation }: RecordedConversation): string | undefined {
  for (const { event, observe, operation } of conversation) {
    if (event !== undefined && !knownEvents.some((known) => known.test(event))) return `nobody here can do "${event}"`
    if (operation !== undefined && !knownOperations.includes(operation)) return `nobody here can do "${operation}"`
    if (observe !== undefined && !knownSights.includes(observe)) return `nobody here can see "${observe}"`
  }
  return undefined
}

/** Differences, empty when all is as recorded. */
export async function playBoth(recorded: RecordedConversation, rules: PodRules): Promise<readonly string[]> {
  const player = new BothPlayer(recorded, rules)
  try {
    return await player.play()
  } finally {
    await player.close()
  }
}

class BothPlayer {
  readonly #folder = mkdtempSync(join(tmpdir(), 'zds-both-'))
  readonly #recorded: RecordedConversation
  readonly #expect: Readonly<Record<string, unknown>>
  readonly #rules: PodRules
  readonly #networks = createTestNetworks()
  readonly #places = new Map<string, Place>()
  readonly #wanted = new Map<string, ZdsPod>()
  readonly #tap = new ZdsTap(join(this.#folder, 'tap.sock'), join(this.#folder, 'zds.sock'))
  readonly #local = new LocalZtunnels([], [], join(this.#folder, 'tap.sock'))
  readonly #ztunnels = new Map<string, Ztunnel>()
  readonly #differences: string[] = []
  /** Operations whose end is not yet in the recording: uid to what became of ours. */
  readonly #begun = new Map<string, Promise<string | undefined>>()
  #server: ZdsServer | undefined
  #lock: ChildProcess | undefined

  constructor(recorded: RecordedConversation, rules: PodRules) {
    this.#recorded = recorded
    this.#expect = recorded.deviation?.expect ?? {}
    this.#rules = rules
    for (const { pod, ip } of recorded.setup as readonly { readonly pod?: string; readonly ip?: string }[]) {
      if (pod === undefined) continue
      const netns = this.#networks.add(pod)
      netns.addAddress(`${ip ?? '10.77.0.2'}/32`)
      this.#places.set(pod, { netns, handle: openNetnsFile(netns.path), routing: listRouting(netns) })
    }
  }

  async play(): Promise<readonly string[]> {
    for (const [at, entry] of this.#recorded.conversation.entries()) await this.#perform(entry, at)
    this.#compareMessages()
    return this.#differences
  }

  async close(): Promise<void> {
    this.#lock?.kill('SIGKILL')
    await this.#local.close()
    this.#tap.close()
    this.#server?.close()
    for (const { handle } of this.#places.values()) handle.close()
    this.#networks.close()
    rmSync(this.#folder, { recursive: true, force: true })
  }

  async #perform(entry: BothEntry, at: number): Promise<void> {
    // Messages are compared when all is over.
    if (entry.dir !== undefined) return
    if (entry.observe !== undefined) return this.#observe(entry)
    switch (entry.event) {
      case 'agent has its socket':
        this.#startServer()
        return
      case 'agent begins to accept':
        this.#server?.open()
        this.#tap.open()
        return
      case 'ztunnel starts':
        this.#ztunnels.set(entry.zt ?? '', await this.#local.start())
        return
      case 'ztunnel connects':
        return this.#wait('a ztunnel with its snapshot', () => Promise.resolve(this.#server?.ready === 1))
      case 'agent operation begins':
        await this.#begin(entry, at)
        return
      case 'agent operation ends':
        return this.#end(entry)
      case 'agent closes the connection':
        return
      case 'agent is killed':
        this.#tap.close()
        this.#server?.close()
        this.#server = undefined
        this.#wanted.clear()
        return
      case 'ztunnel closes':
        for (const ztunnel of this.#ztunnels.values()) await ztunnel.stop()
        return
      case 'somebody takes the lock file of the node':
        return this.#takeLock()
      case 'the lock is released':
        this.#lock?.kill('SIGKILL')
        return
      default: {
        const pod = /^somebody removes the ip rule in (\S+)$/.exec(entry.event ?? '')?.[1]
        if (pod === undefined) throw new Error(`the player does not know how to do "${entry.event ?? ''}"`)
        this.#placeOf(pod).netns.run(['ip', 'rule', 'delete', 'fwmark', '0x111/0xfff', 'lookup', '100'])
      }
    }
  }

  #startServer(): void {
    this.#server = createZdsServer({
      path: join(this.#folder, 'zds.sock'),
      select: () => [...this.#wanted.values()],
      // The tap stands in front of every ztunnel: nobody can be told from anybody.
      processes: createProcesses(join(this.#folder, 'no-proc')),
      clock: systemClock,
      log: silentLogger,
      registry: new Registry(),
    })
    this.#server.listen()
  }

  async #begin({ operation, uid }: BothEntry, at: number): Promise<void> {
    const id = uid ?? ''
    await this.#begun.get(id)
    const work = this.#operate(operation ?? '', id, at).then(
      () => undefined,
      (error: unknown) => formatError(error),
    )
    this.#begun.set(id, work)
    if (this.#lock === undefined) {
      await work
      return
    }
    const waiting = new AbortController()
    const outcome = await Promise.race([
      work,
      sleep(2500, 'waits' as const, { signal: waiting.signal }).catch(() => undefined), // over before that
    ])
    waiting.abort()
    if ((outcome === 'waits') !== (this.#expect['waits'] ?? true)) {
      this.#differences.push(`${operation} of ${id} ${outcome === 'waits' ? 'waits' : 'does not wait'} for the lock`)
    }
  }

  async #operate(operation: string, uid: string, at: number): Promise<void> {
    const { pod, place } = this.#podOf(uid, at)
    const server = this.#server
    if (server === undefined) throw new Error('no agent runs')
    switch (operation) {
      case 'cached':
        this.#wanted.set(uid, { pod, netns: place?.handle })
        return
      case 'ensure':
        this.#wanted.set(uid, { pod, netns: undefined })
        return
      case 'add':
        if (place === undefined) throw new Error(`nothing is known of the namespace of ${uid}`)
        await this.#rules.apply(place.handle, optionsOf(pod))
        this.#wanted.set(uid, { pod, netns: place.handle })
        return server.add(pod, place.handle)
      case 'unenrol': {
        const netns = this.#wanted.get(uid)?.netns
        if (netns !== undefined) await this.#rules.remove(netns)
        this.#wanted.delete(uid)
        return server.remove(uid)
      }
      case 'del':
        this.#wanted.delete(uid)
        return server.remove(uid)
      default:
        throw new Error(`the player does not know the operation "${operation}"`)
    }
  }

  async #end({ operation, uid, error }: BothEntry): Promise<void> {
    const got = await this.#begun.get(uid ?? '')
    const fails = (error ?? null) !== null && this.#expect['failed'] !== false
    if ((got !== undefined) !== fails) {
      this.#differences.push(
        `${operation} of ${uid} ends with ${got ?? 'success'} instead of ${fails ? 'an error' : 'success'}`,
      )
    }
  }

  /** Names and namespace as the recording has them, in any message about the pod. */
  #podOf(uid: string, at: number): { pod: PodIdentity; place: Place | undefined } {
    const told = [...this.#recorded.conversation.slice(at), ...this.#recorded.conversation].find(
      ({ message }) => message?.add?.uid === uid,
    )
    const { name = uid, namespace = 'default', serviceAccount = 'sa' } = told?.message?.add?.workloadInfo ?? {}
    const place = told?.fdOf?.[0] === undefined ? undefined : this.#placeOf(told.fdOf[0])
    return { pod: { uid, name, namespace, serviceAccount }, place }
  }

  #placeOf(pod: string | undefined): Place {
    const place = this.#places.get(pod ?? '')
    if (place === undefined) throw new Error(`the recording set up no pod ${pod}`)
    return place
  }

  async #observe(entry: BothEntry): Promise<void> {
    const { observe, zt = '', pod, status, values, present, sockets } = entry
    const ztunnel = this.#ztunnels.get(zt)
    switch (observe) {
      case 'readiness':
        return this.#wait(`status ${status} of ${zt}`, async () => (await ztunnel?.readiness()) === status)
      case 'metrics':
        for (const [name, value] of Object.entries(values ?? {})) {
          await this.#wait(`${name} ${value}`, async () => (await ztunnel?.metric(name)) === value)
        }
        return
      case 'redirect rules':
        if (this.#hasRules(this.#placeOf(pod)) !== present)
          this.#differences.push(`rules in ${pod} are not: ${present}`)
        return
      case 'listening sockets': {
        // Where the original failed before it told ztunnel and ours does not, they are gone already.
        const isTold = this.#expect['failed'] === false && !this.#hasRules(this.#placeOf(pod))
        const wanted = isTold ? [] : (sockets ?? []).map(({ proto, address }) => `${proto} ${address}`).sort()
        const list = (): string => listSockets(this.#placeOf(pod).netns).join()
        return this.#wait(`sockets in ${pod}: ${wanted.join()}`, () => Promise.resolve(list() === wanted.join()))
      }
      case 'left in the pod': {
        const { netns, routing } = this.#placeOf(pod)
        // Otherwise the original's leftovers would have to be made on purpose.
        if (this.#expect['left'] !== 'nothing') throw new Error('the player only knows pods in which nothing is left')
        if (listRouting(netns) !== routing) this.#differences.push(`left in ${pod}: ${listRouting(netns)}`)
        return
      }
      default:
        throw new Error(`the player does not know how to observe "${observe ?? ''}"`)
    }
  }

  #hasRules({ netns }: Place): boolean {
    const tools = ['iptables-legacy-save', 'ip6tables-legacy-save']
    const texts = [netns.run(['nft', 'list', 'ruleset']), ...tools.map((tool) => netns.tryRun([tool]).stdout)]
    return texts.some((text) => /1500[16]/.test(text))
  }

  async #takeLock(): Promise<void> {
    this.#lock = spawn('flock', ['--no-fork', '/run/xtables.lock', 'sh', '-c', 'echo taken; exec sleep 60'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await once(this.#lock.stdout!, 'data')
  }

  async #wait(what: string, isSo: () => Promise<boolean>): Promise<void> {
    await until(isSo, () => what, 10_000).catch((error: unknown) => this.#differences.push(formatError(error)))
  }

  #compareMessages(): void {
    const podOf = (inode: bigint): string =>
      [...this.#places].find(([, { handle }]) => handle.inode === inode)?.[0] ?? String(inode)
    const recorded = listRecorded(this.#recorded.conversation)
    const got = listTapped(this.#tap.conversations, podOf)
    if (JSON.stringify(got) !== JSON.stringify(recorded)) {
      this.#differences.push(`said ${JSON.stringify(got)} instead of ${JSON.stringify(recorded)}`)
    }
  }
}

function optionsOf({ namespace, name }: PodIdentity): ReturnType<typeof parsePodOverrides>['options'] {
  const defaults = { ipv6: true, dnsCapture: true, probeAddress4, probeAddress6 }
  return parsePodOverrides({ namespace, name, annotations: {} }, defaults).options
}

function listRouting(netns: TestNetns): string {
  const commands = ['ip rule', 'ip -6 rule', 'ip route show table 100', 'ip -6 route show table 100']
  return commands.map((command) => netns.tryRun(command.split(' ')).stdout).join('')
}
