// SPDX-License-Identifier: Apache-2.0
// Where the agent gets namespaces of pods from: a path that the runtime named, or a look through the node's processes. Gives no handle of the node's own
// namespace, ever.

import { isAbsolute } from 'node:path'
import { InvalidInput, formatError } from '../../base/errors.js'
import type { Logger } from '../../base/log.js'
import type { NetnsFinder, WantedPod } from '../contracts.js'
import { createNetns, openNetnsFile } from './handle.js'
import { type Netns, type NetnsId, formatNetns, isSameNetns } from './netns.js'
import { scanProcessesJob } from './process-scan.js'
import type { NetnsWorkers } from './workers.js'

export interface NetnsFinderOptions {
  /** The node's /proc (`/host/proc`). */
  readonly procRoot: string
  /** Put before every path of the runtime (`/host`); empty where its paths are ours. */
  readonly hostPrefix: string
  readonly workers: NetnsWorkers
  readonly log: Logger
  /** The node's own namespace (openHostNetns); only compared with. */
  readonly hostNetns: NetnsId
}

export function createNetnsFinder(options: NetnsFinderOptions): NetnsFinder {
  return {
    // Not in a worker: that a name stands for a namespace is known without a wait.
    open: (path) => Promise.resolve().then(() => open(options, path)),
    find: (pods, seen) => find(options, pods, seen),
  }
}

function open({ hostPrefix, hostNetns }: NetnsFinderOptions, path: string): Netns {
  if (!isAbsolute(path) || path.includes('\0')) {
    throw new InvalidInput(`${JSON.stringify(path)} is no path of a network namespace: it must begin with /`)
  }
  const netns = openNetnsFile(hostPrefix + path)
  if (!isSameNetns(netns, hostNetns)) return netns
  netns.close()
  throw new InvalidInput(`${path} is the node's own network namespace`)
}

async function find(
  options: NetnsFinderOptions,
  pods: readonly WantedPod[],
  seen?: Set<string>,
): Promise<ReadonlyMap<string, Netns>> {
  const { procRoot, workers, log, hostNetns } = options
  const found = new Map<string, Netns>()
  // Without an address nobody can tell whether a namespace is the pod's.
  const wanted = pods.filter(({ ips }) => ips.length > 0)
  if (wanted.length === 0) return found
  const scan = {
    procRoot,
    pods: wanted.map(({ uid, ips }) => ({ uid, ips: [...ips] })),
    excluded: [formatNetns(hostNetns)],
  }
  const result = await workers.run(scanProcessesJob, { args: scan })
  for (const uid of result.seen) seen?.add(uid)
  for (const { uid, fd } of result.found) {
    try {
      found.set(uid, createNetns(fd, `the namespace of pod ${uid}`))
    } catch (error) {
      log.warn({ uid, error: formatError(error) }, 'a namespace that was found cannot be used')
    }
  }
  return found
}
