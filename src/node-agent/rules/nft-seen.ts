// SPDX-License-Identifier: Apache-2.0
// What there is in nf_tables of one namespace that concerns us, and whether it is what it should be. For the jobs that make, compare and take out rules;
// changes nothing.

import { type NftLeftovers, isSharedTable, selectDoomedChains, selectNftLeftovers } from './leftovers-nft.js'
import { type FoundChain, type FoundRule, type FoundTable, isAsPlanned } from './nft-dump.js'
import type { NftKernel } from './nft-kernel.js'
import { type PlannedTable, ownTableName, ownTables } from './nft-layout.js'
import type { NftTable } from './nft-messages.js'

/** What is in nf_tables of the namespace, as far as it can concern us. */
export interface Seen {
  readonly generation: number
  /** Nothing was looked at: the generation is the one at which all was well. */
  readonly isKnown: boolean
  readonly tables: readonly FoundTable[]
  readonly chains: readonly FoundChain[]
  readonly rules: readonly FoundRule[]
  readonly leftovers: NftLeftovers
}

const noLeftovers: NftLeftovers = { names: [], messages: [] }

interface LookOptions {
  readonly known: number | undefined
  readonly removeStrangeChains: boolean
  /** Chains and rules of our own tables are looked at too. Who takes the tables out need not know. */
  readonly isOwnOpened?: boolean
}

export function look(kernel: NftKernel, { known, removeStrangeChains, isOwnOpened = true }: LookOptions): Seen {
  // Before everything else: what happens behind our back while we look makes this look out of date, not the next one.
  const generation = kernel.readGeneration()
  const nothing = { generation, chains: [], rules: [], leftovers: noLeftovers }
  if (known === generation) return { ...nothing, isKnown: true, tables: [] }
  const tables = kernel.listTables()
  const isOpened = (table: NftTable): boolean => isOwnOpened && isOwn(table)
  const chains = tables.some((table) => isOpened(table) || isSharedTable(table)) ? kernel.listChains() : []
  const doomed = selectDoomedChains(chains, removeStrangeChains)
  const isIn = (table: NftTable) => (chain: FoundChain) => chain.family === table.family && chain.table === table.table
  const rules = tables
    .filter((table) => isOpened(table) || doomed.some(isIn(table)))
    .flatMap((table) => kernel.listRules(table))
  return { generation, isKnown: false, tables, chains, rules, leftovers: selectNftLeftovers(tables, doomed, rules) }
}

export function isOwn({ family, table }: NftTable): boolean {
  return table === ownTableName && ownTables.some((own) => own.family === family)
}

export function isPlanned(table: NftTable, planned: readonly NftTable[]): boolean {
  return planned.some((other) => other.family === table.family && other.table === table.table)
}

/** Whether a table of ours is there that should not be, or sleeps (flag 1), so that its rules see no packet. */
function hasUnplanned(seen: Seen, planned: readonly NftTable[]): boolean {
  return seen.tables.some((table) => isOwn(table) && (!isPlanned(table, planned) || (table.flags & 1) !== 0))
}

export function isWhole(seen: Seen, planned: readonly PlannedTable[]): boolean {
  return seen.isKnown || (isAsPlanned(planned, seen) && !hasUnplanned(seen, planned) && isClean(seen))
}

export function isClean(seen: Seen): boolean {
  return seen.leftovers.messages.length === 0
}
