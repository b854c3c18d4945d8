// SPDX-License-Identifier: Apache-2.0
// Recorded packets through a pod with our rules in force, by every backend: each lands where it landed with the original's rules. A case may say that a
// backend of the original differs; ours may do either then.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect } from '@jest/globals'
import { silentLogger } from '../../../src/base/log.js'
import { openNetnsFile } from '../../../src/node-agent/netns/handle.js'
import { type NetnsWorkers, createNetnsWorkers } from '../../../src/node-agent/netns/workers.js'
import { parsePodOverrides } from '../../../src/node-agent/rules/overrides.js'
import { type Packet, createPacketRoom, probeAddress4, probeAddress6 } from '../../support/packet-room.js'
import { type TestBackend, createTestProbeSet, createTestRules, testBackends } from '../../support/rule-backends.js'
import { testWith } from '../../support/optional.js'
import { casesFolder } from '../folder.js'

interface Setup {
  readonly enrolled: boolean
  readonly annotations: Readonly<Record<string, string>>
  readonly dnsCapture: boolean
  readonly ipv6: boolean
  readonly nodeRules?: string
  readonly enrolledThenRemoved?: boolean
}

interface Case {
  readonly id: string
  readonly setup: string
  readonly about: string
  readonly send: Packet
  readonly expect: Readonly<Record<string, unknown>>
  readonly differs?: Readonly<Record<string, Readonly<Record<string, unknown>>>>
}

interface Recorded {
  readonly setups: Readonly<Record<string, Setup>>
  readonly packets: readonly Case[]
}

const folder = casesFolder('node')
const recorded: Recorded | undefined =
  folder === undefined ? undefined : JSON.parse(readFileSync(join(folder, 'packets.json'), 'utf8'))
if (recorded?.packets.length === 0) throw new Error('packets.json holds no packet')

let workers: NetnsWorkers
beforeAll(() => {
  workers = createNetnsWorkers({ log: silentLogger })
})
afterAll(() => workers.close())

/** What each packet of the setup did, by case. */
async function runSetup(backend: TestBackend, name: string, setup: Setup, cases: readonly Case[]): Promise<unknown> {
  const room = createPacketRoom(name.slice(0, 8))
  const netns = openNetnsFile(room.pod.path)
  const node = openNetnsFile(room.node.path)
  try {
    const rules = await createTestRules(backend, workers)
    const { options } = parsePodOverrides(
      { namespace: 'ns', name, annotations: setup.annotations },
      { ipv6: setup.ipv6, dnsCapture: setup.dnsCapture, probeAddress4, probeAddress6 },
    )
    if (setup.enrolled || setup.enrolledThenRemoved === true) await rules.apply(netns, options)
    if (setup.enrolledThenRemoved === true) await rules.remove(netns)
    if (setup.nodeRules !== undefined) {
      const probes = await createTestProbeSet(backend, workers, node)
      await probes.ensure()
      await probes.put('10.244.1.5', 'uid-of-pod')
      await probes.put('fd00:244::5', 'uid-of-pod')
    }
    await room.start()
    const out: Record<string, unknown> = {}
    for (const { id, about, send } of cases) out[`${id} ${about}`] = await room.send(send)
    return out
  } finally {
    netns.close()
    node.close()
    room.close()
  }
}

function expectationOf(one: Case, backend: TestBackend, actual: unknown): unknown {
  const other = one.differs?.[backend.recordedAs]
  return other !== undefined && JSON.stringify(actual) === JSON.stringify(other) ? other : one.expect
}

const mostRooms = 4

describe.each(testBackends)('packets with $name', (backend) => {
  testWith('root', recorded === undefined ? 'packets.json is not there' : backend.missing())(
    'land where they landed with the rules of the original',
    async () => {
      const { setups, packets } = recorded!
      const waiting = Object.entries(setups)
        .map(([name, setup]) => ({ name, setup, cases: packets.filter((one) => one.setup === name) }))
        .filter(({ cases }) => cases.length > 0)
      expect(waiting.flatMap(({ cases }) => cases)).toHaveLength(packets.length)
      const seen: Record<string, unknown> = {}
      const wanted: Record<string, unknown> = {}
      await Promise.all(
        Array.from({ length: mostRooms }, async () => {
          for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
            const outcome = (await runSetup(backend, next.name, next.setup, next.cases)) as Record<string, unknown>
            for (const one of next.cases) {
              const key = `${one.id} ${one.about}`
              seen[key] = outcome[key]
              wanted[key] = expectationOf(one, backend, outcome[key])
            }
          }
        }),
      )
      expect(seen).toEqual(wanted)
    },
    180_000,
  )
})
