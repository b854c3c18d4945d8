// SPDX-License-Identifier: Apache-2.0
// The pages of the node agent: health for kubelet, metrics for Prometheus, and a socket on the node for people. What they say is given from outside.

import type { Registry } from 'prom-client'
import { createAdminServer, toJsonReply, type AdminRoute, type AdminServer } from '../base/admin-http.js'
import type { BoundAddress } from '../base/listen.js'
import type { Logger } from '../base/log.js'
import type { EnrolledPodDescription } from '../node-agent/agent-parts.js'
import { createHealthRoutes } from '../node-agent/health.js'
import type { NodeSettings } from './node-settings-table.js'
import { toMetricsRoute, toVersionRoute, type Pending } from './operation-routes.js'
import { readVersion } from './program.js'

export interface NodePagesOptions {
  readonly settings: NodeSettings
  readonly registry: Registry
  readonly log: Logger
  readonly pending: Pending
  readonly pods: () => readonly EnrolledPodDescription[]
  /** Questions about addresses. */
  readonly addressRoutes: readonly AdminRoute[]
  readonly socketPath: string
}

export interface BoundPages {
  readonly health: BoundAddress | undefined
  readonly monitoring: BoundAddress | undefined
}

export class NodePages {
  readonly #options: NodePagesOptions
  readonly #servers: AdminServer[] = []

  constructor(options: NodePagesOptions) {
    this.#options = options
  }

  /** Rejects with Fatal that names the setting. */
  async open(): Promise<BoundPages> {
    const { settings, registry, pending, pods, addressRoutes, socketPath } = this.#options
    const healthRoutes = createHealthRoutes(pending)
    const health = this.#create(healthRoutes)
    const pages = [toMetricsRoute(registry, false), toVersionRoute(readVersion())]
    const monitoring = this.#create(pages)
    const people = this.#create([
      ...addressRoutes,
      ...pages,
      ...healthRoutes,
      {
        path: '/pods',
        about: 'Pods that are enrolled, or being so.',
        handle: ({ query }) => toJsonReply(pods(), query),
      },
    ])
    const { healthAddr, monitoringPort } = settings
    const bound = {
      health: healthAddr === undefined ? undefined : await health.listen(healthAddr, '--health-addr'),
      monitoring:
        monitoringPort < 1
          ? undefined
          : await monitoring.listen({ host: undefined, port: monitoringPort }, '--monitoring-port'),
    }
    await people.listenPath(socketPath, '--cni-agent-run-dir')
    return bound
  }

  async close(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.close()))
  }

  #create(routes: readonly AdminRoute[]): AdminServer {
    const server = createAdminServer({ routes, log: this.#options.log.child({ scope: 'http' }) })
    this.#servers.push(server)
    return server
  }
}
