// SPDX-License-Identifier: Apache-2.0
// The rows about the agent of a node. They need root: namespaces are made, and all of them taken down again. Where something is missing they say so.

import { hostParts } from '../support/host-parts.js'
import { measureRules } from './node-rules.js'
import type { Row } from './report.js'

export async function measureNode(add: (row: Row) => void, quick: boolean): Promise<void> {
  const missing = hostParts.netns ?? hostParts.nft
  if (missing !== undefined) {
    add({ figure: 'agent of a node', unit: 'ms', addressd: Number.NaN, note: `skipped: ${missing}` })
    return
  }
  const sizes = quick ? { rounds: 1, netns: 8, pods: 30 } : { rounds: 3, netns: 20, pods: 100 }
  await measureRules(add, sizes)
}
