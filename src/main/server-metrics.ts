// SPDX-License-Identifier: Apache-2.0
// The numbers of the server as a whole, under istiod's names where it has them. Those of streams and of reading belong to xds and kube.

import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { Clock } from '../base/clock.js'
import type { Kind } from '../kube/records.js'

const reasons: Readonly<Record<Kind, string>> = {
  Namespace: 'namespace',
  Node: 'endpoint',
  ConfigMap: 'global',
  GatewayClass: 'config',
  Gateway: 'config',
  Service: 'service',
  ServiceEntry: 'service',
  WorkloadEntry: 'endpoint',
  AuthorizationPolicy: 'config',
  PeerAuthentication: 'config',
  EndpointSlice: 'endpoint',
  Pod: 'endpoint',
}

export interface ServerMetricsOptions {
  readonly registry: Registry
  readonly clock: Clock
  readonly version: string
  /** Read when somebody asks. */
  readonly services: () => number
}

export class ServerMetrics {
  readonly #touched = new Set<string>()
  readonly #inbound: Counter<'type'>
  readonly #triggers: Counter<'type'>
  readonly #debounce: Histogram
  readonly #commit: Histogram

  constructor(options: ServerMetricsOptions) {
    const { registry, clock, version, services } = options
    const registers = [registry]
    this.#inbound = new Counter({
      name: 'pilot_inbound_updates',
      help: 'Objects that were read and differ from what was known, by kind of use.',
      labelNames: ['type'],
      registers,
    })
    this.#triggers = new Counter({
      name: 'pilot_push_triggers',
      help: 'Commits that changed what is served, by what had changed.',
      labelNames: ['type'],
      registers,
    })
    const buckets = [0.01, 0.1, 0.5, 1, 3, 5, 10, 20, 30]
    this.#debounce = new Histogram({
      name: 'pilot_debounce_time',
      help: 'Seconds from the first change of a burst to its commit.',
      buckets,
      registers,
    })
    this.#commit = new Histogram({
      name: 'addressd_commit_seconds',
      help: 'Seconds that a commit took: everything derived anew, resources encoded, streams told.',
      buckets: [0.0001, 0.001, 0.01, 0.1, 1, 10],
      registers,
    })
    const startedMs = clock.monotonic()
    const gauge = (name: string, help: string, read: () => number): void => {
      new Gauge({
        name,
        help,
        registers,
        collect() {
          this.set(read())
        },
      })
    }
    gauge('istiod_uptime_seconds', 'Seconds since the start.', () => (clock.monotonic() - startedMs) / 1000)
    gauge('pilot_services', 'Services that are served.', services)
    new Gauge({ name: 'pilot_info', help: 'Version, as a label.', labelNames: ['version'], registers }).set(
      { version },
      1,
    )
    new Gauge({ name: 'istio_build', help: 'Version, as a label.', labelNames: ['component', 'tag'], registers }).set(
      { component: 'pilot', tag: version },
      1,
    )
    const clusters = new Gauge({
      name: 'istiod_managed_clusters',
      help: 'Clusters whose objects are read.',
      labelNames: ['cluster_type'],
      registers,
    })
    clusters.set({ cluster_type: 'local' }, 1)
    clusters.set({ cluster_type: 'remote' }, 0)
  }

  /** Objects were read. */
  countInput(kind: Kind, verb: 'write' | 'delete', rows: number): void {
    this.#touched.add(reasons[kind])
    this.#inbound.inc({ type: toInboundType(kind, verb) }, rows)
  }

  /** A burst of changes was committed. */
  countCommit(waitedMs: number, tookMs: number, isServedChanged: boolean): void {
    this.#debounce.observe(waitedMs / 1000)
    this.#commit.observe(tookMs / 1000)
    if (isServedChanged) for (const type of this.#touched) this.#triggers.inc({ type })
    this.#touched.clear()
  }
}

function toInboundType(kind: Kind, verb: 'write' | 'delete'): string {
  if (kind === 'Service') return verb === 'delete' ? 'svcdelete' : 'svc'
  return kind === 'EndpointSlice' ? 'eds' : 'config'
}
