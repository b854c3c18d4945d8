// SPDX-License-Identifier: Apache-2.0
// Keeps a pod's open connections alive while it is enrolled. Where connection tracking begins with our rules, the first packet that it sees of an open
// connection would count as that of a new one and be redirected: a reset. With this setting at 0 such packets belong to no connection and go their way.
// For the jobs of every backend; the setting stays at 0 for as long as rules are there.

import { formatError } from '../../base/errors.js'
import type { WorkerPlace } from '../netns/job.js'
import { readSysctl, writeSysctl } from '../netns/sysctl.js'

const setting = 'net/netfilter/nf_conntrack_tcp_loose'
const commentStart = 'tcp_loose was '
/** What the kernel sets where nobody else does. */
const kernelDefault = '1'

/** False where connection tracking is not loaded yet: then nothing can be held. */
export function hasTcpLooseSetting(place: WorkerPlace): boolean {
  return readSysctl(place, setting) !== undefined
}

/**
 * Before rules are loaded. Gives back what the setting was; undefined when the kernel has none yet (connection tracking not loaded) or it cannot be
 * written, which is logged: rules without it are worth more than none, at the price of the connections that are open now.
 */
export function holdTcpConnections(place: WorkerPlace): string | undefined {
  try {
    return writeSysctl(place, setting, '0')
  } catch (error) {
    place.log.warn(
      { setting, error: formatError(error) },
      'open connections of the pod may be reset: setting not writable',
    )
    return undefined
  }
}

/** After rules are gone: what it was before them. Nothing to put back when that is not known. */
export function releaseTcpConnections(place: WorkerPlace, before: string | undefined): void {
  if (before === undefined || before === '0') return
  try {
    writeSysctl(place, setting, before)
  } catch (error) {
    place.log.warn({ setting, error: formatError(error) }, 'setting of the pod not put back')
  }
}

/** What the setting was, as text that stays with our rules in the kernel: whoever takes them out may be another process than made them. */
export function formatTcpLooseComment(before: string | undefined): string {
  return `${commentStart}${before ?? kernelDefault}`
}

/** Reads it back; the kernel's default when there is no such text. */
export function parseTcpLooseComment(comment: string | undefined): string {
  const text = comment?.startsWith(commentStart) === true ? comment.slice(commentStart.length) : ''
  return text === '0' || text === '1' ? text : kernelDefault
}
