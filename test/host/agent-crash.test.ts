// SPDX-License-Identifier: Apache-2.0
// The agent is killed wherever it can be, and started again: every pod ends in the mesh or cleanly out of it, as its labels say by then. Real processes,
// namespaces and rules on a made-up node. More by hand: CRASH_ROUNDS, CRASH_SEED.

import { afterAll, beforeAll, describe, jest } from '@jest/globals'
import { setTimeout as wait } from 'node:timers/promises'
import { hostParts } from '../support/host-parts.js'
import { findPlugin } from '../support/native-plugin.js'
import { testWith } from '../support/optional.js'
import { CrashRoom, type CrashBackend, type CrashPod } from './crash-room.js'
import { untilSo } from './crash-view.js'

// Only what hangs for good ends a test early.
jest.setTimeout(240_000)

/** Brings the agent to a halt somewhere, to be killed there. */
interface Halt {
  readonly sentence: string
  /** Pods that move; all when left out. */
  readonly moves?: 'one that joins' | 'one that leaves'
  /** Before pods move. */
  arm(room: CrashRoom): Promise<void> | void
  /** Resolves when the agent stands there. */
  reached(room: CrashRoom): Promise<void>
  /** When the agent is dead: nothing stops the next one. */
  disarm(room: CrashRoom): Promise<void>
}

const nothing = (): Promise<void> => Promise.resolve()

/** Pods that move in each crash: two join, two leave, two come by the plugin. */
const moving = 6

const atOnce: Halt = { sentence: 'as soon as it has heard of them', arm: nothing, reached: nothing, disarm: nothing }

let before = 0

const unacknowledged: Halt = {
  sentence: 'while ztunnel does not acknowledge',
  async arm(room) {
    const ztunnel = room.ztunnel('first')
    await untilSo('ztunnel is connected', () => ztunnel.state.isReady)
    before = ztunnel.state.records
    await ztunnel.answer('*', 'silence')
  },
  reached: (room) => untilSo('ztunnel is told', () => room.ztunnel('first').state.records > before),
  disarm: (room) => room.ztunnel('first').answer('*', 'ok'),
}

function countOtherRequests(room: CrashRoom): number {
  const { any, list, watch } = room.api.requests('Pod')
  return any - list - watch
}

const unwritten: Halt = {
  sentence: 'while the API server does not answer about annotations',
  arm(room) {
    before = countOtherRequests(room)
    room.api.api({ kind: 'Pod', verb: 'patch', answer: 'timeout', times: moving })
  },
  reached: (room) => untilSo('every annotation is on its way', () => countOtherRequests(room) >= before + moving),
  disarm: nothing,
}

/** A program goes on when the agent that started it is gone, or is killed with it. */
const stoppedTool = (tool: string, moves: 'one that joins' | 'one that leaves', how: 'goes on' | 'dies'): Halt => ({
  sentence: `while ${tool} runs for ${moves}, which ${how},`,
  moves,
  arm: (room) => room.gates.close(tool),
  reached: (room) => room.gates.reached(tool),
  disarm: (room) => room.gates.open(tool, how),
})

const halts: Readonly<Record<CrashBackend, readonly Halt[]>> = {
  netlink: [atOnce, unacknowledged, unwritten],
  'iptables-nft': [
    atOnce,
    unacknowledged,
    unwritten,
    stoppedTool('iptables-nft-restore', 'one that joins', 'dies'),
    stoppedTool('iptables-nft-restore', 'one that joins', 'goes on'),
    stoppedTool('ip6tables-nft-restore', 'one that joins', 'dies'),
    stoppedTool('ipset', 'one that joins', 'goes on'),
    stoppedTool('iptables-nft-restore', 'one that leaves', 'goes on'),
    stoppedTool('ip6tables-nft-restore', 'one that leaves', 'dies'),
    stoppedTool('ipset', 'one that leaves', 'dies'),
  ],
}

interface Added {
  readonly pod: CrashPod
  /** The exit code of the plugin. */
  readonly ended: Promise<number | null>
}

const rounds = Number(process.env['CRASH_ROUNDS'] ?? 9)
const seed = Number(process.env['CRASH_SEED'] ?? Date.now() % 1_000_000)

/** 0 up to 1, the same for the same seed. */
function createRandom(start: number): () => number {
  let state = start
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

const missingOf: Readonly<Record<CrashBackend, string | undefined>> = {
  netlink: hostParts.netns ?? hostParts.built ?? hostParts.nft ?? findPlugin(),
  'iptables-nft': hostParts.netns ?? hostParts.built ?? hostParts.iptablesNft ?? hostParts.ipset ?? findPlugin(),
}

describe.each(['netlink', 'iptables-nft'] as const)('by %s, an agent that is killed', (backend) => {
  const missing = missingOf[backend]
  const withHost = testWith(backend === 'netlink' ? 'nft' : 'iptables', missing)
  let room: CrashRoom
  let pods: readonly [CrashPod, CrashPod, CrashPod, CrashPod]
  let lastNew = 0

  beforeAll(async () => {
    if (missing !== undefined) return
    room = await CrashRoom.open(backend)
    pods = [
      await room.addPod('joins', false),
      await room.addPod('joins-and-leaves', false),
      await room.addPod('leaves', true),
      await room.addPod('leaves-and-returns', true),
    ]
    await room.settled()
  })
  afterAll(async () => {
    await (room as CrashRoom | undefined)?.close()
  })

  /** A new pod that the runtime is just adding. */
  async function add(): Promise<Added> {
    const pod = await room.makeSandbox(`new-${++lastNew}`, true)
    room.announce(pod, false)
    return { pod, ended: room.runCni('ADD', pod) }
  }

  /** As kubelet does: it runs, or what was begun is taken down and there is a new sandbox. */
  async function finish({ pod, ended }: Added): Promise<CrashPod> {
    if ((await ended) === 0) {
      room.announce(pod)
      return pod
    }
    await room.runCni('DEL', pod)
    await room.removeSandbox(pod)
    const next = await room.makeSandbox(pod.name, true, pod.uid)
    room.announce(next, false)
    await untilSo('the pod starts', async () => (await room.runCni('ADD', next)) === 0)
    room.announce(next)
    return next
  }

  withHost.each(halts[backend].map((halt) => [halt.sentence, halt] as const))(
    '%s leaves nothing half done',
    async (_, halt) => {
      const [joins, joinsAndLeaves, leaves, returns] = pods
      for (const pod of pods) room.want(pod, pod === leaves || pod === returns)
      await room.settled()
      await halt.arm(room)
      const isForAll = halt.moves === undefined
      if (halt.moves !== 'one that leaves') room.want(joinsAndLeaves, true)
      if (halt.moves !== 'one that joins') room.want(returns, false)
      if (isForAll) room.want(joins, true)
      if (isForAll) room.want(leaves, false)
      const [stays, goes] = isForAll ? [await add(), await add()] : []
      await halt.reached(room)
      await room.agent.kill('SIGKILL')
      await halt.disarm(room)
      room.want(joinsAndLeaves, false)
      room.want(returns, true)
      if (goes !== undefined) {
        await goes.ended
        await room.runCni('DEL', goes.pod)
        await room.removePod(goes.pod)
      }
      await room.startAgent()
      if (stays !== undefined) await finish(stays)
      await room.settled()
    },
  )

  withHost(`at any time, seed ${seed}, leaves nothing half done`, async () => {
    const random = createRandom(seed)
    const added: CrashPod[] = []
    for (let round = 0; round < rounds; round++) {
      for (const pod of pods) if (random() < 0.6) room.want(pod, !pod.isWanted)
      const one = random() < 0.5 ? await add() : undefined
      const gone = random() < 0.5 ? added.pop() : undefined
      if (gone !== undefined) void room.runCni('DEL', gone)
      await wait(random() * 200)
      await room.agent.kill('SIGKILL')
      if (gone !== undefined) await room.removePod(gone)
      // Most times all stays as it is: who changes his mind may have to wait for the regular look.
      if (random() < 0.25) for (const pod of pods) if (random() < 0.5) room.want(pod, !pod.isWanted)
      await room.startAgent()
      if (one !== undefined) added.push(await finish(one))
      await room.settled()
    }
  })
})
