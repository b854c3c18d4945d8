// SPDX-License-Identifier: Apache-2.0
// Connected clients as rows, with ages instead of moments so that the reader's clock does not matter. For the Inspect service.

import type { ClientRow, ListRequest } from '../wire/inspect.js'
import { toSyncState, type ClientView } from '../xds/client-view.js'

/** Rows of the clients that pass the filter. `nowMs` is wall time, milliseconds since the epoch. */
export function toClientRows(clients: readonly ClientView[], request: ListRequest, nowMs: number): ClientRow[] {
  return clients
    .filter((client) => request.namespace === '' || client.namespace === request.namespace)
    .filter((client) => request.node === '' || client.nodeName === request.node)
    .map((client) => toClientRow(client, nowMs))
}

function toClientRow(client: ClientView, nowMs: number): ClientRow {
  return {
    connectionId: client.connectionId,
    name: client.proxy,
    namespace: client.namespace,
    type: client.proxyType,
    cluster: client.clusterId,
    node: client.nodeName,
    version: client.version,
    address: client.address,
    connectedMs: Math.max(0, Math.round(nowMs - client.connectedAtMs)),
    watches: client.watches.map((watch) => ({
      typeUrl: watch.typeUrl,
      state: toSyncState(watch),
      sentMsAgo: watch.sentAtMs === 0 ? 0 : Math.max(0, Math.round(nowMs - watch.sentAtMs)),
      lastError: watch.lastError,
      wildcard: watch.wildcard,
      names: watch.names.length,
    })),
  }
}
