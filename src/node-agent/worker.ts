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
import {
  applyIptablesJob,
  checkIptablesJob,
  removeIptablesJob,
  removeIptablesLeftoversJob,
  runCommandsJob,
} from './rules/iptables-job-keys.js'
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

// Loaded when one of its jobs is asked for: a node whose rules are made over netlink needs none of it.
const iptables = async () => import('./rules/iptables-jobs.js')

const jobs: JobMap = {
  [listAddressesJob]: listAddresses,
  [scanProcessesJob]: scanProcesses,
  [applyNftJob]: applyNft,
  [checkNftJob]: checkNft,
  [removeNftJob]: removeNft,
  [showNftJob]: showNft,
  [hasNfTablesJob]: hasNfTables,
  [runCommandsJob]: async (...job) => (await import('./rules/iptables-command.js')).runCommands(...job),
  [applyIptablesJob]: async (...job) => (await iptables()).applyIptables(...job),
  [checkIptablesJob]: async (...job) => (await iptables()).checkIptables(...job),
  [removeIptablesJob]: async (...job) => (await iptables()).removeIptables(...job),
  [removeIptablesLeftoversJob]: async (...job) => (await iptables()).removeLeftoversOfIptables(...job),
  [ensureNftProbesJob]: ensureNftProbes,
  [putNftProbesJob]: putNftProbes,
  [dropNftProbesJob]: dropNftProbes,
  [listNftProbesJob]: listNftProbes,
  [destroyNftProbesJob]: destroyNftProbes,
}

if (parentPort === null) throw new Error('this is the program of a worker thread')
serveJobs(parentPort, jobs)
