// SPDX-License-Identifier: Apache-2.0
// Plays again what was recorded with a real ztunnel while connections were open, with our rules and our server in the place of the recorder's: which of them
// live on, where new ones get to.

import { setTimeout as sleep } from 'node:timers/promises'
import { formatError } from '../../../src/base/errors.js'
import type { NetnsWorkers } from '../../../src/node-agent/netns/workers.js'
import { listSockets } from '../../peer/served-sockets.js'
import { until } from '../../peer/ztunnel.js'
import type { TestBackend } from '../../support/rule-backends.js'
import { addressOf, type Place } from '../../support/traffic-room.js'
import { EnrolledTraffic, type PodPlace } from './enrolled-traffic.js'
import type { Entry, RecordedConversation } from './zds-agent.js'

interface LiveEntry extends Entry {
  readonly which?: string
  readonly carries?: boolean
  readonly works?: boolean
  readonly pod?: string
  readonly counts?: Readonly<Record<string, number>>
}

const pods: readonly PodPlace[] = ['podA', 'podB']

/** Whether a recording is of this kind. */
export function isLive({ conversation }: RecordedConversation): boolean {
  return conversation.some(({ observe }) => observe === 'established connection' || observe === 'new connection')
}

const knownEvents =
  /^(agent listens|connection accepted|end of stream|ztunnel starts|ztunnel exits|SIGTERM|rules (made|removed) in both pods)$/
const knownSights = ['established connection', 'new connection', 'listeners per address']

/** Why a recording cannot be played here; undefined when it can. */
export function whyNotPlayedLive({ conversation }: RecordedConversation): string | undefined {
  for (const { event, observe } of conversation) {
    if (event !== undefined && !knownEvents.test(event)) return `nobody here can do "${event}"`
    if (observe !== undefined && !knownSights.includes(observe)) return `nobody here can see "${observe}"`
  }
  return undefined
}

/** Differences, empty when all is as recorded. */
export async function playLive(
  recorded: RecordedConversation,
  backend: TestBackend,
  workers: NetnsWorkers,
): Promise<readonly string[]> {
  const traffic = await EnrolledTraffic.open(backend, workers)
  try {
    return await new LivePlayer(recorded, traffic).play()
  } finally {
    await traffic.close()
  }
}

class LivePlayer {
  readonly #recorded: RecordedConversation
  readonly #traffic: EnrolledTraffic
  readonly #differences: string[] = []
  /** Open connections, by where they go; whether they were there before any rules. */
  readonly #open = new Map<string, { readonly isOlderThanRules: boolean }>()
  /** After a ztunnel was told to end: for each connection what was recorded and what is so, moment by moment. */
  readonly #fading = new Map<string, { readonly recorded: boolean[]; readonly seen: boolean[] }>()
  #hasRules = false
  /** When the last ztunnel was told to end, here and in the recording, in milliseconds. */
  #told: { readonly here: number; readonly there: number } | undefined

  constructor(recorded: RecordedConversation, traffic: EnrolledTraffic) {
    this.#recorded = recorded
    this.#traffic = traffic
  }

  async play(): Promise<readonly string[]> {
    const { conversation } = this.#recorded
    const makesRules = conversation.some(({ event }) => event === 'rules made in both pods')
    if (!makesRules) await this.#makeRules()
    for (const pod of pods) if (this.#isInSnapshot(pod)) this.#traffic.want(pod)
    for (const entry of conversation) await this.#perform(entry)
    this.#compareFading()
    return this.#differences
  }

  #isInSnapshot(pod: PodPlace): boolean {
    const end = this.#recorded.conversation.findIndex(({ hex }) => hex === '1a00')
    return this.#recorded.conversation.slice(0, end).some(({ fdOf = [] }) => fdOf.includes(pod))
  }

  async #makeRules(): Promise<void> {
    for (const pod of pods) await this.#traffic.makeRules(pod)
    this.#hasRules = true
  }

  async #perform(entry: LiveEntry): Promise<void> {
    const { zt = '', dir, hex } = entry
    if (entry.observe !== undefined) return this.#observe(entry)
    if (dir === 'agent->ztunnel' && /^12/.test(hex ?? '')) {
      const uid = Buffer.from(hex ?? '', 'hex')
        .subarray(4)
        .toString()
      const pod = uid.endsWith('b') ? 'podB' : 'podA'
      return this.#traffic.tellRemoval(pod)
    }
    // All other messages are those of a snapshot, which our server makes itself.
    if (dir !== undefined) return
    switch (entry.event) {
      case 'agent listens':
      case 'connection accepted':
      case 'end of stream':
        return
      case 'ztunnel starts':
        await this.#traffic.startZtunnel(zt, this.#graceOf())
        return
      case 'rules made in both pods':
        return this.#makeRules()
      case 'rules removed in both pods':
        for (const pod of pods) await this.#traffic.takeRulesOut(pod)
        return
      case 'SIGTERM': {
        const { server, ztunnels } = this.#traffic
        const before = server.connected
        this.#told = { here: performance.now(), there: entry.ms }
        ztunnels.get(zt)?.signal('SIGTERM')
        return this.#wait('the end of the conversation', () => server.connected < before)
      }
      case 'ztunnel exits': {
        const code = await this.#traffic.ztunnels.get(zt)?.ended()
        if (code !== entry.code) this.#differences.push(`${zt} exits with ${code} instead of ${entry.code}`)
        return
      }
      default:
        throw new Error(`the player does not know how to do "${entry.event ?? ''}"`)
    }
  }

  /** The recording says it in words alone. */
  #graceOf(): Readonly<Record<string, string>> {
    const seconds = /grace period of (\d+)/.exec(this.#recorded.about)?.[1]
    return seconds === undefined ? {} : { TERMINATION_GRACE_PERIOD_SECONDS: seconds }
  }

  async #observe(entry: LiveEntry): Promise<void> {
    const { observe, which = '', carries = false, works, pod, counts = {} } = entry
    switch (observe) {
      case 'established connection':
        return this.#observeOpen(entry, which, carries)
      case 'new connection': {
        const { answered } = await this.#call(which)
        if (answered !== works) this.#differences.push(`new connection ${which}: ${answered} instead of ${works}`)
        return
      }
      case 'listeners per address': {
        const wanted = Object.entries(counts)
          .flatMap(([address, count]) => (/:150\d\d$/.test(address) ? Array<string>(count).fill(address) : []))
          .sort()
          .join()
        const list = (): string => listSockets(this.#traffic.room.netns[pod as Place]).join()
        return this.#wait(`sockets in ${pod}: ${wanted}`, () => list() === wanted)
      }
      default:
        throw new Error(`the player does not know how to observe "${observe ?? ''}"`)
    }
  }

  async #observeOpen({ ms }: Entry, which: string, carries: boolean): Promise<void> {
    const { from, name } = parseWay(which)
    const known = this.#open.get(name)
    if (known === undefined) {
      await this.#call(which, name)
      this.#open.set(name, { isOlderThanRules: !this.#hasRules })
    }
    if (this.#told !== undefined) {
      const { here, there } = this.#told
      await sleep(Math.max(0, here + ms - there - performance.now()))
    }
    const seen = await this.#traffic.room.at(from).carries(name)
    if (this.#told !== undefined) {
      const fading = this.#fading.get(name) ?? { recorded: [], seen: [] }
      this.#fading.set(name, fading)
      fading.recorded.push(carries)
      fading.seen.push(seen)
      return
    }
    // Ours reset nothing that was open when they came.
    const wanted = carries || known?.isOlderThanRules === true
    if (seen !== wanted) this.#differences.push(`${which} carries: ${seen} instead of ${wanted}`)
  }

  /** The end may come one look earlier or later, and nothing comes back. */
  #compareFading(): void {
    for (const [name, { recorded, seen }] of this.#fading) {
      const count = (list: readonly boolean[]): number => list.filter(Boolean).length
      const isMonotone = seen.lastIndexOf(true) + 1 === count(seen)
      if (!isMonotone || Math.abs(count(seen) - count(recorded)) > 1) {
        this.#differences.push(`${name} carries ${seen.join()} instead of ${recorded.join()}`)
      }
    }
  }

  #call(which: string, keepAs?: string): ReturnType<ReturnType<EnrolledTraffic['room']['at']>['call']> {
    const { from, to } = parseWay(which)
    const dst = addressOf(to)
    const port = to === 'outside' ? 80 : 8080
    return this.#traffic.room.at(from).call({ dst, port, ...(keepAs !== undefined && { keepAs }) })
  }

  async #wait(what: string, isSo: () => boolean): Promise<void> {
    await until(
      () => Promise.resolve(isSo()),
      () => what,
      10_000,
    ).catch((error: unknown) => this.#differences.push(formatError(error)))
  }
}

/** `podA to outside, ...`: from where to where; what follows is for people. */
function parseWay(which: string): { from: Place; to: Exclude<Place, 'node'>; name: string } {
  const [name, from, to] = /^(podA|podB|outside) to (podA|podB|outside)/.exec(which) ?? []
  if (name === undefined) throw new Error(`the player does not know the way "${which}"`)
  return { from: from as Place, to: to as Exclude<Place, 'node'>, name }
}
