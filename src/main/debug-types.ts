// SPDX-License-Identifier: Apache-2.0
// The debug pages' view of a running server, and the same pages over discovery streams. For serve.ts and server-pages.ts.

import { hostname } from 'node:os'
import type { Authentication } from '../auth/authentication.js'
import { createDebugTypes } from '../debug/debug-types.js'
import type { PageOptions } from '../debug/pages.js'
import { objectKey } from '../kube/records.js'
import type { DebugTypes } from '../xds/debug-types.js'
import type { XdsServer } from '../xds/server.js'
import type { ServedGraph } from './served-graph.js'
import type { Settings } from './settings-table.js'

/** What pages are made from. The server is asked for late: its streams show pages too. */
export function toPageOptions(served: ServedGraph, settings: Settings, xds: () => XdsServer): PageOptions {
  return {
    store: served.address.store,
    clients: () => xds().clients(),
    held: (connectionId) => xds().held(connectionId),
    labelsOf({ proxy, namespace }) {
      const name = proxy.endsWith(`.${namespace}`) ? proxy.slice(0, -namespace.length - 1) : proxy
      return served.inputs.Pod.get(objectKey(settings.clusterId, namespace, name))?.labels ?? {}
    },
  }
}

export interface ServerDebugTypesOptions {
  readonly served: ServedGraph
  readonly settings: Settings
  readonly authentication: Authentication
  readonly version: string
  readonly xds: () => XdsServer
}

export function createServerDebugTypes(options: ServerDebugTypesOptions): DebugTypes {
  const { served, settings, authentication, version, xds } = options
  return createDebugTypes({
    ...toPageOptions(served, settings, xds),
    systemNamespace: settings.systemNamespace,
    access: authentication.debug,
    replica: settings.podName === '' ? hostname() : settings.podName,
    build: { version, revision: settings.revision },
  })
}
