// SPDX-License-Identifier: Apache-2.0
// Plays the agent's part of a recorded conversation against the fake ztunnel and compares what it answers with what the real one did: whether it says
// yes or no, when it hangs up, comes back, exits, is ready. Ports and traffic are the real one's alone.

import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { RecordSocket } from '../../../src/node-agent/zds/record-socket.js'
import { acceptOne, closeDescriptor, listenAt } from '../../../src/node-agent/zds/seqpacket.js'
import { decodeAcknowledgement } from '../../../src/node-agent/zds/messages.js'
import type { FakeClock } from '../../support/fake-clock.js'
import { FakeNodeZtunnel } from '../../support/fake-node-ztunnel.js'
import type { Entry, RecordedConversation } from './zds-agent.js'

const knownEvents = new Set([
  'agent listens',
  'ztunnel starts',
  'connection accepted',
  'agent closes the connection',
  'end of stream',
  'ztunnel exits',
  'SIGTERM',
  'nothing received within',
  'the process leaves',
  'the pod has all seven sockets',
])
const taken = /^a process of (?:the pod|(\S+)) listens on .* without reuse$/
/** What only the real one has; the rest of such a case is played all the same. */
const realOnly = new Set(['listening sockets', 'workload state', 'listeners per address'])
const compared = new Set(['readiness', 'metrics'])

/** Why the fake cannot be held to this conversation; undefined when it can. */
export function whyNotPlayable({ side, conversation }: RecordedConversation): string | undefined {
  if (side !== 'ztunnel') return 'the conversation was recorded between two originals'
  const isTaken = conversation.some(({ event = '' }) => taken.test(event))
  for (const { event, observe, fds = 0, dir, hex } of conversation) {
    if (event !== undefined && !knownEvents.has(event) && !taken.test(event))
      return `only a real ztunnel can do "${event}"`
    if (observe !== undefined && !compared.has(observe) && !realOnly.has(observe))
      return `only a real ztunnel has "${observe}"`
    if (!isTaken && isFailedStart(hex)) return 'only a real ztunnel opens ports'
    if (fds > 1) return 'more than one descriptor is never sent from here'
    if (dir === 'agent->ztunnel' && (hex ?? '') === '') return 'the record is not in the recording, or empty'
  }
  return undefined
}

/** The answer to an add whose proxy did not start. */
function isFailedStart(hex: string | null | undefined): boolean {
  return Buffer.from(hex ?? '', 'hex').includes('failure to start proxy')
}

interface Accepted {
  readonly socket: RecordSocket
  readonly heard: (Buffer | 'end')[]
}

/** Differences, empty when the fake does what the real one did. */
export async function playAgent(recorded: RecordedConversation, clock: FakeClock): Promise<readonly string[]> {
  const player = new AgentPlayer(recorded, clock)
  try {
    return await player.play()
  } finally {
    player.close()
  }
}

class AgentPlayer {
  readonly #folder = mkdtempSync(join(tmpdir(), 'zds-agent-'))
  readonly #recorded: RecordedConversation
  readonly #clock: FakeClock
  readonly #differences: string[] = []
  readonly #connections = new Map<string, Accepted>()
  readonly #ztunnels = new Map<string, FakeNodeZtunnel>()
  readonly #namespaces = new Map<string, number>()
  readonly #taken = new Set<string>()
  #listener: number | undefined

  constructor(recorded: RecordedConversation, clock: FakeClock) {
    this.#recorded = recorded
    this.#clock = clock
    for (const { pod } of recorded.setup) {
      if (pod === undefined) continue
      writeFileSync(join(this.#folder, pod), '')
      this.#namespaces.set(pod, openSync(join(this.#folder, pod), 'r'))
    }
  }

  async play(): Promise<readonly string[]> {
    for (const entry of this.#recorded.conversation) {
      // The first moments of a ztunnel take the fake no time, and waits in between are only waits.
      await this.#settle()
      await this.#perform(entry)
    }
    return this.#differences
  }

  close(): void {
    for (const ztunnel of this.#ztunnels.values()) ztunnel.stop()
    for (const { socket } of this.#connections.values()) socket.close()
    if (this.#listener !== undefined) closeDescriptor(this.#listener)
    for (const fd of this.#namespaces.values()) closeSync(fd)
    rmSync(this.#folder, { recursive: true, force: true })
  }

  async #perform(entry: Entry): Promise<void> {
    const name = entry.conn ?? ''
    if (entry.dir === 'agent->ztunnel') return this.#say(name, entry)
    if (entry.dir === 'ztunnel->agent') return this.#hear(name, entry)
    if (entry.observe !== undefined) {
      this.#compare(entry)
      return
    }
    const ztunnel = this.#ztunnels.get(entry.zt ?? '')
    const pod = taken.exec(entry.event ?? '')
    if (pod !== null) {
      this.#taken.add(pod[1] ?? this.#recorded.setup[0]?.pod ?? '')
      return
    }
    switch (entry.event) {
      case 'agent listens':
        this.#listener = listenAt(join(this.#folder, 'socket'), 16)
        return
      case 'ztunnel starts': {
        const started = new FakeNodeZtunnel({ zds: join(this.#folder, 'socket'), clock: this.#clock })
        this.#ztunnels.set(entry.zt ?? '', started)
        for (const uid of this.#uidsOf(this.#taken)) started.answer(uid, { error: 'port taken' })
        started.start()
        return
      }
      case 'connection accepted':
        return this.#accept(name)
      case 'agent closes the connection':
        this.#connections.get(name)?.socket.close()
        return
      case 'end of stream': {
        const heard = await this.#next(name)
        if (heard !== 'end') this.#differ(name, 'goes on', 'hangs up')
        return
      }
      case 'ztunnel exits': {
        const code = ztunnel?.exitCode ?? 0
        if (code !== entry.code) this.#differ(entry.zt, `exits with ${code}`, `with ${String(entry.code)}`)
        return
      }
      case 'SIGTERM':
        ztunnel?.stop()
        return
      case 'the process leaves':
        for (const one of this.#ztunnels.values()) for (const uid of this.#uidsOf(this.#taken)) one.answer(uid, 'ok')
        this.#taken.clear()
        await this.#clock.advance(5000, () => this.#settle())
        return
      default:
    }
  }

  /** uids whose namespace is one of these pods'. */
  #uidsOf(pods: ReadonlySet<string>): readonly string[] {
    return this.#recorded.conversation.flatMap(({ message, fdOf = [] }) =>
      message?.add !== undefined && fdOf.some((pod) => pods.has(pod)) ? [message.add.uid] : [],
    )
  }

  async #accept(name: string): Promise<void> {
    for (let turn = 0; turn < 500; turn++) {
      const fd = this.#listener === undefined ? undefined : acceptOne(this.#listener)
      if (fd === undefined) {
        await this.#settle()
        await this.#clock.advance(20, () => this.#settle())
        continue
      }
      const accepted: Accepted = { socket: new RecordSocket(fd), heard: [] }
      accepted.socket.start({
        onRecord: ({ bytes, descriptors }) => {
          descriptors.forEach(closeDescriptor)
          accepted.heard.push(bytes)
        },
        onEnd: () => accepted.heard.push('end'),
      })
      this.#connections.set(name, accepted)
      return
    }
    this.#differ(name, 'does not come', 'is there')
  }

  async #say(name: string, { hex, fdOf = [] }: Entry): Promise<void> {
    const fd = this.#namespaces.get(fdOf[0] ?? '')
    await this.#connections.get(name)?.socket.send(Buffer.from(hex ?? '', 'hex'), fd)
  }

  async #hear(name: string, entry: Entry): Promise<void> {
    const heard = await this.#next(name)
    if (heard === 'end' || heard === undefined) {
      this.#differ(name, heard ?? 'nothing', entry.hex ?? 'a record')
      return
    }
    const recorded = entry.message?.ack
    if (recorded === undefined) {
      if (heard.toString('hex') !== entry.hex) this.#differ(name, heard.toString('hex'), entry.hex ?? '')
      return
    }
    const error = decodeAcknowledgement(heard)
    if ((error === '') !== (recorded.error === '')) this.#differ(name, `answers "${error}"`, `"${recorded.error}"`)
  }

  #compare({ observe, zt, status, values }: Entry): void {
    const ztunnel = this.#ztunnels.get(zt ?? '')
    if (ztunnel === undefined) return
    if (observe === 'readiness' && ztunnel.isReady !== (status === 200)) {
      this.#differ(zt, `is ready: ${ztunnel.isReady}`, `status ${String(status)}`)
    }
    const active = values?.['workload_manager_active_proxy_count']
    if (observe === 'metrics' && active !== undefined && ztunnel.holds.size !== active) {
      this.#differ(zt, `holds ${ztunnel.holds.size}`, `${active}`)
    }
  }

  async #next(name: string): Promise<Buffer | 'end' | undefined> {
    const { heard = [] } = this.#connections.get(name) ?? {}
    for (let turn = 0; turn < 50 && heard.length === 0; turn++) await this.#settle()
    return heard.shift()
  }

  #differ(what: string | undefined, got: string, wanted: string): void {
    this.#differences.push(`${what ?? ''}: ${got} instead of ${wanted}`)
  }

  async #settle(): Promise<void> {
    for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve))
  }
}
