// SPDX-License-Identifier: Apache-2.0
// What istio-cni, an earlier release or the iptables backend left in nf_tables of a pod, and the messages that take it out. Rules of others stay, also
// those in the same tables. Chooses only; sends nothing.

import { type FoundChain, type FoundRule, readExpressions } from './nft-dump.js'
import { verdictCode } from './nft-expressions.js'
import { readAttributes, readText } from './netlink.js'
import { type NftMessage, type NftTable, deleteChain, deleteRule, deleteTable, nftFamily } from './nft-messages.js'

/** What is to go. */
export interface NftLeftovers {
  /** For log lines: `inet istio-ambient-nat`, `ip nat ISTIO_OUTPUT`. */
  readonly names: readonly string[]
  /** They name rules by handle, so they hold for the generation that was looked at and for no other. */
  readonly messages: readonly NftMessage[]
}

const wholeTables = ['istio-ambient-nat', 'istio-ambient-mangle', 'istio-ambient-raw']
const knownChains = ['ISTIO_PRERT', 'ISTIO_OUTPUT']
const sharedTables = ['nat', 'mangle', 'raw', 'filter']

/** Whether the tables can hold such things, so that their chains are worth a look. */
export function isSharedTable({ family, table }: NftTable): boolean {
  return (family === nftFamily.ip || family === nftFamily.ip6) && sharedTables.includes(table)
}

export function isWholeLeftover({ family, table }: NftTable): boolean {
  return family === nftFamily.inet && wholeTables.includes(table)
}

/** Chains that go: the known ones, with `strange` every one that begins as they do. */
export function selectDoomedChains(chains: readonly FoundChain[], strange: boolean): readonly FoundChain[] {
  return chains.filter(({ family, table, chain }) => {
    if (!isSharedTable({ family, table })) return false
    return strange ? chain.startsWith('ISTIO_') : table !== 'filter' && knownChains.includes(chain)
  })
}

/** `rules` are those of every table that holds a doomed chain. */
export function selectNftLeftovers(
  tables: readonly NftTable[],
  doomed: readonly FoundChain[],
  rules: readonly FoundRule[],
): NftLeftovers {
  const whole = tables.filter(isWholeLeftover)
  const isDoomed = (rule: NftTable, chain: string): boolean =>
    doomed.some((other) => other.family === rule.family && other.table === rule.table && other.chain === chain)
  // Most pods have nothing that is doomed, and reading what each rule does is the dear part of a look.
  const jumps = (doomed.length === 0 ? [] : rules).filter((rule) => {
    const target = selectJumpTarget(rule)
    return target !== undefined && isDoomed(rule, target) && !isDoomed(rule, rule.chain)
  })
  return {
    names: [
      ...whole.map(({ table }) => `inet ${table}`),
      ...doomed.map(({ family, table, chain }) => `${family === nftFamily.ip ? 'ip' : 'ip6'} ${table} ${chain}`),
    ],
    messages: [
      ...whole.map(deleteTable),
      ...jumps.map((rule) => deleteRule(rule, rule.handle)),
      // All are emptied before one is deleted: they may jump to each other.
      ...doomed.map((chain) => deleteRule(chain)),
      ...doomed.map(deleteChain),
    ],
  }
}

function selectJumpTarget(rule: FoundRule): string | undefined {
  for (const { name, attributes } of readExpressions(rule.expressions)) {
    const data = attributes.get(2)
    if (name !== 'immediate' || data === undefined) continue
    const found = readAttributes(data).get(2)
    if (found === undefined) continue
    const verdict = readAttributes(found)
    const code = verdict.get(1)?.readInt32BE(0)
    if (code === verdictCode.jump || code === verdictCode.goto) return readText(verdict.get(2))
  }
  return undefined
}
