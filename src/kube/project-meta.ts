// SPDX-License-Identifier: Apache-2.0
// The part of a row that every namespaced kind shares. For the projections.

import type { Part } from './part.js'
import type { Kind, Meta } from './records.js'
import { resourceTypes } from './resources.js'

/** Metadata of a namespaced object, for spreading into its row. */
export function projectMeta(kind: Kind, meta: Part, cluster: string): Meta {
  return {
    cluster,
    namespace: meta.shared('namespace'),
    name: meta.text('name'),
    uid: meta.text('uid'),
    labels: meta.filledLabels('labels'),
    annotations: meta.selectLabels('annotations', resourceTypes[kind].annotations),
    created: meta.seconds('creationTimestamp'),
  }
}
