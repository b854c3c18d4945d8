// SPDX-License-Identifier: Apache-2.0
// Which objects are seen at all: those of our cluster, in namespaces that the discovery selectors let in, of our revision.
// Namespaces themselves are read unfiltered elsewhere.

import { isSameRow } from './equal.js'
import type { Graph, Read } from '../collection/types.js'
import type { Inputs } from '../kube/inputs.js'
import { clusterKey, type Labels, type LabelSelectorRecord } from '../kube/records.js'
import { labelKeys, labelOf } from './labels.js'
import { meshKey, type Mesh } from './mesh.js'
import type { AddressOptions } from './options.js'
import { checkSelector, isSelected } from '../kube/selectors.js'

export interface Discovery {
  /** The object is of our cluster and its namespace is let in. */
  isSeen(read: Read, place: { readonly cluster: string; readonly namespace: string }): boolean
  /** An object of the networking or security API without a revision label, or with ours. */
  isOurRevision(labels: Labels | undefined): boolean
}

interface SeenNamespace {
  readonly key: string
  readonly seen: boolean
}

export function createDiscovery(graph: Graph, inputs: Inputs, mesh: Mesh, options: AddressOptions): Discovery {
  // Throwing keeps the selectors that were in force; none were at the start, and then every namespace is in.
  const selectors = graph.derive(
    'discovery selectors',
    mesh.rows,
    ({ discoverySelectors }): { readonly anyOf: readonly LabelSelectorRecord[] } => {
      for (const selector of discoverySelectors) checkSelector(selector)
      return { anyOf: discoverySelectors }
    },
    { key: () => meshKey, equal: isSameRow },
  )
  const isIn = (read: Read, labels: Labels | undefined, missing: boolean): boolean => {
    const anyOf = read.one(selectors, meshKey)?.anyOf ?? []
    if (anyOf.length === 0) return true
    return !missing && anyOf.some((selector) => isSelected(selector, labels))
  }
  const namespaces = graph.derive(
    'seen namespaces',
    inputs.Namespace,
    ({ cluster, name, labels }, read): SeenNamespace => ({
      key: clusterKey(cluster, name),
      seen: isIn(read, labels, false),
    }),
    { key: (row) => row.key, equal: (a, b) => a.seen === b.seen },
  )
  return {
    isSeen(read, { cluster, namespace }) {
      if (cluster !== options.clusterId) return false
      return read.one(namespaces, clusterKey(cluster, namespace))?.seen ?? isIn(read, undefined, true)
    },
    isOurRevision(labels) {
      const revision = labelOf(labels, labelKeys.revision)
      return revision === undefined || options.revision === '' || revision === options.revision
    },
  }
}
