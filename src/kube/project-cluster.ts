// SPDX-License-Identifier: Apache-2.0
// Node, Namespace and ConfigMap -> their rows.

import { freezeTexts } from './intern.js'
import type { Part } from './part.js'
import type { ConfigMapRecord, Labels, NamespaceRecord, NodeRecord } from './records.js'
import { resourceTypes } from './resources.js'

export const localityLabels = {
  region: 'topology.kubernetes.io/region',
  zone: 'topology.kubernetes.io/zone',
  subzone: 'topology.istio.io/subzone',
} as const

const nodeLabels: readonly string[] = Object.values(localityLabels)

/** A node's row from the labels that matter and the keys of its taints. */
export function toNodeRecord(
  cluster: string,
  name: string,
  labels: Labels | undefined,
  taints: readonly string[],
): NodeRecord {
  return Object.freeze({
    cluster,
    name,
    region: labels?.[localityLabels.region] ?? '',
    zone: labels?.[localityLabels.zone] ?? '',
    subzone: labels?.[localityLabels.subzone] ?? '',
    taints: freezeTexts(taints),
  })
}

export function projectNode(node: Part, meta: Part, cluster: string): NodeRecord {
  const taints = node.part('spec')?.parts('taints') ?? []
  const labels = meta.selectLabels('labels', nodeLabels)
  return toNodeRecord(
    cluster,
    meta.shared('name'),
    labels,
    taints.map((taint) => taint.shared('key')),
  )
}

export function projectNamespace(_namespace: Part, meta: Part, cluster: string): NamespaceRecord {
  return Object.freeze({
    cluster,
    name: meta.shared('name'),
    labels: meta.filledLabels('labels'),
    annotations: meta.selectLabels('annotations', resourceTypes.Namespace.annotations),
  })
}

export function projectConfigMap(map: Part, meta: Part, cluster: string): ConfigMapRecord {
  return Object.freeze({
    cluster,
    namespace: meta.shared('namespace'),
    name: meta.text('name'),
    mesh: map.part('data')?.optionalText('mesh'),
  })
}
