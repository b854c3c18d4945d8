// SPDX-License-Identifier: Apache-2.0
// Kernel settings of a pod's namespace, for jobs. Reads and writes are synchronous, because only this thread is in the namespace.

import { readFileSync, writeFileSync } from 'node:fs'
import type { WorkerPlace } from './job.js'

/** The setting (`net/netfilter/nf_conntrack_tcp_loose`) in the job's namespace; undefined when the kernel has none of that name. */
export function readSysctl(place: WorkerPlace, name: string): string | undefined {
  return place.inside(() => read(name))
}

/**
 * Writes the setting in the job's namespace and gives back what it was; undefined, and nothing written, when the kernel has none of that name. Works where
 * `/proc/sys` is read-only, if the process may mount. Throws an error with a `code` when it cannot be written.
 */
export function writeSysctl(place: WorkerPlace, name: string, value: string): string | undefined {
  return place.inside(() => {
    const before = read(name)
    if (before === undefined || before === value) return before
    try {
      writeFileSync(`/proc/sys/${name}`, value)
    } catch (error) {
      if (codeOf(error) !== 'EROFS') throw error
      place.ownProc()
      writeFileSync(`/proc/sys/${name}`, value)
    }
    return before
  })
}

function read(name: string): string | undefined {
  try {
    return readFileSync(`/proc/sys/${name}`, 'utf8').trim()
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}
