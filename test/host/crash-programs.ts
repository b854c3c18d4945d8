// SPDX-License-Identifier: Apache-2.0
// The built agent and the fake ztunnel as processes of their own, so that they can be killed as the kernel kills. They end with the test at the latest.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { untilSo } from './crash-view.js'

const agentProgram = fileURLToPath(new URL('../../bin/addressd-node', import.meta.url))
const ztunnelProgram = fileURLToPath(new URL('../support/run-fake-ztunnel.mjs', import.meta.url))

class Program {
  readonly pid: number
  readonly #child: ChildProcess
  readonly #over: Promise<unknown>

  constructor(command: readonly string[], env: NodeJS.ProcessEnv, onLine: (line: string) => void) {
    // Dies with this process, however that ends. All of these put the next in their own place, so that the number stays.
    const args = ['--pdeathsig', 'SIGKILL', ...command]
    this.#child = spawn('setpriv', args, { env, stdio: ['pipe', 'pipe', 'pipe'] })
    this.pid = this.#child.pid ?? 0
    this.#over = once(this.#child, 'close')
    this.#child.stdin?.on('error', () => undefined) // it may be gone
    for (const stream of [this.#child.stdout, this.#child.stderr])
      if (stream !== null) createInterface({ input: stream }).on('line', onLine)
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null
  }

  say(line: string): void {
    this.#child.stdin?.write(`${line}\n`)
  }

  /** Resolves when it is over. */
  async kill(signal: NodeJS.Signals): Promise<void> {
    this.#child.kill(signal)
    await this.#over
  }
}

interface LogLine {
  readonly msg?: string
  readonly pod?: string
  readonly [field: string]: unknown
}

export class AgentProgram extends Program {
  readonly log: LogLine[]

  /** Inside the namespace at `netnsPath`, which is its host. */
  constructor(netnsPath: string, flags: readonly string[], env: NodeJS.ProcessEnv) {
    const log: LogLine[] = []
    const command = ['nsenter', `--net=${netnsPath}`, '--', process.execPath, agentProgram, 'run', ...flags]
    super(command, env, (line) => log.push(toLogLine(line)))
    this.log = log
  }

  /** Resolves when it takes pods and lets ztunnels in. */
  async ready(): Promise<void> {
    const isReady = (): boolean => this.log.some(({ msg }) => msg === 'ready for pods and ztunnels')
    await untilSo(
      'the agent is ready',
      () => isReady() || this.hasEnded,
      () => this.lastLines(),
    )
    if (!isReady()) throw new Error(`the agent ended:\n${this.lastLines()}`)
  }

  lastLines(): string {
    return this.log
      .slice(-60)
      .map((line) => JSON.stringify(line))
      .join('\n')
  }
}

function toLogLine(line: string): LogLine {
  try {
    return JSON.parse(line) as LogLine
  } catch {
    return { msg: line } // what Node itself says
  }
}

/** As the fake prints it. */
interface ZtunnelState {
  readonly connections: number
  readonly isConnected: boolean
  readonly isReady: boolean
  /** uid to inode. */
  readonly holds: Readonly<Record<string, string>>
  readonly records: number
}

export class ZtunnelProgram extends Program {
  readonly #states: ZtunnelState[]

  constructor(zds: string, answers: string) {
    const states: ZtunnelState[] = []
    super([process.execPath, ztunnelProgram, '--zds', zds, '--answers', answers], { ...process.env }, (line) => {
      if (line.startsWith('{"connections"')) states.push(JSON.parse(line) as ZtunnelState)
    })
    this.#states = states
  }

  get isRunning(): boolean {
    return this.#states.length > 0
  }

  get state(): ZtunnelState {
    return this.#states.at(-1) ?? { connections: 0, isConnected: false, isReady: false, holds: {}, records: 0 }
  }

  /** From now on; resolves when it has heard. */
  async answer(key: string, answer: string): Promise<void> {
    const before = this.#states.length
    this.say(`answer ${key} ${answer}`)
    this.say('state')
    await untilSo('ztunnel has heard', () => this.#states.length > before)
  }
}
