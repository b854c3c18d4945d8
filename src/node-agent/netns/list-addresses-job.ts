// SPDX-License-Identifier: Apache-2.0
// The addresses of a namespace, as a job.

import type { JobKey, WorkerPlace } from './job.js'
import { listInterfaceAddresses } from './interface-addresses.js'

export const listAddressesJob = 'netns/list-addresses' as JobKey<undefined, string[]>

/** Canonical texts of every address on any interface, loopback too. */
export function listAddresses(place: WorkerPlace): string[] {
  return place.inside(listInterfaceAddresses)
}
