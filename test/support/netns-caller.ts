// SPDX-License-Identifier: Apache-2.0
// The applications of one network namespace as a test drives them: see netns-applications.mjs. One process a namespace; ends with close().

import { spawn, type ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { TestNetns } from './test-netns.js'

const program = fileURLToPath(new URL('./netns-applications.mjs', import.meta.url))

export interface Call {
  readonly dst: string
  readonly port: number
  /** Address to call from. */
  readonly src?: string
  readonly timeoutMs?: number
  /** Keep the connection under this name when it was answered. */
  readonly keepAs?: string
}

/** `lands` is `namespace:port` of the listener that answered; `error` is a code, `closed` or `timeout`. */
export interface CallOutcome {
  readonly connected: boolean
  readonly answered: boolean
  readonly lands?: string
  readonly sourceSeen?: string
  readonly error?: string
  readonly seconds: number
}

export interface Question {
  /** Of the resolver. */
  readonly dst: string
  readonly question: string
  readonly over: 'udp' | 'tcp'
  /** 1 is A, 28 is AAAA; default A. */
  readonly type?: number
  readonly timeoutMs?: number
}

/** `address` is the first one of the answer. */
export interface Resolution {
  readonly answered: boolean
  readonly rcode?: number
  readonly answers?: number
  readonly address?: string
  readonly error?: string
}

export class NetnsCaller {
  readonly #child: ChildProcess
  readonly #waiting = new Map<number, (answer: Record<string, unknown>) => void>()
  readonly #kill = (): void => void this.#child.kill('SIGKILL')
  #lastId = 0

  private constructor(netns: TestNetns, name: string) {
    this.#child = spawn('nsenter', [`--net=${netns.path}`, '--', process.execPath, program, name], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { PATH: process.env['PATH'] },
    })
    process.once('exit', this.#kill)
  }

  /** `name` is what stands in `lands`. */
  static async start(netns: TestNetns, name: string): Promise<NetnsCaller> {
    const caller = new NetnsCaller(netns, name)
    const lines = createInterface({ input: caller.#child.stdout! })
    await new Promise<void>((resolve, reject) => {
      lines.on('line', (line) => {
        const answer = JSON.parse(line) as Record<string, unknown>
        if (answer['ready'] === true) resolve()
        else caller.#take(answer)
      })
      lines.on('close', () => {
        reject(new Error(`the applications in ${name} ended`))
        for (const id of [...caller.#waiting.keys()]) caller.#take({ id, failed: `the applications in ${name} ended` })
      })
    })
    return caller
  }

  async listen(...ports: readonly number[]): Promise<void> {
    await this.#ask({ do: 'listen', ports })
  }

  async call(call: Call): Promise<CallOutcome> {
    return (await this.#ask({ do: 'call', ...call })) as unknown as CallOutcome
  }

  /** Whether data goes through a kept connection. */
  async carries(keptAs: string): Promise<boolean> {
    return (await this.#ask({ do: 'carries', keptAs }))['carries'] === true
  }

  async resolve(question: Question): Promise<Resolution> {
    return (await this.#ask({ do: 'resolveName', ...question })) as unknown as Resolution
  }

  close(): void {
    process.removeListener('exit', this.#kill)
    this.#kill()
  }

  #take({ id, ...answer }: Record<string, unknown>): void {
    this.#waiting.get(id as number)?.(answer)
    this.#waiting.delete(id as number)
  }

  async #ask(command: object): Promise<Record<string, unknown>> {
    const id = ++this.#lastId
    const answer = await new Promise<Record<string, unknown>>((resolve) => {
      this.#waiting.set(id, resolve)
      this.#child.stdin?.write(`${JSON.stringify({ id, ...command })}\n`)
    })
    if (typeof answer['failed'] === 'string') throw new Error(answer['failed'])
    return answer
  }
}
