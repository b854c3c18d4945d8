// SPDX-License-Identifier: Apache-2.0
// Recorded conversations between agent and ztunnel: ours is the agent where the recorder played ztunnel, and the fake ztunnel of these tests is held to
// what the real one said. With a real ztunnel, those recorded between two originals and those with open connections are played with it. Knows no case by name.

import { existsSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { silentLogger } from '../../../src/base/log.js'
import { type NetnsWorkers, createNetnsWorkers } from '../../../src/node-agent/netns/workers.js'
import { whyNoLocalZtunnel } from '../../peer/local-ztunnel.js'
import { FakeClock } from '../../support/fake-clock.js'
import { testWith } from '../../support/optional.js'
import { createTestRules, testBackends } from '../../support/rule-backends.js'
import { casesFolder, listCases } from '../folder.js'
import { playZtunnel } from './zds-agent.js'
import type { RecordedConversation } from './zds-agent.js'
import { playBoth, whyNotPlayedByBoth } from './zds-both.js'
import { isLive, playLive, whyNotPlayedLive } from './zds-live.js'
import { playAgent, whyNotPlayable } from './zds-ztunnel.js'

const node = casesFolder('node')
const folder = node === undefined || !existsSync(join(node, 'zds')) ? undefined : join(node, 'zds')
const cases = (folder === undefined ? [] : listCases(folder)).map((path) => ({
  name: basename(path, '.json'),
  recorded: JSON.parse(readFileSync(path, 'utf8')) as RecordedConversation,
}))
const counts = { agent: 0, ztunnel: 0, real: 0, skipped: 0 }
const realBackends = testBackends.filter(({ name }) => name === 'nftables' || name === 'iptables-legacy')

let workers: NetnsWorkers
beforeAll(() => {
  workers = createNetnsWorkers({ log: silentLogger })
})
afterAll(() => workers.close())

describe('recorded conversations', () => {
  for (const { name, recorded } of cases) {
    if (recorded.side === 'agent') {
      test(`${name}: ${recorded.about}`, async () => {
        counts.agent++
        expect(await playZtunnel(recorded, new FakeClock())).toEqual([])
      })
      continue
    }
    if (recorded.side === 'both' || isLive(recorded)) {
      for (const backend of realBackends) {
        const unknown = recorded.side === 'both' ? whyNotPlayedByBoth(recorded) : whyNotPlayedLive(recorded)
        const lacking = unknown ?? backend.missing() ?? whyNoLocalZtunnel()
        if (lacking !== undefined) counts.skipped++
        testWith('ztunnel', lacking)(
          `${name}, with a real ztunnel and rules by ${backend.name}: ${recorded.about}`,
          async () => {
            counts.real++
            const differences =
              recorded.side === 'both'
                ? await playBoth(recorded, await createTestRules(backend, workers))
                : await playLive(recorded, backend, workers)
            expect(differences).toEqual([])
          },
        )
      }
      continue
    }
    const missing = whyNotPlayable(recorded)
    if (missing !== undefined) counts.skipped++
    testWith('ztunnel', missing)(`${name}, by the fake ztunnel: ${recorded.about}`, async () => {
      counts.ztunnel++
      expect(await playAgent(recorded, new FakeClock())).toEqual([])
    })
  }

  test('are there, and those of the agent were all played', () => {
    if (folder === undefined) return
    expect(cases.length).toBeGreaterThan(0)
    expect(counts.agent).toBe(cases.filter(({ recorded }) => recorded.side === 'agent').length)
  })
})

afterAll(() => {
  process.stderr.write(`zds: ${JSON.stringify(counts)}\n`)
})
