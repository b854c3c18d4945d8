// SPDX-License-Identifier: Apache-2.0
// Recorded traffic with our rules, our conversation and a real ztunnel, by every backend: what applications and the wire see. The cases of one backend are one
// history, in the order of the file. Needs a ztunnel that signs its own certificates.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect } from '@jest/globals'
import { silentLogger } from '../../../src/base/log.js'
import { type NetnsWorkers, createNetnsWorkers } from '../../../src/node-agent/netns/workers.js'
import { whyNoLocalZtunnel } from '../../peer/local-ztunnel.js'
import { testWith } from '../../support/optional.js'
import { type TestBackend, testBackends } from '../../support/rule-backends.js'
import type { Place } from '../../support/traffic-room.js'
import { casesFolder } from '../folder.js'
import { EnrolledTraffic } from './enrolled-traffic.js'

interface Send {
  readonly from: Place
  readonly proto: 'tcp' | 'dns-udp' | 'dns-tcp'
  readonly dst: string
  readonly port?: number
  readonly src?: string
  readonly name?: string
  readonly timeout?: number
}

interface Case {
  readonly id: string
  readonly state: string
  readonly about: string
  readonly send: Send
  readonly expect: Readonly<Record<string, unknown>> & {
    readonly onTheWire?: readonly string[]
    readonly seconds?: number
  }
  readonly differs?: Readonly<Record<string, Case['expect']>>
}

const folder = casesFolder('node')
const path = folder === undefined ? undefined : join(folder, 'traffic.json')
const cases: readonly Case[] | undefined =
  path === undefined || !existsSync(path) ? undefined : JSON.parse(readFileSync(path, 'utf8')).cases
if (cases?.length === 0) throw new Error('traffic.json holds no case')

let workers: NetnsWorkers
beforeAll(() => {
  workers = createNetnsWorkers({ log: silentLogger })
})
afterAll(() => workers.close())

/** What leads from each state to the next, in the order in which they were recorded. */
const states: readonly { readonly name: string; readonly enter: (traffic: EnrolledTraffic) => Promise<void> }[] = [
  {
    name: 'rules in both pods, ztunnel knows neither',
    async enter(traffic) {
      await traffic.startZtunnel('A')
      for (const pod of ['podA', 'podB'] as const) await traffic.makeRules(pod)
    },
  },
  {
    name: 'both pods enrolled',
    async enter(traffic) {
      for (const pod of ['podA', 'podB'] as const) await traffic.tell(pod)
    },
  },
  {
    name: 'pod B taken out again, its workload still says HBONE',
    enter: (traffic) => traffic.takeOut('podB'),
  },
  {
    name: 'pod B enrolled under a wrong name',
    async enter(traffic) {
      await traffic.makeRules('podB')
      await traffic.tell('podB', { uid: 'uid-of-another', name: 'wrong-name' })
    },
  },
  {
    name: 'ztunnel dead, rules in the pods',
    enter: (traffic) => traffic.killZtunnel('A'),
  },
]

async function perform(traffic: EnrolledTraffic, send: Send): Promise<Record<string, unknown>> {
  const { from, proto, dst, port = 0, src, name = '', timeout = 5 } = send
  const { room } = traffic
  const timeoutMs = (timeout + 2) * 1000
  room.forgetConnections()
  const at = room.at(from)
  if (proto !== 'tcp') {
    return { ...(await at.resolve({ dst, question: name, over: proto === 'dns-udp' ? 'udp' : 'tcp', timeoutMs })) }
  }
  const outcome = await at.call({ dst, port, timeoutMs, ...(src !== undefined && { src }) })
  return { ...outcome, onTheWire: room.connectionsSeen() }
}

/** The recording in the words of the outcome: what time does to a run on a busy machine is taken out of both. */
function wantedOf(one: Case, backend: TestBackend, outcome: Readonly<Record<string, unknown>>): unknown {
  const recorded = one.differs?.[backend.recordedAs] ?? one.expect
  const { seconds, onTheWire, ...rest } = recorded
  const wanted: Record<string, unknown> = { ...rest }
  const took = outcome['seconds'] as number | undefined
  if (seconds !== undefined && took !== undefined) {
    const isNear = took > seconds - 1 && took < seconds + 3
    wanted['seconds'] = isNear ? took : seconds
  } else if (took !== undefined) wanted['seconds'] = took
  const seen = outcome['onTheWire'] as readonly string[] | undefined
  // A connection between the ztunnels' ends is used again while it lives, so that one more or less says nothing where none was recorded.
  const isOnlyTunnel = onTheWire === undefined && (seen ?? []).every((text) => text.endsWith(':15008'))
  if (seen !== undefined) wanted['onTheWire'] = isOnlyTunnel ? seen : [...(onTheWire ?? [])].sort()
  return wanted
}

describe.each(testBackends)('traffic through a real ztunnel with rules by $name', (backend) => {
  const missing = cases === undefined ? 'traffic.json is not there' : (backend.missing() ?? whyNoLocalZtunnel())
  testWith('ztunnel', missing)(
    'goes where it went with the rules of the original',
    async () => {
      const traffic = await EnrolledTraffic.open(backend, workers)
      try {
        const seen: Record<string, unknown> = {}
        const wanted: Record<string, unknown> = {}
        let reached = 0
        for (const one of cases!) {
          const at = states.findIndex(({ name }) => name === one.state)
          if (at < 0) throw new Error(`nothing is known of the state "${one.state}"`)
          for (; reached <= at; reached++) await states[reached]?.enter(traffic)
          const outcome = await perform(traffic, one.send)
          const key = `${one.id} ${one.about}`
          seen[key] = outcome
          wanted[key] = wantedOf(one, backend, outcome)
        }
        expect(seen).toEqual(wanted)
      } finally {
        await traffic.close()
      }
    },
    180_000,
  )
})
