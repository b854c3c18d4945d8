// SPDX-License-Identifier: Apache-2.0
// A program: a ztunnel that takes every pod it is told of and nothing else. `node-ztunnel-program.js SOCKET`. Each line on stdin cuts its connection, after
// which it comes back at once.

import { FakeNodeZtunnel } from '../support/fake-node-ztunnel.js'
import { serveQuestions } from './node-cost.js'

const ztunnel = new FakeNodeZtunnel({ zds: process.argv[2] ?? '' })
ztunnel.start()
// Nothing else may keep it alive while no agent is there.
setInterval(() => undefined, 1 << 30)

await serveQuestions(() => {
  ztunnel.records.length = 0
  ztunnel.disconnect()
  return Promise.resolve({})
})
