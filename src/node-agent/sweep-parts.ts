// SPDX-License-Identifier: Apache-2.0
// What the regular look works with, and how each part of it says that it found a difference: one log line and one count.

import type { Clock } from '../base/clock.js'
import type { Logger } from '../base/log.js'
import type { AnnotationLedger } from './annotation-ledger.js'
import type { NetnsFinder, PodIdentity, PodRules, ProbeSet, Ztunnels } from './contracts.js'
import type { EnrolMetrics, Mended } from './enrol-metrics.js'
import { formatPod } from './enrol-requests.js'
import type { Enroller } from './enroll.js'
import type { EnrolledPods } from './enrolled-pods.js'
import type { PodWatcher } from './pod-watcher.js'
import type { PodWishes } from './pod-wishes.js'
import type { RuleDefaults } from './rules/overrides.js'

export interface SweepParts {
  readonly pods: EnrolledPods
  readonly wishes: PodWishes
  readonly ledger: AnnotationLedger
  readonly enroller: Enroller
  readonly watcher: PodWatcher
  readonly rules: PodRules
  readonly probeSet: ProbeSet
  readonly ztunnels: Ztunnels
  readonly finder: NetnsFinder
  readonly defaults: RuleDefaults
  readonly metrics: EnrolMetrics
  readonly clock: Clock
  readonly log: Logger
  readonly random: () => number
}

export function noteMended(
  { metrics, log }: Pick<SweepParts, 'log' | 'metrics'>,
  what: Mended,
  pod: PodIdentity | undefined,
  more: Readonly<Record<string, unknown>> = {},
): void {
  metrics.countMended(what)
  const fields = { what, ...(pod === undefined ? {} : { pod: formatPod(pod) }), ...more }
  log.warn(fields, 'the regular check found a difference and mends it')
}
