// SPDX-License-Identifier: Apache-2.0
// The tables that Kubernetes (or the file source) fills and address reads: one Source a kind, rows keyed by objectKey or clusterKey.

import type { Graph, Source } from '../collection/types.js'
import type { Kind, RecordByKind } from './records.js'
import { isDeepStrictEqual } from 'node:util'

export type Inputs = { readonly [K in Kind]: Source<RecordByKind[K]> }

/** Every kind that is read, in a fixed order. */
export const kinds: readonly Kind[] = [
  'Namespace',
  'Node',
  'ConfigMap',
  'GatewayClass',
  'Gateway',
  'Service',
  'ServiceEntry',
  'WorkloadEntry',
  'AuthorizationPolicy',
  'PeerAuthentication',
  'EndpointSlice',
  'Pod',
]

/** Makes one empty Source a kind in the graph. */
export function createInputs(graph: Graph): Inputs {
  const source = <K extends Kind>(kind: K): Source<RecordByKind[K]> => graph.source<RecordByKind[K]>(kind, isSameRecord)
  return {
    Namespace: source('Namespace'),
    Node: source('Node'),
    ConfigMap: source('ConfigMap'),
    GatewayClass: source('GatewayClass'),
    Gateway: source('Gateway'),
    Service: source('Service'),
    ServiceEntry: source('ServiceEntry'),
    WorkloadEntry: source('WorkloadEntry'),
    AuthorizationPolicy: source('AuthorizationPolicy'),
    PeerAuthentication: source('PeerAuthentication'),
    EndpointSlice: source('EndpointSlice'),
    Pod: source('Pod'),
  }
}

/**
 * Equality of two rows of one kind by content. Field by field, as most parts of a row are shared copies: a pod that only became ready
 * is told apart without looking into its labels and ports.
 */
export function isSameRecord<R extends object>(a: R, b: R): boolean {
  for (const field in a) if (a[field] !== b[field] && !isDeepStrictEqual(a[field], b[field])) return false
  for (const field in b) if (!(field in a)) return false
  return true
}
