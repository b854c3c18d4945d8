// SPDX-License-Identifier: Apache-2.0
// The rows about the agent of a node. They need root: namespaces are made, and all of them taken down again. Where something is missing they say so.

import { hostParts } from '../support/host-parts.js'
import { measureAgent } from './node-agent.js'
import { measureAtOnce } from './node-at-once.js'
import { measureRules, type Sizes } from './node-rules.js'
import { measureSnapshots } from './node-zds.js'
import type { Row } from './report.js'

type Add = (row: Row) => void

/** By name; each `node-` something. */
export function selectNodeParts(add: Add, quick: boolean): Readonly<Record<string, () => Promise<void>>> {
  const sizes = quick ? { rounds: 1, netns: 8, pods: 30, spare: 5 } : { rounds: 3, netns: 20, pods: 100, spare: 20 }
  const parts: Readonly<Record<string, (add: Add, sizes: Sizes) => Promise<void>>> = {
    'node-rules': measureRules,
    'node-once': measureAtOnce,
    'node-agent': measureAgent,
    'node-zds': measureSnapshots,
  }
  return Object.fromEntries(
    Object.entries(parts).map(([name, measure]) => [
      name,
      async () => {
        const missing = hostParts.netns ?? hostParts.nft
        if (missing === undefined) await measure(add, sizes)
        else add({ figure: name, unit: 'ms', addressd: Number.NaN, note: `skipped: ${missing}` })
      },
    ]),
  )
}
