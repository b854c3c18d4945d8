// SPDX-License-Identifier: Apache-2.0
// Rows about what a ztunnel is told when it connects: each pod with its namespace, one after the other, each acknowledged before the next.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createTestNetworks } from '../support/test-netns.js'
import type { Cost } from './node-cost.js'
import { agentEnvironment, toText, type Sizes } from './node-rules.js'
import { selectMedian, startProgram } from './programs.js'
import type { Row } from './report.js'
import { programFile } from './subjects.js'

const pods = 250
const namespaces = 25
// The server lets so many in a second.
const pauseMs = 300

export async function measureSnapshots(add: (row: Row) => void, { rounds }: Sizes): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'addressd-bench-zds-'))
  const networks = createTestNetworks()
  try {
    const paths = Array.from({ length: namespaces }, () => networks.add('zds').path)
    const socket = join(folder, 'ztunnel.sock')
    const args = [programFile('node-zds-program'), socket, String(pods), ...paths]
    const server = startProgram('the server for ztunnels', process.execPath, args, agentEnvironment)
    await server.line((line) => 'listens' in line)
    const ztunnel = startProgram('the ztunnel', process.execPath, [programFile('node-ztunnel-program'), socket])
    const costs: Cost[] = []
    for (let i = 0; i < rounds * 4; i++) {
      const snapshots = (): readonly Cost[] =>
        server.lines.filter((line) => 'snapshot' in line).map((line) => line['snapshot'] as Cost)
      await server.line(() => snapshots().length > i)
      costs.push(...snapshots().slice(i))
      await sleep(pauseMs)
      await ztunnel.ask({})
    }
    await ztunnel.stop()
    await server.stop()
    const middle = (of: keyof Cost): number => selectMedian(costs.map((cost) => cost[of]))
    add({
      figure: `a ztunnel told of ${pods} pods, CPU`,
      unit: 'ms',
      addressd: middle('cpuUs') / 1000,
      note: `wall ${toText(middle('wallUs'))}, each pod acknowledged before the next`,
    })
  } finally {
    networks.close()
    rmSync(folder, { recursive: true, force: true })
  }
}
