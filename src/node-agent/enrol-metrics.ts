// SPDX-License-Identifier: Apache-2.0
// What is counted of enrolment. One per registry.

import { Counter, Gauge, type Registry } from 'prom-client'
import type { EnrolledPods } from './enrolled-pods.js'

export type EventType = 'add' | 'update' | 'delete'
/** What the sweep found different. */
export type Mended = 'rules' | 'ztunnel' | 'probe-set' | 'namespace' | 'annotation' | 'stray'

export class EnrolMetrics {
  readonly #events: Counter<'type'>
  readonly #attempts: Counter<'verb' | 'result'>
  readonly #mended: Counter<'what'>

  constructor(registry: Registry, pods: EnrolledPods) {
    const registers = [registry]
    this.#events = new Counter({
      name: 'nodeagent_reconcile_events_total',
      help: 'Changes of pods that were acted upon or looked at, tries that were repeated included, by the kind of change.',
      labelNames: ['type'],
      registers,
    })
    this.#attempts = new Counter({
      name: 'addressd_node_enrolments_total',
      help: 'Pods taken into the mesh and out of it, by what became of it: done, retried, refused (not tried again by itself) or given up for something newer.',
      labelNames: ['verb', 'result'],
      registers,
    })
    this.#mended = new Counter({
      name: 'addressd_node_mended_total',
      help: 'Differences between what should be and what is that the regular check found, by where.',
      labelNames: ['what'],
      registers,
    })
    new Gauge({
      name: 'addressd_node_enrolled_pods',
      help: 'Pods that are in the mesh or on their way in or out.',
      registers,
      collect() {
        this.set(pods.size)
      },
    })
  }

  countEvent(type: EventType): void {
    this.#events.inc({ type })
  }

  countAttempt(verb: 'enrol' | 'release', result: 'done' | 'retried' | 'refused' | 'aborted'): void {
    this.#attempts.inc({ verb, result })
  }

  countMended(what: Mended): void {
    this.#mended.inc({ what })
  }
}
