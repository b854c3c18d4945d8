// SPDX-License-Identifier: Apache-2.0
// What is counted about the reading of API servers. For the reflectors; main owns the registry.

import { Counter, Gauge, type Registry } from 'prom-client'
import type { Kind } from './records.js'
import { resourceTypes } from './resources.js'

export interface KubeMetrics {
  /** Objects seen to come, change and go, in lists and watches. */
  countEvents(kind: Kind, event: 'add' | 'update' | 'delete', by: number): void
  /** A request was answered with this status; 0 for no answer. */
  countRequest(kind: Kind, verb: 'list' | 'watch', status: number): void
  /** An open watch ended. */
  countEnd(kind: Kind, reason: string): void
  /** Objects that cannot be read now. */
  setUnreadable(kind: Kind, count: number): void
}

const registryTypes: { readonly [K in Kind]?: string } = {
  Pod: 'Pods',
  Service: 'Services',
  Node: 'Nodes',
  Namespace: 'Namespaces',
  EndpointSlice: 'EndpointSlice',
  ConfigMap: 'ConfigMaps',
}

/** Several feeds may share one registry. */
export function createKubeMetrics(registry: Registry): KubeMetrics {
  const counter = (name: string, help: string, labelNames: string[]): Counter => {
    const known = registry.getSingleMetric(name)
    return known instanceof Counter ? known : new Counter({ name, help, labelNames, registers: [registry] })
  }
  const cfg = counter('pilot_k8s_cfg_events', 'Events of configuration objects.', ['type', 'event'])
  const reg = counter('pilot_k8s_reg_events', 'Events of workload and service objects.', ['type', 'event'])
  const requests = counter('addressd_kube_requests_total', 'Answers of the API server; code 0 is none.', [
    'kind',
    'verb',
    'code',
  ])
  const ends = counter('addressd_kube_watch_ends_total', 'Open watches that ended.', ['kind', 'reason'])
  const gaugeName = 'addressd_kube_unreadable_objects'
  const known = registry.getSingleMetric(gaugeName)
  const unreadable =
    known instanceof Gauge
      ? known
      : new Gauge({
          name: gaugeName,
          help: 'Objects that cannot be read.',
          labelNames: ['kind'],
          registers: [registry],
        })
  return {
    countEvents(kind, event, by) {
      if (by === 0) return
      if (resourceTypes[kind].custom) cfg.inc({ type: kind, event }, by)
      else reg.inc({ type: registryTypes[kind] ?? kind, event }, by)
    },
    countRequest: (kind, verb, status) => requests.inc({ kind, verb, code: String(status) }),
    countEnd: (kind, reason) => ends.inc({ kind, reason }),
    setUnreadable: (kind, count) => unreadable.set({ kind }, count),
  }
}
