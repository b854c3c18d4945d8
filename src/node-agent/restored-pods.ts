// SPDX-License-Identifier: Apache-2.0
// Pods that were enrolled before this process was: rows for all of them at once, and their namespaces as far as one scan finds them. For the start. Tells
// nobody anything, and makes nothing.

import { sleep } from '../base/clock.js'
import { formatError } from '../base/errors.js'
import { formatPod, type EnrollRequest, type RestoredPod } from './enrol-requests.js'
import type { EnrollerParts } from './enroller-parts.js'
import { toCanonicalIps } from './pod-ips.js'

/** So long the first snapshot waits for a scan of /proc. */
const longestScanMs = 5_000

type RestoreParts = Pick<EnrollerParts, 'clock' | 'finder' | 'log' | 'pods'>

/** Never rejects, and waits no longer for the scan than a ztunnel can be made to wait for its snapshot. */
export async function restorePods(parts: RestoreParts, restored: readonly RestoredPod[]): Promise<void> {
  for (const { request, redirection } of restored) {
    const row = parts.pods.ensure(request.pod)
    row.ips = toCanonicalIps(request.ips)
    // Its ztunnel has it, or learns of it by the next snapshot.
    row.isTold = redirection === 'enabled'
  }
  if (restored.length === 0) return
  const waited = new AbortController()
  const enough = sleep(parts.clock, longestScanMs, waited.signal).catch(() => undefined)
  await Promise.race([findNamespaces(parts, restored), enough])
  waited.abort()
}

async function findNamespaces({ pods, finder, log }: RestoreParts, restored: readonly RestoredPod[]): Promise<void> {
  const uidOf = ({ processUid, pod }: EnrollRequest): string => processUid ?? pod.uid
  try {
    const wanted = restored.map(({ request }) => ({ uid: uidOf(request), ips: toCanonicalIps(request.ips) }))
    const found = await finder.find(wanted)
    for (const { request } of restored) {
      const row = pods.get(request.pod.uid)
      const netns = found.get(uidOf(request))
      // Late, and somebody else was faster: what he found counts.
      if (netns === undefined || row === undefined || row.netns !== undefined) continue
      const { isTold } = row
      row.settle(netns.share())
      row.isTold = isTold
    }
    for (const netns of found.values()) netns.close()
  } catch (error) {
    log.warn(
      { pods: restored.map(({ request }) => formatPod(request.pod)), error: formatError(error) },
      'the namespaces of enrolled pods were not found; ztunnel is told to keep what it has',
    )
  }
}
