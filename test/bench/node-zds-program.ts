// SPDX-License-Identifier: Apache-2.0
// A program: the agent's server for ztunnels with so many pods, in namespaces that exist. `node-zds-program.js SOCKET PODS NETNS...`. Says what each snapshot
// cost, from the greeting of a ztunnel to its acknowledgement of the last record.

import { Registry } from 'prom-client'
import { systemClock } from '../../src/base/clock.js'
import { silentLogger } from '../../src/base/log.js'
import { openNetnsFile } from '../../src/node-agent/netns/handle.js'
import { createProcesses } from '../../src/node-agent/zds/processes.js'
import { createZdsServer } from '../../src/node-agent/zds/server.js'
import { readSpentUs } from './node-cost.js'

const [path = '', count = '0', ...files] = process.argv.slice(2)
const netns = files.map(openNetnsFile)
const pods = Array.from({ length: Number(count) }, (_, i) => ({
  pod: {
    uid: `00000000-0000-4000-8000-${String(i).padStart(12, '0')}`,
    namespace: 'shop',
    name: `pod-${i}`,
    serviceAccount: 'default',
  },
  netns: netns[i % netns.length],
}))
let from = { cpuUs: 0, wallMs: 0 }

const server = createZdsServer({
  path,
  select() {
    from = { cpuUs: readSpentUs(), wallMs: performance.now() }
    return pods
  },
  processes: createProcesses('/proc'),
  clock: systemClock,
  log: silentLogger,
  registry: new Registry(),
  onReady() {
    const snapshot = { cpuUs: readSpentUs() - from.cpuUs, wallUs: (performance.now() - from.wallMs) * 1000 }
    process.stdout.write(`${JSON.stringify({ snapshot })}\n`)
  },
})
server.listen()
server.open()
setInterval(() => undefined, 1 << 30)
process.stdout.write('{"listens":true}\n')
