// SPDX-License-Identifier: Apache-2.0
// Delta requests as bytes, for the clients of the benchmark.

import { loadProtos } from '../../src/wire/protos.js'

export const deltaPath = '/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources'
export const addressType = 'type.googleapis.com/istio.workload.Address'

export interface RequestParts {
  /** Number of the client, in its first request. */
  readonly node?: number
  readonly subscribe?: string[]
  readonly unsubscribe?: string[]
  readonly nonce?: string
  /** Version by name: what the client still holds. */
  readonly versions?: Readonly<Record<string, string>>
}

export function encodeRequest({
  node,
  subscribe = [],
  unsubscribe = [],
  nonce = '',
  versions = {},
}: RequestParts): Uint8Array {
  const id = `ztunnel~10.0.0.1~ztunnel-${node ?? 0}.istio-system~istio-system.svc.cluster.local`
  return loadProtos().messages.deltaDiscoveryRequest.encode({
    ...(node === undefined ? {} : { node: { id } }),
    type_url: addressType,
    resource_names_subscribe: subscribe,
    resource_names_unsubscribe: unsubscribe,
    response_nonce: nonce,
    initial_resource_versions: versions,
  })
}
