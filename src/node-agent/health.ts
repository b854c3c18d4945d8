// SPDX-License-Identifier: Apache-2.0
// The pages that kubelet probes. What readiness consists of is said by whoever makes them.

import type { AdminRoute } from '../base/admin-http.js'

const contentType = 'text/plain; charset=utf-8'

/** `pending` names what is missing, shortly; empty when the agent is ready. */
export function createHealthRoutes(pending: () => readonly string[]): readonly AdminRoute[] {
  return [
    { path: '/healthz', handle: () => ({ status: 200, contentType, body: 'ok\n' }) },
    {
      path: '/readyz',
      about: 'Whether pods of this node can be enrolled; what is missing where they cannot.',
      handle() {
        const missing = pending()
        if (missing.length === 0) return { status: 200, contentType, body: 'ok\n' }
        return { status: 503, contentType, body: `not ready: ${missing.join(', ')}\n` }
      },
    },
  ]
}
