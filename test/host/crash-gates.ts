// SPDX-License-Identifier: Apache-2.0
// Tools of a made-up node that stop when they are told to, so that an agent can be killed while it waits for one of them. What they do then is as with
// a real one: a program outlives the agent that started it.

import fs from 'node:fs'
import path from 'node:path'
import { untilSo } from './crash-view.js'

/** A call of a tool: its name and, where only some calls stop, their first argument. */
interface GatedCall {
  readonly tool: string
  readonly first?: string
}

export class ToolGates {
  readonly #folder: string

  /** `tools` holds the node's tools as shell scripts; each that can be stopped is rewritten. */
  constructor(root: string, tools: string, calls: readonly GatedCall[]) {
    this.#folder = path.join(root, 'gates')
    fs.mkdirSync(this.#folder)
    for (const { tool, first } of calls) {
      const file = path.join(tools, tool)
      const gate = this.#at(tool)
      const wait = `echo $$ >> '${gate}.pids'; while [ -e '${gate}' ]; do sleep 0.02; done; [ ! -e '${gate}.dies' ] || exit 1`
      const isMeant = first === undefined ? 'true' : `[ "$1" = ${first} ]`
      const [shebang = '', ...rest] = fs.readFileSync(file, 'utf8').split('\n')
      const lines = [shebang, `if [ -e '${gate}' ] && ${isMeant}; then ${wait}; fi`, ...rest]
      fs.writeFileSync(file, lines.join('\n'))
    }
  }

  #at(tool: string): string {
    return path.join(this.#folder, tool)
  }

  close(tool: string): void {
    fs.writeFileSync(this.#at(tool), '')
  }

  /** Resolves when a call stands at the gate. */
  async reached(tool: string): Promise<void> {
    await untilSo(`${tool} is called`, () => this.#pids(tool).length > 0)
  }

  /** Lets go on what stands there, or makes it end without having done anything; resolves when all of it is over. */
  async open(tool: string, how: 'goes on' | 'dies'): Promise<void> {
    if (how === 'dies') fs.writeFileSync(`${this.#at(tool)}.dies`, '')
    fs.rmSync(this.#at(tool), { force: true })
    await untilSo(`${tool} is over`, () => !this.#pids(tool).some(isRunning))
    for (const end of ['dies', 'pids']) fs.rmSync(`${this.#at(tool)}.${end}`, { force: true })
  }

  #pids(tool: string): readonly string[] {
    const file = `${this.#at(tool)}.pids`
    return fs.existsSync(file) ? fs.readFileSync(file, 'utf8').split('\n').filter(Boolean) : []
  }
}

function isRunning(pid: string): boolean {
  try {
    return !/\) [ZX] /.test(fs.readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false // gone
  }
}
