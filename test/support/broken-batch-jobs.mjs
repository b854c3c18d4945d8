// SPDX-License-Identifier: Apache-2.0
// The program of a worker thread in tests: our transaction with something at its end that the kernel refuses, and the one that loads connection tracking.

import { parentPort } from 'node:worker_threads'
import { serveJobs } from '../../dist/node-agent/netns/job-loop.js'
import { NftKernel } from '../../dist/node-agent/rules/nft-kernel.js'
import { planTables, toReplacement } from '../../dist/node-agent/rules/nft-layout.js'
import { deleteTable } from '../../dist/node-agent/rules/nft-messages.js'

async function withKernel(place, work) {
  const kernel = place.inside(() => new NftKernel())
  try {
    await work(kernel)
    return 'went well'
  } catch (error) {
    return `${error.message} at ${error.at}`
  } finally {
    kernel.close()
  }
}

serveJobs(parentPort, {
  'broken batch': (place, options) =>
    withKernel(place, (kernel) => {
      const good = toReplacement(planTables(options, 'inet'), 'a comment')
      return kernel.commit([...good, deleteTable({ family: 2, table: 'nobody' })])
    }),
  'load tracking': (place) => withKernel(place, (kernel) => kernel.loadConnectionTracking()),
})
