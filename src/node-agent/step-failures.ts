// SPDX-License-Identifier: Apache-2.0
// What becomes of a step of the enrolment that fails: it keeps no other step from being done, and reaches whoever asked as one of two classes.

import { InvalidInput, Retryable, formatError } from '../base/errors.js'
import type { PodIdentity } from './contracts.js'
import { formatPod } from './enrol-requests.js'

/** Does each though others fail, then rejects with the first failure. */
export async function inAnyCase(steps: readonly (() => Promise<void>)[]): Promise<void> {
  const results = await Promise.allSettled(steps.map((step) => step()))
  for (const result of results) if (result.status === 'rejected') throw result.reason
}

/** Every failure as one of the two classes, with the pod's name in front. */
export function toFailure(pod: PodIdentity, error: unknown): InvalidInput | Retryable {
  const prefix = `pod ${formatPod(pod)}: `
  const text = formatError(error)
  const message = text.startsWith(prefix) ? text : `${prefix}${text}`
  return error instanceof InvalidInput ? new InvalidInput(message, error) : new Retryable(message, error)
}
