// SPDX-License-Identifier: Apache-2.0
// The tables that Kubernetes (or the file source) fills and address reads: one Source a kind, rows keyed by objectKey or clusterKey.

import type { Graph, Source } from '../collection/types.js'
import type { Kind, RecordByKind } from './records.js'

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
 * Equality of two rows by content. Rows are plain data whose parts are often shared copies; this runs at every event of every object,
 * so it looks at nothing twice and never below equal references.
 */
export function isSameRecord(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return Object.is(a, b)
  if (Array.isArray(a) || Array.isArray(b)) return Array.isArray(a) && Array.isArray(b) && isSameList(a, b)
  return isSameObject(a as Fields, b as Fields)
}

type Fields = Readonly<Record<string, unknown>>

function isSameList(a: readonly unknown[], b: readonly unknown[]): boolean {
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) if (!isSameRecord(a[i], b[i])) return false
  return true
}

function isSameObject(a: Fields, b: Fields): boolean {
  let more = 0
  for (const field in a) {
    if (!Object.hasOwn(b, field) || !isSameRecord(a[field], b[field])) return false
    more++
  }
  for (const _ in b) more--
  return more === 0
}
