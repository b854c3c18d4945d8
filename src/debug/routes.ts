// SPDX-License-Identifier: Apache-2.0
// The debug pages as HTTP routes. Everything but the index is for callers of this machine alone: there is nothing yet that others could prove who they are with.

import { toIndexReply, type AdminReply, type AdminRequest, type AdminRoute } from '../base/admin-http.js'
import { createDebugPages, type PageOptions } from './pages.js'

/** `/debug` and `/debug/<command>` for an admin server. */
export function createDebugRoutes(options: PageOptions): readonly AdminRoute[] {
  const pages = createDebugPages(options).map((page): AdminRoute => ({
    path: `/debug/${page.command}`,
    about: page.about,
    handle: (request) => refuse(request) ?? page.handle(request.query),
  }))
  return [{ path: '/debug', handle: () => toIndexReply('addressd debug pages', pages) }, ...pages]
}

function refuse(request: AdminRequest): AdminReply | undefined {
  if (request.local) return undefined
  return { status: 401, contentType: 'text/plain; charset=utf-8', body: '' }
}
