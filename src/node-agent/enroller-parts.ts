// SPDX-License-Identifier: Apache-2.0
// What the enrolment works with: the node's pods and everything outside that a pod's steps touch. Filled in by node-agent.ts and by tests.

import type { Clock } from '../base/clock.js'
import type { Logger } from '../base/log.js'
import type { EnrolmentListener } from './agent-parts.js'
import type { AnnotationLedger } from './annotation-ledger.js'
import type { NetnsFinder, PodAnnotator, PodIdentity, PodRules, ProbeSet, Ztunnels } from './contracts.js'
import type { EnrolMetrics } from './enrol-metrics.js'
import type { EnrolledPods } from './enrolled-pods.js'
import type { RuleDefaults } from './rules/overrides.js'

export interface EnrollerParts {
  readonly pods: EnrolledPods
  readonly ledger: AnnotationLedger
  readonly rules: PodRules
  readonly probeSet: ProbeSet
  readonly ztunnels: Ztunnels
  readonly finder: NetnsFinder
  readonly annotator: PodAnnotator
  readonly defaults: RuleDefaults
  readonly metrics: EnrolMetrics
  readonly clock: Clock
  readonly log: Logger
  /** The pod is in the tables now, with this uid. */
  isThere(pod: PodIdentity): boolean
  /** A try ended before its end, by an error that may pass: somebody must try again. */
  onUnfinished(uid: string): void
  readonly listener?: EnrolmentListener | undefined
}
