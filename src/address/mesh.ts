// SPDX-License-Identifier: Apache-2.0
// The mesh configuration in force: the ConfigMap of this revision, all defaults without one, the last good text while the present one is broken.
// For every table that depends on it. Parsing is mesh-config.ts.

import { isSameRow } from './equal.js'
import type { Collection, Graph, Read } from '../collection/types.js'
import type { Inputs } from '../kube/inputs.js'
import { objectKey } from '../kube/records.js'
import { defaultMeshConfig, formatMeshConfigName, parseMeshConfig, type MeshConfig } from '../kube/mesh-config.js'
import type { AddressOptions } from './options.js'

/** The two names that nearly every workload depends on. */
export interface MeshIdentity {
  /** In full; see formatTrustDomain for how it is written on the wire. */
  readonly trustDomain: string
  readonly rootNamespace: string
}

export interface Mesh {
  /** One row, under `meshKey`; none while the first text that was ever seen is broken. */
  readonly rows: Collection<MeshConfig>
  identity(read: Read): MeshIdentity
}

/** Key of the one row of a mesh-wide table. */
export const meshKey = 'mesh'

export function createMesh(graph: Graph, inputs: Inputs, options: AddressOptions): Mesh {
  const mapKey = objectKey(options.clusterId, options.systemNamespace, formatMeshConfigName(options.revision))
  // A row that is always there: without a ConfigMap the defaults are a reading like any other, and can be the last good one.
  const anchor = graph.source<string>('mesh', Object.is)
  anchor.set(meshKey, meshKey)
  const rows = graph.derive(
    'mesh configuration',
    anchor,
    (_, read) => {
      const text = read.one(inputs.ConfigMap, mapKey)?.mesh
      return text === undefined ? defaultMeshConfig : parseMeshConfig(text)
    },
    { key: () => meshKey, equal: isSameRow },
  )
  const identities = graph.derive(
    'mesh identity',
    rows,
    ({ trustDomain, rootNamespace }): MeshIdentity => ({ trustDomain, rootNamespace }),
    { key: () => meshKey, equal: isSameRow },
  )
  return { rows, identity: (read) => read.one(identities, meshKey) ?? defaultMeshConfig }
}

/** As a workload carries it: the default one is left out, and only when spelt exactly so. */
export function formatTrustDomain(trustDomain: string): string {
  return trustDomain === 'cluster.local' ? '' : trustDomain
}
