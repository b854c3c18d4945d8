// SPDX-License-Identifier: Apache-2.0
// The program of a worker thread: every job that works inside namespaces, by name. One line a job; each is named by a JobKey beside its function.

import { parentPort } from 'node:worker_threads'
import type { JobMap } from './netns/job.js'
import { serveJobs } from './netns/job-loop.js'
import { listAddresses, listAddressesJob } from './netns/list-addresses-job.js'
import { scanProcesses, scanProcessesJob } from './netns/process-scan.js'
import {
  applyNft,
  applyNftJob,
  checkNft,
  checkNftJob,
  removeNft,
  removeNftJob,
  showNft,
  showNftJob,
} from './rules/nft-jobs.js'
import { hasNfTables, hasNfTablesJob } from './rules/backend-choice-job.js'
import { runCommands, runCommandsJob } from './rules/iptables-command.js'
import {
  applyIptables,
  applyIptablesJob,
  checkIptables,
  checkIptablesJob,
  removeIptables,
  removeIptablesJob,
  removeIptablesLeftoversJob,
  removeLeftoversOfIptables,
} from './rules/iptables-jobs.js'
import {
  destroyNftProbes,
  destroyNftProbesJob,
  dropNftProbes,
  dropNftProbesJob,
  ensureNftProbes,
  ensureNftProbesJob,
  listNftProbes,
  listNftProbesJob,
  putNftProbes,
  putNftProbesJob,
} from './rules/probe-set-nft.js'

const jobs: JobMap = {
  [listAddressesJob]: listAddresses,
  [scanProcessesJob]: scanProcesses,
  [applyNftJob]: applyNft,
  [checkNftJob]: checkNft,
  [removeNftJob]: removeNft,
  [showNftJob]: showNft,
  [hasNfTablesJob]: hasNfTables,
  [runCommandsJob]: runCommands,
  [applyIptablesJob]: applyIptables,
  [checkIptablesJob]: checkIptables,
  [removeIptablesJob]: removeIptables,
  [removeIptablesLeftoversJob]: removeLeftoversOfIptables,
  [ensureNftProbesJob]: ensureNftProbes,
  [putNftProbesJob]: putNftProbes,
  [dropNftProbesJob]: dropNftProbes,
  [listNftProbesJob]: listNftProbes,
  [destroyNftProbesJob]: destroyNftProbes,
}

if (parentPort === null) throw new Error('this is the program of a worker thread')
serveJobs(parentPort, jobs)
