// SPDX-License-Identifier: Apache-2.0
// The network of a cluster: a label on the namespace that the control plane runs in, and nothing else.

import type { Graph, Read } from '../collection/types.js'
import type { Inputs } from '../kube/inputs.js'
import { labelKeys, labelOf } from './labels.js'
import type { AddressOptions } from './options.js'

export interface Networks {
  /** Empty without label or namespace. */
  ofCluster(read: Read, cluster: string): string
}

export function createNetworks(graph: Graph, inputs: Inputs, options: AddressOptions): Networks {
  const networks = graph.derive(
    'networks',
    inputs.Namespace,
    ({ cluster, name, labels }) =>
      name === options.systemNamespace ? { cluster, network: labelOf(labels, labelKeys.network) ?? '' } : undefined,
    { key: (row) => row.cluster, equal: (a, b) => a.network === b.network },
  )
  return { ofCluster: (read, cluster) => read.one(networks, cluster)?.network ?? '' }
}
