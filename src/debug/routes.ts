// SPDX-License-Identifier: Apache-2.0
// The debug pages as HTTP routes. The index is for everybody; of the pages each caller sees what the access says.

import { toIndexReply, type AdminReply, type AdminRequest, type AdminRoute } from '../base/admin-http.js'
import { localOnly, type PageAccess } from './access.js'
import { createDebugPages, type DebugPage, type PageOptions } from './pages.js'

export interface RouteOptions extends PageOptions {
  /** Default: callers of this machine alone. */
  readonly access?: PageAccess | undefined
}

/** `/debug` and `/debug/<command>` for an admin server. */
export function createDebugRoutes(options: RouteOptions): readonly AdminRoute[] {
  const pages = createDebugPages(options).map((page): AdminRoute => ({
    path: `/debug/${page.command}`,
    about: page.about,
    handle: (request) => answer(request, page, options),
  }))
  return [{ path: '/debug', handle: () => toIndexReply('addressd debug pages', pages) }, ...pages]
}

async function answer(request: AdminRequest, page: DebugPage, options: RouteOptions): Promise<AdminReply> {
  const sight = await (options.access ?? localOnly).judge(request, page.command)
  if (sight.kind === 'refused') return refuse(sight.status)
  if (sight.kind === 'all') return page.handle(request.query)
  const own = createDebugPages({
    ...options,
    clients: () => options.clients().filter((client) => client.namespace === sight.namespace),
  }).find(({ command }) => command === page.command)
  const reply = own?.handle(request.query)
  // Whether somebody else's proxy is connected is not to be learnt either.
  return reply === undefined || reply.status === 404 ? refuse(403) : reply
}

function refuse(status: number): AdminReply {
  return { status, contentType: 'text/plain; charset=utf-8', body: '' }
}
