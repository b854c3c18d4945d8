// SPDX-License-Identifier: Apache-2.0
// The HTTP pages of addressd, per listener: which are where, and what they are made from. For serve.ts.

import { createAdminServer, toIndexReply, type AdminRoute, type AdminServer } from '../base/admin-http.js'
import type { BoundAddress, ListenAddress } from '../base/listen.js'
import type { Logger } from '../base/log.js'
import { createDebugRoutes } from '../debug/routes.js'
import { toPageOptions } from './debug-types.js'
import { toMetricsRoute, toReadyRoute, toVersionRoute, type Pending } from './operation-routes.js'
import type { ServerParts } from './server-parts.js'
import type { Settings } from './settings-table.js'

export interface ServerPagesOptions {
  readonly settings: Settings
  readonly parts: ServerParts
  readonly log: Logger
  readonly version: string
  readonly pending: Pending
}

export class ServerPages {
  readonly #options: ServerPagesOptions
  readonly #servers: AdminServer[] = []

  constructor(options: ServerPagesOptions) {
    this.#options = options
  }

  /** Serves the pages of one listener; undefined = off. Rejects with Fatal that names the flag. */
  async open(
    flag: '--httpAddr' | '--monitoringAddr',
    address: ListenAddress | undefined,
    debug: boolean,
  ): Promise<BoundAddress | undefined> {
    if (address === undefined) return undefined
    const routes = [...this.#createRoutes(flag), ...(debug ? this.#createDebugRoutes() : [])]
    const index: AdminRoute = { path: '/', handle: () => toIndexReply('addressd', routes) }
    const server = createAdminServer({ routes: [...routes, index], log: this.#options.log.child({ scope: 'http' }) })
    this.#servers.push(server)
    return await server.listen(address, flag)
  }

  async close(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.close()))
  }

  #createRoutes(flag: '--httpAddr' | '--monitoringAddr'): readonly AdminRoute[] {
    const { settings, parts, version, pending } = this.#options
    if (flag === '--httpAddr') return [toReadyRoute(pending)]
    return [toMetricsRoute(parts.registry, settings.metricsLocalOnly), toVersionRoute(version)]
  }

  #createDebugRoutes(): readonly AdminRoute[] {
    const { parts, settings } = this.#options
    const { served, xds, authentication } = parts
    return createDebugRoutes({ ...toPageOptions(served, settings, () => xds), access: authentication.debug })
  }
}
