// SPDX-License-Identifier: Apache-2.0
// Rows about the whole agent of a node, with an API server and a ztunnel in processes of their own: many pods at once and one after the other, a start among
// enrolled pods, and what the plugin's program costs.

import { setTimeout as sleep } from 'node:timers/promises'
import type { AgentAnswer } from './node-agent-program.js'
import type { ApiAnswer, ApiOrder } from './node-api-program.js'
import { createMachine, type Machine, type MachinePod } from './node-machine.js'
import { measurePlugin } from './node-plugin.js'
import { agentEnvironment, toText, type Sizes } from './node-rules.js'
import { selectMedian, startProgram, type Program } from './programs.js'
import type { Row } from './report.js'
import { programFile } from './subjects.js'

type Add = (row: Row) => void

export interface AgentRoom {
  readonly machine: Machine
  readonly api: Program
  order(order: ApiOrder): Promise<ApiAnswer>
}

interface Start {
  readonly loaded: AgentAnswer
  readonly reconciled: AgentAnswer
}

async function startAgent({ machine, api }: AgentRoom, pods: number): Promise<{ agent: Program; start: Start }> {
  const { url } = await api.line((line) => 'url' in line)
  const args = [programFile('node-agent-program'), String(url), machine.folder, String(pods)]
  const agent = startProgram('the agent', process.execPath, args, agentEnvironment)
  const { loaded } = await agent.line((line) => 'loaded' in line)
  const { reconciled } = await agent.line((line) => 'reconciled' in line)
  return { agent, start: { loaded, reconciled } }
}

interface Burst {
  readonly cpuUs: number
  readonly wallUs: number
  readonly stallMs: number
  readonly ownMs: number
}

/** From the change until the API server has the last word of the agent. */
async function measureBurst(room: AgentRoom, agent: Program, order: ApiOrder): Promise<Burst> {
  await sleep(300)
  await agent.ask({ mark: true })
  const { wallUs } = await room.order(order)
  const { cpuUs, stallMs, ownMs } = (await agent.ask({})) as AgentAnswer
  return { cpuUs, wallUs, stallMs, ownMs }
}

export async function measureAgent(add: Add, { rounds, pods, spare }: Sizes): Promise<void> {
  const machine = createMachine(pods + spare)
  const api = startProgram('the API server', process.execPath, [programFile('node-api-program')])
  const ztunnel = startProgram('the ztunnel', process.execPath, [
    programFile('node-ztunnel-program'),
    `${machine.folder}/ztunnel.sock`,
  ])
  const order = async (given: ApiOrder): Promise<ApiAnswer> => (await api.ask(given)) as ApiAnswer
  const room: AgentRoom = { machine, api, order }
  let agent: Program | undefined
  try {
    await api.line((line) => 'url' in line)
    const running = machine.pods.slice(0, pods)
    await order({ running })
    ;({ agent } = await startAgent(room, 0))
    await measureBursts(add, { room, agent, rounds, running })
    await order({ mesh: 'all' })
    const starts: Start[] = []
    for (let i = 0; i < rounds + 2; i++) {
      await agent.stop()
      const restarted = await startAgent(room, pods)
      agent = restarted.agent
      starts.push(restarted.start)
    }
    addStarts(add, starts, pods)
    await measurePlugin(add, room, machine.pods.slice(pods))
  } finally {
    await agent?.stop()
    await ztunnel.stop()
    await api.stop()
    machine.close()
  }
}

async function measureBursts(
  add: Add,
  { room, agent, rounds, running }: { room: AgentRoom; agent: Program; rounds: number; running: readonly MachinePod[] },
): Promise<void> {
  const names = running.map(({ name }) => name)
  const pods = names.length
  const [once, single, leaving]: Burst[][] = [[], [], []]
  for (let i = 0; i < rounds; i++) {
    once?.push(await measureBurst(room, agent, { mesh: 'all' }))
    leaving?.push(await measureBurst(room, agent, { mesh: 'none' }))
    single?.push(await measureBurst(room, agent, { mesh: { oneByOne: names } }))
    await room.order({ mesh: 'none' })
  }
  const middle = (bursts: readonly Burst[] = [], of: keyof Burst = 'wallUs'): number =>
    selectMedian(bursts.map((burst) => burst[of]))
  const onceUs = middle(once)
  const singleUs = middle(single)
  add({
    figure: `whole agent: ${pods} pods enrolled at once, wall`,
    unit: 'ms',
    addressd: onceUs / 1000,
    target: singleUs / 3000,
    note: `one after the other ${toText(singleUs)}`,
  })
  add({
    figure: `whole agent: ${pods} pods enrolled at once, CPU a pod`,
    unit: 'ms',
    addressd: middle(once, 'cpuUs') / 1000 / pods,
    note: `one after the other ${toText(middle(single, 'cpuUs') / pods)}`,
  })
  const longest = Math.max(...[...(once ?? []), ...(leaving ?? [])].map(({ stallMs }) => stallMs))
  add({
    figure: `whole agent: ${pods} pods enrolled at once, longest stall`,
    unit: 'ms',
    addressd: middle(once, 'stallMs'),
    target: 50,
    note: `middle of ${once?.length ?? 0}, of which its own work at most ${middle(once, 'ownMs').toFixed(1)} ms; the longest of all ${longest.toFixed(1)} ms`,
  })
  add({
    figure: `whole agent: ${pods} pods taken out at once, wall`,
    unit: 'ms',
    addressd: middle(leaving) / 1000,
    note: `CPU a pod ${toText(middle(leaving, 'cpuUs') / pods)}, stall ${middle(leaving, 'stallMs').toFixed(1)} ms`,
  })
}

function addStarts(add: Add, starts: readonly Start[], pods: number): void {
  const middle = (of: (start: Start) => number): number => selectMedian(starts.map(of))
  const loaded = middle(({ loaded }) => loaded.cpuUs)
  add({
    figure: `agent restarted among ${pods} enrolled pods, CPU`,
    unit: 's',
    addressd: middle(({ reconciled }) => reconciled.cpuUs) / 1e6,
    target: 0.2,
    note: `without ${toText(loaded)} to start Node and load the program`,
  })
  add({
    figure: `agent restarted among ${pods} enrolled pods, wall`,
    unit: 's',
    addressd: middle(({ reconciled }) => reconciled.wallUs) / 1e6,
    note: `without ${toText(middle(({ loaded: l }) => l.wallUs))} to start Node and load the program`,
  })
}
