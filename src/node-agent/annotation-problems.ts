// SPDX-License-Identifier: Apache-2.0
// Says which annotations of an enrolled pod are not followed, once for each value. For the way in and the watcher; decides nothing.

import type { Logger } from '../base/log.js'
import { formatPod } from './enrol-requests.js'
import type { EnrolledPod } from './enrolled-pods.js'

/** `problems` are sentences that name annotation and value; the same ones as last time are not repeated. */
export function tellAnnotationProblems(row: EnrolledPod, problems: readonly string[], log: Logger): void {
  const text = problems.join('; ')
  if (row.toldOfAnnotations === text) return
  row.toldOfAnnotations = text
  for (const warning of problems)
    log.warn({ pod: formatPod(row.pod), warning }, 'an annotation of a pod is not followed')
}
