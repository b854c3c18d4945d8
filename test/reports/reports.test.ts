// SPDX-License-Identifier: Apache-2.0
// Plays every report case against the real program over real sockets. Cases come from REPORTS_DIR or from beside this file; none is known by name.

import { afterEach, describe, expect, test } from '@jest/globals'
import { act } from './actions.js'
import { isRecord, readReports, reportsFolder, substitute, writeOut, type Report, type Step } from './cases.js'
import { hostParts } from '../support/host-parts.js'
import { testWith } from '../support/optional.js'
import { findPlugin } from '../support/native-plugin.js'
import { check, checkAlways, type Before } from './expectations.js'
import { playNode, selectMissingPart } from './node/play.js'
import { Room } from './room.js'

/** What a case may need and this version has. */
const have = new Set(['sockets', 'load', 'netns', 'authorization', 'status'])

/** For reports about a node: in real namespaces, with the real plugin. */
const onHost = testWith(
  'netns',
  hostParts.netns ?? hostParts.iptablesNft ?? hostParts.nft ?? hostParts.built ?? findPlugin(),
)

function selectSkipReason(report: Report): string | undefined {
  const later = report.part === 'node' ? selectMissingPart(report) : undefined
  if (later !== undefined) return later
  const lacking = (report.needs ?? []).filter((need) => !have.has(need))
  return lacking.length === 0 ? undefined : `needs ${lacking.join(', ')}, which comes with a later version`
}

describe('fault reports', () => {
  let room: Room | undefined

  afterEach(async () => {
    await room?.close()
    room = undefined
  })

  for (const { name, report } of readReports(reportsFolder)) {
    const reason = selectSkipReason(report)
    const title = `${name}: ${report.about.split(/(?<=[.:]) /)[0] ?? ''}`
    if (reason !== undefined) {
      process.stderr.write(`SKIPPED: report ${name}: ${reason}\n`)
      test.skip(title, () => undefined)
      continue
    }
    const run = report.part === 'node' ? onHost : test
    run(
      title,
      async () => {
        if (report.part === 'node') {
          expect(await playNode(report)).toEqual([])
          return
        }
        room = new Room(report)
        expect(await play(room, report)).toEqual([])
      },
      // A limit against hanging alone: how long a case takes says nothing.
      900_000,
    )
  }
})

/** Sentences about everything that did not come out as the case says. */
async function play(room: Room, report: Report): Promise<string[]> {
  await room.open()
  room.api.upsert(...(writeOut(report.given) as never[]))
  if (report.start !== 'manual') {
    await room.startServer()
    await room.settle()
    if (report.part === 'control-plane') {
      room.client('z').act({ name: 'z', open: 'wildcard' })
      await room.settle()
    }
  }
  const out: string[] = []
  for (const [i, step] of report.steps.entries()) {
    for (let n = 1; n <= (step.repeat ?? 1); n++) {
      const own = step.repeat === undefined ? step : (substitute(step, n) as Step)
      const wrong = await playStep(room, own)
      out.push(
        ...wrong.map(
          (text) =>
            `step ${i + 1}${step.repeat === undefined ? '' : ` (${n})`}${own.note === undefined ? '' : ` "${own.note}"`}: ${text}`,
        ),
      )
      if (wrong.length > 0) return out
    }
  }
  return out
}

async function playStep(room: Room, step: Step): Promise<string[]> {
  const expectation = step.expect ?? {}
  const before = await look(room, expectation)
  const wrong = new Set<string>()
  const { always } = expectation
  room.onClient = (client) => {
    client.onApplied = () => {
      if (always !== undefined) for (const text of checkAlways(room, client, always)) wrong.add(text)
    }
  }
  for (const client of room.clients.values()) {
    client.applied = []
    client.endings = []
    room.onClient(client)
    client.onApplied()
  }
  room.api.resetRequests()
  const actions = step.do === undefined ? [] : writeOut(Array.isArray(step.do) ? step.do : [step.do])
  for (const action of actions) await act(room, action)
  await room.settle()
  return [...wrong, ...(await check(room, expectation, before))]
}

async function look(room: Room, expectation: Readonly<Record<string, unknown>>): Promise<Before> {
  const names = isRecord(expectation['metric']) ? Object.keys(expectation['metric']) : []
  const metrics = new Map<string, number>()
  for (const name of names) metrics.set(name, await room.metric(name))
  return {
    records: room.log.records.length,
    metrics,
    memoryMiB: 'memory' in expectation ? room.memoryMiB() : 0,
  }
}
