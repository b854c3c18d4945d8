// SPDX-License-Identifier: Apache-2.0
// Plays one report about the node agent from its first step to its last.

import { isRecord, substitute, writeOut, type Report, type Step } from '../cases.js'
import { act } from './actions.js'
import { tokens } from './cni.js'
import { check } from './expectations.js'
import { NodeRoom } from './room.js'

/** What belongs to the installer, which puts plugin and configuration in their places. */
const installerKeys = ['file', 'writes', 'neverDangling']

/** Why this version cannot play a report; undefined when it can. */
export function selectMissingPart(report: Report): string | undefined {
  const expected = report.steps.flatMap((step) => Object.keys(step.expect ?? {}))
  const needsInstaller = expected.some((key) => installerKeys.includes(key))
  return needsInstaller ? 'the installer comes with a later version' : undefined
}

/** The report with the tokens that stand for this product's names put in. */
export function withTokens(value: unknown): unknown {
  if (typeof value === 'string') {
    return Object.entries(tokens).reduce((text, [token, name]) => text.replaceAll(token, name), value)
  }
  if (Array.isArray(value)) return value.map(withTokens)
  if (!isRecord(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [String(withTokens(key)), withTokens(item)]))
}

/** Sentences about everything that did not come out as the report says. */
export async function playNode(original: Report): Promise<string[]> {
  const report = withTokens(original) as Report
  const room = await NodeRoom.open(report)
  try {
    room.api.upsert(...(writeOut(report.given) as never[]))
    if (report.start !== 'manual') {
      await room.startAgent()
      await room.settle()
    }
    return await playSteps(room, report)
  } finally {
    await room.close()
  }
}

async function playSteps(room: NodeRoom, report: Report): Promise<string[]> {
  let namespaces: number | undefined
  for (const [i, step] of report.steps.entries()) {
    for (let n = 1; n <= (step.repeat ?? 1); n++) {
      const own = step.repeat === undefined ? step : (substitute(step, n) as Step)
      const wrong = await playStep(room, own, namespaces)
      const at = `step ${i + 1}${own.note === undefined ? '' : ` "${own.note}"`}`
      if (wrong.length > 0) return wrong.map((text) => `${at}: ${text}`)
    }
    namespaces ??= room.openNamespaces()
  }
  return []
}

async function playStep(room: NodeRoom, step: Step, namespaces: number | undefined): Promise<string[]> {
  const records = room.log.records.length
  for (const ztunnel of room.ztunnels.values()) ztunnel.seen = ztunnel.fake.records.length
  room.host.resetCommands()
  const actions = step.do === undefined ? [] : writeOut(Array.isArray(step.do) ? step.do : [step.do])
  for (const action of actions) await act(room, action)
  await room.settle()
  const commands = room.host.commands()
  return await check(room, step.expect ?? {}, { records, commands, namespaces })
}
