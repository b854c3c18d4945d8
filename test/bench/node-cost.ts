// SPDX-License-Identifier: Apache-2.0
// What this process and the programs that it ran have cost so far, to the microsecond: for the benchmark's programs that measure themselves, and the loop
// in which they answer questions on stdin.

import { monitorEventLoopDelay } from 'node:perf_hooks'
import { createInterface } from 'node:readline'
import koffi from 'koffi'
import type { Json } from './mesh.js'

const getrusage = koffi.load(null).func('int getrusage(int who, void *usage)') as (who: number, usage: Buffer) => number
const self = 0
const thisThread = 1
const endedChildren = -1
const usage = Buffer.alloc(256)

function readOf(who: number): number {
  getrusage(who, usage)
  const [userS, userUs, systemS, systemUs] = [0, 8, 16, 24].map((at) => Number(usage.readBigInt64LE(at)))
  return ((userS ?? 0) + (systemS ?? 0)) * 1e6 + (userUs ?? 0) + (systemUs ?? 0)
}

/** Microseconds of user and system time, all threads, with programs that were run and have ended. */
export function readSpentUs(): number {
  return readOf(self) + readOf(endedChildren)
}

export interface Cost {
  readonly cpuUs: number
  readonly wallUs: number
}

const resolutionMs = 5

/**
 * The longest time for which this thread did not get to its timers (monitorEventLoopDelay), and the most that it worked itself between two of them: on a machine
 * with other work the rest of the former is others' time.
 */
export class StallWatch {
  readonly #delay = monitorEventLoopDelay({ resolution: resolutionMs })
  #timer: NodeJS.Timeout | undefined
  #last = 0
  #longestOwnUs = 0

  start(): void {
    this.stop()
    this.#delay.reset()
    this.#delay.enable()
    this.#last = readOf(thisThread)
    this.#longestOwnUs = 0
    this.#timer = setInterval(() => this.#look(), resolutionMs)
  }

  stop(): { readonly stallMs: number; readonly ownMs: number } {
    this.#delay.disable()
    if (this.#timer !== undefined) this.#look()
    clearInterval(this.#timer)
    this.#timer = undefined
    return { stallMs: Math.max(0, this.#delay.max / 1e6 - resolutionMs), ownMs: this.#longestOwnUs / 1000 }
  }

  #look(): void {
    const now = readOf(thisThread)
    this.#longestOwnUs = Math.max(this.#longestOwnUs, now - this.#last)
    this.#last = now
  }
}

/** What a task costs until it is done. */
export async function measureCost(task: () => unknown): Promise<Cost> {
  const cpuUs = readSpentUs()
  const at = performance.now()
  await task()
  const wallUs = (performance.now() - at) * 1000
  return { cpuUs: readSpentUs() - cpuUs, wallUs }
}

/** Answers each line of stdin with a line of stdout, one after the other; ends when stdin does. */
export async function serveQuestions(answer: (question: Json) => Promise<Json>): Promise<void> {
  for await (const line of createInterface({ input: process.stdin })) {
    const reply = await answer(JSON.parse(line))
    process.stdout.write(`${JSON.stringify(reply)}\n`)
  }
  process.exit(0)
}
