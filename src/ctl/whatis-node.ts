// SPDX-License-Identifier: Apache-2.0
// `addressctl whatis --node`: what the agent of this node knows, also while the control plane is away. Says how old the answer is.

import { sleep, systemClock } from '../base/clock.js'
import type { NodeAnswer } from '../wire/node-answer.js'
import { parseQuestion } from '../wire/question.js'
import { CtlFailure } from './failure.js'
import { askNode, type NodeAskOptions } from './node.js'
import { formatDocument, formatNextDocument, type CtlIo, type OutputForm } from './output.js'
import { formatAnswer } from './text.js'
import { toDocument } from './whatis.js'

export interface WhatIsNodeOptions {
  readonly socket: string
  readonly timeoutMs: number
  readonly output: OutputForm
  readonly watch: boolean
}

/** How often a watched agent is asked. It answers from memory. */
const watchMs = 1_000

/** Throws InvalidInput when it is no question, CtlFailure when nobody has it or the agent could not be asked. */
export async function askWhatIsOfNode(question: string, options: WhatIsNodeOptions, io: CtlIo): Promise<void> {
  parseQuestion(question)
  const clock = io.clock ?? systemClock
  const asking: NodeAskOptions = { ...options, clock, signal: io.signal }
  if (options.watch) {
    await watch(question, asking, options.output, io)
    return
  }
  const answer = await askNode(question, asking)
  const { output } = options
  if (answer.answer.found.length === 0)
    throw new CtlFailure(1, `nobody has ${question}${formatRemark(answer, ' (', ')')}`)
  if (output === 'json' || output === 'yaml') io.stdout(await formatDocument(toNodeDocument(answer), output))
  else io.stdout(formatAnswer(answer.answer, output === 'wide') + formatRemark(answer, '', '\n'))
}

// An agent that was never reached is an error; one that goes away later is waited for.
async function watch(question: string, asking: NodeAskOptions, output: OutputForm, io: CtlIo): Promise<void> {
  const signal = io.signal ?? new AbortController().signal
  const isAborted = (): boolean => signal.aborted
  // The clock's timers let the program end, and between two questions there is nothing else that keeps it.
  const alive = setInterval(() => undefined, 60_000)
  let last: string | undefined
  let isAway = false
  try {
    while (!isAborted()) {
      try {
        const answer = await askNode(question, asking)
        isAway = false
        const text = await formatWatched(answer, output)
        // The age grows all the time; that alone is no news.
        const news = await formatWatched({ ...answer, ageSeconds: 0 }, output)
        if (news !== last)
          io.stdout(output === 'json' || output === 'yaml' || last === undefined ? text : `---\n${text}`)
        last = news
      } catch (error) {
        if (isAborted()) return
        if (last === undefined || !(error instanceof CtlFailure) || error.exitCode !== 3) throw error
        if (!isAway) io.stderr(`addressctl: ${error.message}; asking again every second\n`)
        isAway = true
      }
      await sleep(asking.clock, watchMs, signal).catch(() => undefined) // aborted: the loop sees it
    }
  } finally {
    clearInterval(alive)
  }
}

async function formatWatched(answer: NodeAnswer, output: OutputForm): Promise<string> {
  if (output === 'json' || output === 'yaml') return await formatNextDocument(toNodeDocument(answer), output)
  const { question, found } = answer.answer
  const text = found.length === 0 ? `nobody has ${question}\n` : formatAnswer(answer.answer, output === 'wide')
  return text + formatRemark(answer, '', '\n')
}

function toNodeDocument(answer: NodeAnswer): object {
  const { stale, ageSeconds, awaySince, complete } = answer
  return { ...toDocument(answer.answer), stale, ageSeconds, awaySince, complete }
}

/** What a person must know of the answer beside its content; empty when it is fresh and whole. */
function formatRemark(answer: NodeAnswer, before: string, after: string): string {
  const { stale, ageSeconds, awaySince, complete } = answer
  const parts: string[] = []
  if (stale) {
    const since = awaySince === '' ? 'the control plane was never reached' : `control plane away since ${awaySince}`
    parts.push(`answer is ${ageSeconds} s old: ${since}`)
  }
  if (!complete) parts.push('more may have it: not all of the question was answered')
  return parts.length === 0 ? '' : `${before}${parts.join('; ')}${after}`
}
