// SPDX-License-Identifier: Apache-2.0
// Who may resolve the services of a ServiceEntry: by the mesh configuration's policies over the labels of its namespace.

import { isSameRow } from './equal.js'
import type { Graph, Read } from '../collection/types.js'
import type { Inputs } from '../kube/inputs.js'
import { clusterKey, type Labels } from '../kube/records.js'
import type { EntryVisibility, VisibilityConfig } from '../kube/mesh-config.js'
import { meshKey, type Mesh } from './mesh.js'
import { checkSelector, isSelected, isValidSelector } from '../kube/selectors.js'

export interface Visibilities {
  /** Undefined: nothing is configured, which is public. */
  ofNamespace(read: Read, cluster: string, namespace: string): EntryVisibility | undefined
}

/** `config` undefined: not configured, which is a reading like any other. */
interface Reading {
  readonly config: VisibilityConfig | undefined
}

export function createVisibilities(graph: Graph, inputs: Inputs, mesh: Mesh): Visibilities {
  // Throwing keeps the last good reading. Only while there never was one does the other table count, in which a bad rule never holds.
  const good = graph.derive(
    'entry visibility',
    mesh.rows,
    ({ serviceEntryVisibility }): Reading => {
      for (const policy of serviceEntryVisibility?.policies ?? [])
        for (const rule of policy.rules) if (rule !== undefined) checkSelector(rule)
      return { config: serviceEntryVisibility }
    },
    { key: () => meshKey, equal: isSameRow },
  )
  const lenient = graph.derive(
    'entry visibility without bad rules',
    mesh.rows,
    ({ serviceEntryVisibility }): Reading => ({
      config: serviceEntryVisibility && dropBadRules(serviceEntryVisibility),
    }),
    { key: () => meshKey, equal: isSameRow },
  )
  return {
    ofNamespace(read, cluster, namespace) {
      const config = (read.one(good, meshKey) ?? read.one(lenient, meshKey))?.config
      return config && selectVisibility(config, read.one(inputs.Namespace, clusterKey(cluster, namespace))?.labels)
    },
  }
}

/** The first policy all of whose rules hold decides; a policy without rules always does. */
export function selectVisibility(config: VisibilityConfig, labels: Labels | undefined): EntryVisibility {
  const first = config.policies.find(({ rules }) =>
    rules.every((rule) => rule !== undefined && isSelected(rule, labels)),
  )
  return first?.visibility ?? config.defaultVisibility
}

function dropBadRules(config: VisibilityConfig): VisibilityConfig {
  const policies = config.policies.map(({ visibility, rules }) => ({
    visibility,
    rules: rules.map((rule) => (rule !== undefined && isValidSelector(rule) ? rule : undefined)),
  }))
  return { ...config, policies }
}
