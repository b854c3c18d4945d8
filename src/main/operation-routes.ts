// SPDX-License-Identifier: Apache-2.0
// The pages of operation: /ready for probes, /metrics for Prometheus, /version for people. What they say is given from outside.

import type { Registry } from 'prom-client'
import { toJsonReply, toTextReply, type AdminRoute } from '../base/admin-http.js'

/** What is not there yet. Empty = ready. */
export type Pending = () => readonly string[]

/** 200 with an empty body once nothing is pending; 503 with what is. */
export function toReadyRoute(pending: Pending): AdminRoute {
  return {
    path: '/ready',
    about: 'Whether everything was read and is served.',
    handle({ query }) {
      const missing = pending()
      return missing.length === 0 ? toTextReply('') : toJsonReply({ pending: missing }, query, 503)
    },
  }
}

/** The registry as Prometheus reads it. With `localOnly` others than this machine are refused. */
export function toMetricsRoute(registry: Registry, localOnly: boolean): AdminRoute {
  return {
    path: '/metrics',
    about: 'Metrics for Prometheus.',
    async handle(request) {
      if (localOnly && !request.local) return toTextReply('metrics are for callers of this machine only\n', 403)
      return { status: 200, contentType: registry.contentType, body: await registry.metrics() }
    },
  }
}

/** The version, one line. */
export function toVersionRoute(version: string): AdminRoute {
  return { path: '/version', about: 'The version.', handle: () => toTextReply(`${version}\n`) }
}
