// SPDX-License-Identifier: Apache-2.0
// Living pods outside the mesh in whose namespaces there may still be rules of ours: those that left while their namespace could not be found, and, once
// after the start, those that nobody speaks of. Each is judged when its namespace is found, and then forgotten.

import { formatError } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import type { Labels } from '../kube/records.js'
import type { PodIdentity, PodRules } from './contracts.js'
import type { EnrolMetrics } from './enrol-metrics.js'
import type { Netns } from './netns/netns.js'
import { parsePodOverrides, type RuleDefaults } from './rules/overrides.js'

export interface Suspect {
  readonly pod: PodIdentity
  readonly processUid: string
  readonly ips: readonly string[]
  readonly annotations?: Labels | undefined
  /** It was enrolled by us; else it is touched only when its rules are exactly ours, or some of them, for other meshes use similar ones. */
  readonly wasEnrolled: boolean
}

export interface SuspectsParts {
  readonly rules: PodRules
  readonly defaults: RuleDefaults
  readonly metrics: EnrolMetrics
  readonly log: Logger
}

export class Suspects {
  readonly #parts: SuspectsParts
  readonly #all = new Map<string, Suspect>()

  constructor(parts: SuspectsParts) {
    this.#parts = parts
  }

  add(suspect: Suspect): void {
    const known = this.#all.get(suspect.pod.uid)
    if (known?.wasEnrolled !== true) this.#all.set(suspect.pod.uid, suspect)
  }

  delete(uid: string): void {
    this.#all.delete(uid)
  }

  values(): readonly Suspect[] {
    return [...this.#all.values()]
  }

  /** Takes out what is ours; the handle stays the caller's. Rejects as the rules do, and then the pod stays suspect. */
  async judge(suspect: Suspect, netns: Netns): Promise<void> {
    const { rules, defaults, metrics, log } = this.#parts
    const { uid, namespace, name } = suspect.pod
    try {
      const { options } = parsePodOverrides({ ...suspect.pod, annotations: suspect.annotations ?? {} }, defaults)
      const state = await rules.check(netns, options)
      const isOurs = suspect.wasEnrolled ? state !== 'absent' : state === 'complete' || state === 'unfinished'
      if (isOurs && this.#all.get(uid) === suspect) {
        await rules.remove(netns)
        metrics.countMended('stray')
        log.warn({ pod: `${namespace}/${name}` }, 'a pod outside the mesh had rules of ours; they are taken out')
      }
      if (this.#all.get(uid) === suspect) this.#all.delete(uid)
    } catch (error) {
      log.warn(
        { pod: `${namespace}/${name}`, error: formatError(error) },
        'rules of a pod outside the mesh could not be looked at',
      )
    }
  }
}
