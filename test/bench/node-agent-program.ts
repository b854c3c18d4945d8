// SPDX-License-Identifier: Apache-2.0
// A program: the whole agent of a node against an API server, in a folder of its own, as bin/addressd-node runs it. `node-agent-program.js URL FOLDER PODS`.
// Prints what loading it cost, then what it took until so many pods were enrolled and told to a ztunnel. On stdin `{"mark":true}` begins to count, `{}` asks
// what it came to.

import { setTimeout as sleep } from 'node:timers/promises'
import { systemClock } from '../../src/base/clock.js'
import { createPinoLog, openLogTarget } from '../../src/base/pino-log.js'
import { parseSettings } from '../../src/base/settings.js'
import { HttpKubeApi } from '../../src/kube/http-api.js'
import { nodeSettingsTable } from '../../src/main/node-settings-table.js'
import { startNode } from '../../src/main/node.js'
import { readSpentUs, serveQuestions, StallWatch } from './node-cost.js'

export interface AgentAnswer {
  readonly cpuUs: number
  readonly wallUs: number
  /** The longest time since the mark for which the main thread did not get to its timers. */
  readonly stallMs: number
  /** The most that it worked itself in such a time. */
  readonly ownMs: number
}

const pollMs = 10
const [url = '', folder = '', pods = '0'] = process.argv.slice(2)

const { settings } = parseSettings({
  table: nodeSettingsTable,
  argv: ['--node-name', 'node-1', '--health-addr', '127.0.0.1:0', '--monitoring-port', '0'],
  env: {
    KUBERNETES_SERVICE_HOST: '127.0.0.1',
    ALLOW_SWITCH_TO_HOST_NS: 'true',
    ADDRESSD_HOST_ROOT: '/',
    ADDRESSD_HOST_PROC: `${folder}/proc`,
    ZTUNNEL_UDS_ADDRESS: `${folder}/ztunnel.sock`,
    CNI_AGENT_RUN_DIR: `${folder}/run`,
  },
  ownPrefix: 'ADDRESSD_',
})
const log = createPinoLog(settings.logLevels, openLogTarget(`${folder}/agent.log`))
const credentials = { read: () => Promise.resolve({ headers: {}, tls: {} }), refused: () => undefined }
const api = new HttpKubeApi(url, credentials, systemClock)
const stalls = new StallWatch()

interface Mark {
  readonly cpuUs: number
  readonly wallMs: number
}

const takeMark = (): Mark => ({ cpuUs: readSpentUs(), wallMs: performance.now() })

function since(from: Mark): AgentAnswer {
  const cpuUs = readSpentUs() - from.cpuUs
  return { cpuUs, wallUs: (performance.now() - from.wallMs) * 1000, ...stalls.stop() }
}

let mark = takeMark()
process.stdout.write(`${JSON.stringify({ loaded: { cpuUs: mark.cpuUs, wallUs: mark.wallMs * 1000 } })}\n`)
const node = await startNode({ settings, clock: systemClock, log, path: process.env['PATH'] ?? '', api })
await node.started

/** Looks seldom and little, for the look is counted too. */
async function untilEnrolled(count: number): Promise<void> {
  const isSo = (): boolean => {
    const { agent, zds } = node.parts ?? {}
    if (agent === undefined || zds === undefined || node.work().underWay > 0) return false
    if (count > 0 && (zds.ready === 0 || zds.held().size !== count)) return false
    return agent.describe().filter(({ enrolled }) => enrolled).length === count
  }
  while (!isSo()) await sleep(pollMs)
}

await untilEnrolled(Number(pods))
process.stdout.write(`${JSON.stringify({ reconciled: since(mark) })}\n`)

await serveQuestions((question) => {
  if (question['mark'] === undefined) return Promise.resolve({ ...since(mark) })
  stalls.start()
  mark = takeMark()
  return Promise.resolve({})
})
