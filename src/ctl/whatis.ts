// SPDX-License-Identifier: Apache-2.0
// `addressctl whatis`: one question, one answer; or one answer after the other for as long as somebody watches.

import { systemClock, sleep } from '../base/clock.js'
import type { FindingRow, WhatIsAnswer } from '../wire/inspect.js'
import { parseQuestion } from '../wire/question.js'
import { fromStruct } from '../wire/struct.js'
import { Asker } from './asker.js'
import type { CommonOptions } from './options.js'
import { CtlFailure } from './failure.js'
import { formatDocument, formatNextDocument, type CtlIo } from './output.js'
import { formatAnswer } from './text.js'

export interface WhatIsOptions extends CommonOptions {
  readonly watch: boolean
}

/** Throws InvalidInput when it is no question, CtlFailure when nobody has it or nobody could be asked. */
export async function askWhatIs(question: string, options: WhatIsOptions, io: CtlIo): Promise<void> {
  parseQuestion(question)
  const asker = new Asker(options.server, io.clock ?? systemClock)
  try {
    if (options.watch) await watch(asker, question, options, io)
    else await askOnce(asker, question, options, io)
  } finally {
    asker.close()
  }
}

async function askOnce(asker: Asker, question: string, options: WhatIsOptions, io: CtlIo): Promise<void> {
  const { timeoutMs, output } = options
  let isAnswered = false
  const answers = asker.ask<WhatIsAnswer>('WhatIs', { question, watch: false }, { signal: io.signal, timeoutMs })
  for await (const answer of answers) {
    isAnswered = true
    if (output === 'json' || output === 'yaml') io.stdout(await formatDocument(toDocument(answer), output))
    else io.stdout(formatAnswer(answer, output === 'wide'))
  }
  if (isAnswered) return
  if (io.signal?.aborted === true) throw new CtlFailure(3, `interrupted before ${options.server} answered`)
  throw new CtlFailure(1, `nobody has ${question}`)
}

const firstPauseMs = 500
const longestPauseMs = 10_000

// A server that was never reached is an error. One that goes away later is waited for: what was printed last stays true as far as anybody knows.
async function watch(asker: Asker, question: string, options: WhatIsOptions, io: CtlIo): Promise<void> {
  const clock = io.clock ?? systemClock
  const signal = io.signal ?? new AbortController().signal
  const isAborted = (): boolean => signal.aborted
  // The clock's timers let the program end, and while the server is away there may be nothing else that keeps it.
  const alive = setInterval(() => undefined, 60_000)
  try {
    const printed = createPrinter(options, io)
    let pauseMs = firstPauseMs
    while (!isAborted()) {
      const reason = await printWhileAnswered(asker, question, { options, signal, printed })
      if (isAborted()) return
      if (printed.takeNews()) pauseMs = firstPauseMs
      io.stderr(`addressctl: ${options.server} is away: ${reason}; asking again in ${pauseMs} ms\n`)
      await sleep(clock, pauseMs, signal).catch(() => undefined) // aborted: the loop sees it
      pauseMs = Math.min(pauseMs * 2, longestPauseMs)
    }
  } finally {
    clearInterval(alive)
  }
}

interface Watching {
  readonly options: WhatIsOptions
  readonly signal: AbortSignal
  readonly printed: Printer
}

/** Why the answers ended. Throws when they cannot be had at all. */
async function printWhileAnswered(asker: Asker, question: string, watching: Watching): Promise<string> {
  const { options, signal, printed } = watching
  const { timeoutMs } = options
  try {
    const request = { question, watch: true }
    const answers = asker.ask<WhatIsAnswer>('WhatIs', request, { signal, timeoutMs, isEndless: true })
    for await (const answer of answers) await printed.print(answer)
    return 'it ended the answer'
  } catch (error) {
    if (error instanceof CtlFailure && error.exitCode === 3 && printed.hasPrinted()) return error.message
    throw error
  }
}

interface Printer {
  print(answer: WhatIsAnswer): Promise<void>
  hasPrinted(): boolean
  /** True when an answer came since this was asked last. */
  takeNews(): boolean
}

/** Prints what differs from the last answer, so that a server that comes back changes nothing on the screen. */
function createPrinter(options: WhatIsOptions, io: CtlIo): Printer {
  const isTable = options.output === 'table' || options.output === 'wide'
  let last: string | undefined
  let isNews = false
  return {
    async print(answer) {
      isNews = true
      const text = await formatWatched(answer, options.output)
      if (text === last) return
      io.stdout(isTable && last !== undefined ? `---\n${text}` : text)
      last = text
    },
    hasPrinted: () => last !== undefined,
    takeNews() {
      const was = isNews
      isNews = false
      return was
    },
  }
}

async function formatWatched(answer: WhatIsAnswer, output: WhatIsOptions['output']): Promise<string> {
  if (output === 'json' || output === 'yaml') return await formatNextDocument(toDocument(answer), output)
  return answer.found.length === 0 ? `nobody has ${answer.question}\n` : formatAnswer(answer, output === 'wide')
}

/** For programs: an answer without what only tables need. */
export function toDocument(answer: WhatIsAnswer): object {
  return {
    question: answer.question,
    form: answer.form.replace('FORM_', '').toLowerCase(),
    found: answer.found.map(toFindingDocument),
  }
}

function toFindingDocument(finding: FindingRow): object {
  const { workload, service, policy } = finding
  const common = {
    foundBy: finding.by,
    version: finding.version,
    keys: finding.aliases,
    why: finding.why,
    resource: finding.resource === null ? null : fromStruct(finding.resource),
  }
  if (workload) {
    const { uid, waypoint, healthy, services } = workload
    return { kind: 'workload', name: uid, healthy, waypoint, services, ...common }
  }
  if (service) {
    const { healthyMembers: healthy, membersTotal: total, waypoint } = service
    const members = service.members.map((member) => ({
      uid: member.uid,
      namespace: member.namespace,
      name: member.name,
      addresses: member.addresses,
      node: member.node,
      protocol: member.protocol,
      healthy: member.healthy,
    }))
    const name = `${service.namespace}/${service.hostname}`
    return { kind: 'service', name, endpoints: { healthy, total }, waypoint, members, ...common }
  }
  return { kind: 'policy', name: `${policy?.namespace ?? ''}/${policy?.name ?? ''}`, ...common }
}
