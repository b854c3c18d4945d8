// SPDX-License-Identifier: Apache-2.0
// What to do about a pod: what should be against what is. Pure, and the only place where the two are compared.

import { formatError } from '../base/errors.js'
import type { Redirection } from './contracts.js'
import type { EnrolledPod } from './enrolled-pods.js'
import type { Farewell } from './enrol-requests.js'
import { isSameIps } from './pod-ips.js'
import type { PodWish } from './pod-wishes.js'
import { toOptionsKey } from './rules/generation.js'
import { parsePodOverrides, type RuleDefaults } from './rules/overrides.js'

export type NextStep =
  | { readonly verb: 'nothing' }
  | { readonly verb: 'enroll' }
  | { readonly verb: 'sync-addresses' }
  | { readonly verb: 'release'; readonly how: Farewell }

const nothing: NextStep = { verb: 'nothing' }
const enroll: NextStep = { verb: 'enroll' }

/** For a pod that is there. `redirection` is the annotation as far as we know, which may be ahead of the pod's. */
export function selectNextStep(
  wish: PodWish,
  row: EnrolledPod | undefined,
  redirection: Redirection | undefined,
  defaults: RuleDefaults,
): NextStep {
  const isMarked = row !== undefined || redirection !== undefined
  if (wish.ended) return isMarked ? { verb: 'release', how: 'ended' } : nothing
  // Captured by itself it would have no network, whatever its labels say.
  if (wish.isZtunnel) return isMarked ? { verb: 'release', how: 'left' } : nothing
  if (!wish.verdict.eligible) {
    // Without its namespace nobody can say; when it comes this is asked again.
    if (wish.verdict.why === 'unknown-namespace') return nothing
    return isMarked ? { verb: 'release', how: 'left' } : nothing
  }
  if (row === undefined) return wish.ips.length > 0 ? enroll : nothing
  const ips = selectIps(wish, row)
  if (!isComplete(row, redirection)) return ips.length > 0 ? enroll : nothing
  if (!isSameIps(ips, row.ips)) return { verb: 'sync-addresses' }
  return isAsOptions(wish, row, defaults) ? nothing : enroll
}

/** The pod's addresses: those of its object, unless the runtime told newer ones or it has none. */
export function selectIps(wish: PodWish, row: EnrolledPod | undefined): readonly string[] {
  if (row === undefined) return wish.ips
  const isOlder = row.outdated !== undefined && isSameIps(wish.ips, row.outdated)
  return wish.ips.length === 0 || isOlder ? row.ips : wish.ips
}

/** For a pod whose object is gone; `wish` is the last one. */
export function selectLastStep(wish: PodWish, isKnown: boolean, redirection: Redirection | undefined): NextStep {
  const { verdict } = wish
  const isMarked = isKnown || redirection !== undefined || wish.redirection !== undefined
  return isMarked || verdict.eligible || verdict.selected ? { verb: 'release', how: 'gone' } : nothing
}

/** Every step is done, as far as we know. */
export function isComplete(row: EnrolledPod, redirection: Redirection | undefined): boolean {
  const { netns, isRuled, isTold, isProbed, isLeaving } = row
  return netns !== undefined && isRuled && isTold && isProbed && !isLeaving && redirection === 'enabled'
}

/** One sentence for each annotation about rules that is not followed, with its value. */
export function selectAnnotationProblems({ pod, annotations }: PodWish, defaults: RuleDefaults): readonly string[] {
  try {
    return parsePodOverrides({ ...pod, annotations: annotations ?? {} }, defaults).warnings
  } catch (error) {
    return [formatError(error)]
  }
}

function isAsOptions(wish: PodWish, row: EnrolledPod, defaults: RuleDefaults): boolean {
  if (row.options === undefined) return false
  try {
    const { options } = parsePodOverrides({ ...wish.pod, annotations: wish.annotations ?? {} }, defaults)
    return toOptionsKey(row.options) === toOptionsKey(options)
  } catch {
    return true // an annotation that cannot be followed leaves what is there
  }
}
