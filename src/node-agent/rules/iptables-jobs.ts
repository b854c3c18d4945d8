// SPDX-License-Identifier: Apache-2.0
// The work of the iptables backend in a pod, as jobs of a worker. Each comes back with the programs that it ran, also when it failed.

import type { WorkerPlace } from '../netns/job.js'
import { type Ran, runLogged } from './iptables-command.js'
import type { ApplyArgs, ApplyResult, CheckArgs, CheckResult } from './iptables-job-keys.js'
import { NetnsKernel, type PodKernel } from './iptables-kernel.js'
import { type PodWork, applyInPod, checkInPod, removeInPod, removeIptablesLeftovers } from './iptables-pod.js'

export function applyIptables(place: WorkerPlace, { work, options }: ApplyArgs): Ran<ApplyResult> {
  return inPod(place, (kernel) => applyInPod(kernel, work, options, place.log))
}

export function checkIptables(place: WorkerPlace, { work, options, knownGeneration }: CheckArgs): Ran<CheckResult> {
  return inPod(place, (kernel) => checkInPod(kernel, work, { options, knownGeneration, log: place.log }))
}

export function removeIptables(place: WorkerPlace, work: PodWork): Ran<undefined> {
  return inPod(place, (kernel) => {
    removeInPod(kernel, work, place.log)
    return undefined
  })
}

export function removeLeftoversOfIptables(place: WorkerPlace, work: PodWork): Ran<boolean> {
  return inPod(place, (kernel) => removeIptablesLeftovers(kernel, work, place.log))
}

function inPod<T>(place: WorkerPlace, work: (kernel: PodKernel) => T): Ran<T> {
  return place.inside(() =>
    runLogged(({ run }) => {
      const kernel = new NetnsKernel(place, run)
      try {
        return work(kernel)
      } finally {
        kernel.close()
      }
    }),
  )
}
