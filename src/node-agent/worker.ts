// SPDX-License-Identifier: Apache-2.0
// The program of a worker thread: every job that works inside namespaces, by name. One line a job; each is named by a JobKey beside its function.

import { parentPort } from 'node:worker_threads'
import type { JobMap } from './netns/job.js'
import { serveJobs } from './netns/job-loop.js'
import { listAddresses, listAddressesJob } from './netns/list-addresses-job.js'
import { scanProcesses, scanProcessesJob } from './netns/process-scan.js'

const jobs: JobMap = {
  [listAddressesJob]: listAddresses,
  [scanProcessesJob]: scanProcesses,
}

if (parentPort === null) throw new Error('this is the program of a worker thread')
serveJobs(parentPort, jobs)
