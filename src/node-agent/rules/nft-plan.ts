// SPDX-License-Identifier: Apache-2.0
// The encoded form of our rules, remembered: most pods of a node have the same options, and encoding is the larger part of what enrolling one costs us.
// For the jobs; one memory per thread.

import type { PodRuleOptions } from '../contracts.js'
import { toOptionsKey } from './generation.js'
import { type NftLayout, type PlannedTable, planTables, toReplacement } from './nft-layout.js'
import { toBatch } from './nft-messages.js'

export interface NftPlan {
  readonly tables: readonly PlannedTable[]
  /** The whole transaction where there is nothing else to take out, by the comment of the tables. */
  toBatch(comment: string): Buffer
}

const mostPlans = 64
const plans = new Map<string, NftPlan>()

export function selectPlan(options: PodRuleOptions, layout: NftLayout): NftPlan {
  const key = `${layout} ${toOptionsKey(options)}`
  const known = plans.get(key)
  if (known !== undefined) return known
  const tables = planTables(options, layout)
  const batches = new Map<string, Buffer>()
  const plan: NftPlan = {
    tables,
    toBatch(comment) {
      const batch = batches.get(comment) ?? toBatch(toReplacement(tables, comment))
      batches.set(comment, batch)
      return batch
    },
  }
  // The oldest goes. A plan that is missed is made again.
  for (const oldest of plans.keys()) {
    if (plans.size < mostPlans) break
    plans.delete(oldest)
  }
  plans.set(key, plan)
  return plan
}
