// SPDX-License-Identifier: Apache-2.0
// Programs that the benchmark starts, and what the kernel says of them: CPU from /proc/PID/stat, memory from /proc/PID/status. Each ends with
// the benchmark.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import type { Json } from './mesh.js'

const millisecondsPerTick = 10

export interface Program {
  readonly pid: number
  /** Resolves with the first line of JSON on stdout that fits, of those seen so far or still to come. Rejects when the program ends first. */
  line(fits: (line: Json) => boolean): Promise<Json>
  /** Lines of JSON so far. */
  readonly lines: readonly Json[]
  /** Writes a line to its stdin and resolves with the next line of JSON that it prints. One question at a time. */
  ask(question: Json): Promise<Json>
  stop(): Promise<void>
}

const running = new Set<ChildProcess>()
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

/** Starts a program; `what` names it in errors. `env` goes on top of our own. */
export function startProgram(
  what: string,
  command: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Program {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'], env: { ...process.env, ...env } })
  running.add(child)
  const lines: Json[] = []
  const waiting = new Set<() => void>()
  let said = ''
  let ended = false
  const wake = (): void => {
    for (const look of [...waiting]) look()
  }
  child.stderr.on('data', (text: Buffer) => (said = (said + text.toString()).slice(-2000)))
  createInterface({ input: child.stdout }).on('line', (text) => {
    if (!text.startsWith('{')) return
    lines.push(JSON.parse(text))
    wake()
  })
  child.once('error', (error) => (said += error.message))
  // It may have ended; whoever waits for its answer is told.
  child.stdin.on('error', () => undefined)
  child.once('close', () => {
    ended = true
    running.delete(child)
    wake()
  })
  const nextLine = (fits: (line: Json) => boolean, from = 0): Promise<Json> =>
    new Promise((resolve, reject) => {
      let seen = from
      const look = (): void => {
        for (; seen < lines.length; seen++) {
          const line = lines[seen]
          if (line === undefined || !fits(line)) continue
          waiting.delete(look)
          resolve(line)
          return
        }
        if (!ended) return
        waiting.delete(look)
        reject(new Error(`${what} ended: ${said}`))
      }
      waiting.add(look)
      look()
    })
  return {
    pid: child.pid ?? 0,
    lines,
    line: (fits) => nextLine(fits),
    ask(question) {
      const answer = nextLine(() => true, lines.length)
      child.stdin.write(`${JSON.stringify(question)}\n`)
      return answer
    },
    async stop() {
      if (ended) return
      const closed = once(child, 'close')
      child.kill('SIGKILL')
      await closed
    },
  }
}

/** User and system time of a process so far, all threads, in milliseconds. */
export function readCpuMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  // The name in parentheses may hold anything.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) * millisecondsPerTick
}

/** Resident memory of a process in MB (of 2^20 bytes, as the kernel counts). */
export function readRssMb(pid: number): number {
  return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024
}

/** The middle of some figures. */
export function selectMedian(figures: readonly number[]): number {
  return selectQuantile(figures, 0.5)
}

export function selectQuantile(figures: readonly number[], share: number): number {
  const sorted = [...figures].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}
