// SPDX-License-Identifier: Apache-2.0
// Writes what became of a pod into its annotation: as a merge patch of its status to an API server, or nowhere. Whether it is worth writing is decided
// elsewhere.

import { Retryable } from '../base/errors.js'
import type { Clock } from '../base/clock.js'
import { readBody, type KubeApi } from '../kube/api.js'
import { withDeadline } from '../kube/requests.js'
import { formatResourcePath, resourceTypes } from '../kube/resources.js'
import { redirectionAnnotation, type PodAnnotator, type PodIdentity, type Redirection } from './contracts.js'

/** The API server must have answered by then. */
const answerMs = 10_000
const never = new AbortController().signal
/** A hundred pods come at once after a change of their namespace: their requests shall not keep everything else from its turn. */
const mostBegunPerTurn = 4

/** Over an API server. */
export function createPodAnnotator(api: KubeApi, clock: Clock): PodAnnotator {
  const turn = createTurns()
  return {
    annotate: (pod, value, signal = never) =>
      withDeadline(clock, answerMs, signal, async (inTime) => {
        await turn()
        const response = await api.send(
          {
            method: 'PATCH',
            path: `${formatResourcePath(resourceTypes.Pod, 'v1', pod)}/status`,
            contentType: 'application/merge-patch+json',
            body: formatPatch(pod, value),
          },
          inTime,
        )
        const body = await readBody(response, 4 * 1024 * 1024)
        const { status } = response
        if (status >= 200 && status < 300) return 'written'
        const answer = parseStatus(body)
        // The uid in the patch makes the server refuse it for another pod of the same name: it may not change.
        const isOther = status === 422 && answer.fields.includes('metadata.uid')
        if (status === 404 || status === 409 || isOther) return 'gone'
        throw new Retryable(
          `the annotation of pod ${pod.namespace}/${pod.name} is not written: the API server answers ${status}${answer.reason}`,
        )
      }),
  }
}

/** Where nothing is written back: what was said lives in this process alone. */
export const noAnnotator: PodAnnotator = { annotate: () => Promise.resolve('written') }

/** Each call resolves at once, or in a later turn of the event loop when so many have begun in this one. */
function createTurns(): () => Promise<void> {
  const waiting: (() => void)[] = []
  let begun = 0
  const goOn = (): void => {
    const next = waiting.splice(0, mostBegunPerTurn)
    begun = next.length
    for (const begin of next) begin()
    if (begun > 0) setImmediate(goOn)
  }
  return () => {
    if (begun === 0) setImmediate(goOn)
    if (begun < mostBegunPerTurn && waiting.length === 0) {
      begun += 1
      return Promise.resolve()
    }
    return new Promise((resolve) => waiting.push(resolve))
  }
}

/** A key with null is taken away. */
function formatPatch({ uid }: PodIdentity, value: Redirection | undefined): string {
  return JSON.stringify({ metadata: { uid, annotations: { [redirectionAnnotation]: value ?? null } } })
}

interface Status {
  readonly message?: unknown
  readonly details?: { readonly causes?: readonly { readonly field?: unknown }[] } | null
}

/** Why, with a colon before it, and which fields are to blame; nothing where the answer is no Status. */
function parseStatus(body: Buffer): { readonly reason: string; readonly fields: readonly unknown[] } {
  try {
    const { message, details } = JSON.parse(body.toString()) as Status
    const reason = typeof message === 'string' && message !== '' ? `: ${message.slice(0, 300)}` : ''
    return { reason, fields: (details?.causes ?? []).map(({ field }) => field) }
  } catch {
    return { reason: '', fields: [] }
  }
}
