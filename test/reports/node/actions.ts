// SPDX-License-Identifier: Apache-2.0
// The actions of a report about the node agent, each made and taken in before the next. An action that is not known here fails the case by name.

import { zdsLimits } from '../../../src/node-agent/zds/server.js'
import { sweepMs } from '../../../src/node-agent/sweep.js'
import { kubeLimits } from '../../../src/kube/limits.js'
import { changeApi } from '../api-actions.js'
import { isRecord } from '../cases.js'
import type { Answer } from '../../support/fake-node-ztunnel.js'
import type { CniAction } from './cni.js'
import type { NodeRoom } from './room.js'

type Action = Readonly<Record<string, unknown>>

/** How far a `{"past": name}` moves the clock. */
const pastMs: Readonly<Record<string, number>> = {
  watchdog: kubeLimits.watchdogMs + 1_000,
  backoff: kubeLimits.backoffMaxMs + 1_000,
  ackTimeout: zdsLimits.ackTimeoutMs + 1_000,
  sweep: sweepMs + 1_000,
}

/** Makes one action; resolves when it has been taken in. */
export async function act(room: NodeRoom, action: unknown): Promise<void> {
  if (!isRecord(action)) throw new Error(`not an action: ${JSON.stringify(action)}`)
  const [verb = ''] = Object.keys(action)
  if (!changeApi(room.api, action)) {
    const make = actions[verb]
    if (make === undefined) throw new Error(`unknown action ${verb}`)
    await make(room, action)
  }
  await room.quiet()
}

const actions: Readonly<Record<string, (room: NodeRoom, action: Action) => void | Promise<void>>> = {
  async clock(room, a) {
    const by = a['clock']
    if (typeof by === 'number') return room.advance(by)
    const { past } = by as { past: string }
    const ms = pastMs[past]
    if (ms === undefined) throw new Error(`the product has no limit called ${past}`)
    await room.advance(ms)
  },
  host: (room, a) => room.changeHost(a['host']),
  cni: (room, a) => room.runCni(a['cni'] as CniAction),
  ztunnel(room, a) {
    const { name, do: what, answers } = a['ztunnel'] as { name: string; do: string; answers?: Record<string, unknown> }
    if (what === 'connect') room.connectZtunnel(name, toAnswers(answers))
    else if (what === 'answers') room.ztunnels.get(name)?.fake.setAnswers(toAnswers(answers))
    else if (what === 'close') room.ztunnels.get(name)?.fake.stop()
    else throw new Error(`unknown ztunnel action ${what}`)
  },
  async agent(room, a) {
    const what = a['agent']
    if (what === 'start') await room.startAgent()
    else if (what === 'stop' || what === 'kill' || what === 'terminate') await room.stopAgent()
    else throw new Error(`unknown agent action ${JSON.stringify(what)}`)
  },
  async parallel(room, a) {
    await Promise.all((a['parallel'] as unknown[]).map((one) => act(room, one)))
  },
}

function toAnswers(given: Readonly<Record<string, unknown>> = {}): Readonly<Record<string, Answer>> {
  return Object.fromEntries(
    Object.entries(given).map(([key, answer]) => [key.replace(/^add /, ''), toAnswer(answer)] as const),
  )
}

function toAnswer(value: unknown): Answer {
  if (value === 'ok' || value === 'silence') return value
  if (typeof value === 'string' && value.startsWith('error: ')) return { error: value.slice('error: '.length) }
  if (isRecord(value) && typeof value['after'] === 'number') return { after: value['after'] }
  throw new Error(`unknown answer ${JSON.stringify(value)}`)
}
