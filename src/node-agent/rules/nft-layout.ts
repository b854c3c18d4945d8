// SPDX-License-Identifier: Apache-2.0
// How our rules lie in nf_tables: tables of our own whose base chains hold the rules themselves. For the jobs that make, compare and remove them.

import type { PodRuleOptions } from '../contracts.js'
import { toExpressions } from './nft-expressions.js'
import {
  type NftBaseChain,
  type NftMessage,
  type NftTable,
  addBaseChain,
  addRule,
  addTable,
  deleteTable,
  hookNumber,
  nftFamily,
} from './nft-messages.js'
import { type Family, type Rule, type RuleHook, type RuleTableName, selectRules, selectRulesOf } from './rule-table.js'

/** The name of each table of ours, in whatever family. */
export const ownTableName = 'addressd-ambient'

/**
 * `inet`: one table for both families; half the chains and rules, so the cheaper one to make. `by-family`: a table for each, for kernels before 5.2, which
 * know no nat and route chains in tables of both.
 */
export type NftLayout = 'inet' | 'by-family'

/** Every table that either layout uses. */
export const ownTables: readonly NftTable[] = [nftFamily.inet, nftFamily.ip, nftFamily.ip6].map((family) => ({
  family,
  table: ownTableName,
}))

/** A base chain and its rules' expressions, in order. */
export interface PlannedChain extends NftBaseChain {
  readonly rules: readonly Buffer[]
}

export interface PlannedTable extends NftTable {
  readonly chains: readonly PlannedChain[]
}

const priorities: Readonly<Record<RuleTableName, number>> = { raw: -300, mangle: -150, nat: -100 }

/** The tables for these options. A chain that would hold no rule is left out. */
export function planTables(options: PodRuleOptions, layout: NftLayout): readonly PlannedTable[] {
  if (layout === 'inet') {
    // A rule for both families must not reach IPv6 when that is off.
    const neutralGuard = options.ipv6 ? undefined : 4
    return [planTable(nftFamily.inet, selectRules(options), (rule) => rule.family ?? neutralGuard)]
  }
  const families: readonly Family[] = options.ipv6 ? [4, 6] : [4]
  return families.map((family) => {
    const number = family === 4 ? nftFamily.ip : nftFamily.ip6
    return planTable(number, selectRulesOf(family, options), () => undefined)
  })
}

function planTable(family: number, rules: readonly Rule[], guardOf: (rule: Rule) => Family | undefined): PlannedTable {
  const chains = new Map<string, { base: NftBaseChain; rules: Buffer[] }>()
  for (const rule of rules) {
    const base = toBaseChain(family, rule.table, rule.hook)
    const chain = chains.get(base.chain) ?? { base, rules: [] }
    chains.set(base.chain, chain)
    chain.rules.push(toExpressions(rule, guardOf(rule)))
  }
  return {
    family,
    table: ownTableName,
    chains: [...chains.values()].map(({ base, rules }) => ({ ...base, rules })),
  }
}

function toBaseChain(family: number, table: RuleTableName, hook: RuleHook): NftBaseChain {
  // Of type route, or a mark that is restored on the way out would not change the way.
  const isReroute = table === 'mangle' && hook === 'output'
  return {
    family,
    table: ownTableName,
    chain: `${table}-${hook}`,
    type: table === 'nat' ? 'nat' : isReroute ? 'route' : 'filter',
    hook: hookNumber[hook],
    priority: priorities[table],
  }
}

/** Makes the tables anew whether or not they are there. */
export function toReplacement(tables: readonly PlannedTable[], comment: string): readonly NftMessage[] {
  return tables.flatMap((table) => [
    addTable(table),
    deleteTable(table),
    addTable(table, comment),
    ...table.chains.map(addBaseChain),
    ...table.chains.flatMap((chain) => chain.rules.map((rule) => addRule(chain, rule))),
  ])
}
