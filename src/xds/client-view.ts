// SPDX-License-Identifier: Apache-2.0
// What can be seen of a connected client from outside: for debug pages, addressctl and metrics. A copy; changing it changes nothing.

/** One type on one stream. */
export interface WatchView {
  readonly typeUrl: string
  readonly wildcard: boolean
  /** Names asked for, letter by letter; empty for a plain wildcard. */
  readonly names: readonly string[]
  /** Nonce of the last response sent; empty when nothing was sent. */
  readonly sentNonce: string
  /** Nonce of the last response acknowledged; empty when none was. */
  readonly ackedNonce: string
  /** When the last response was written, milliseconds since the epoch; 0 when nothing was. */
  readonly sentAtMs: number
  /** The client's last rejection, until it acknowledges something later; empty otherwise. */
  readonly lastError: string
}

export type SyncState = 'SYNCED' | 'STALE' | 'ERROR' | 'NOT_SENT'

export interface ClientView {
  /** `<node name part>-<counter>`. */
  readonly connectionId: string
  /** Third part of the node id (`pod.namespace`). */
  readonly proxy: string
  /** First part of the node id. */
  readonly proxyType: string
  readonly nodeId: string
  readonly clusterId: string
  readonly namespace: string
  /** Kubernetes node of the client; empty when it did not say. */
  readonly nodeName: string
  readonly version: string
  readonly metadata: Readonly<Record<string, unknown>>
  readonly locality: Readonly<Record<string, string>>
  /** Peer address, `ip:port`. */
  readonly address: string
  /** Milliseconds since the epoch. */
  readonly connectedAtMs: number
  readonly watches: readonly WatchView[]
}

/** ERROR after a rejection, NOT_SENT before the first response, SYNCED when the last response is acknowledged, else STALE. */
export function toSyncState(watch: WatchView): SyncState {
  if (watch.lastError !== '') return 'ERROR'
  if (watch.sentNonce === '') return 'NOT_SENT'
  return watch.ackedNonce === watch.sentNonce ? 'SYNCED' : 'STALE'
}
