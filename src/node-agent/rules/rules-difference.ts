// SPDX-License-Identifier: Apache-2.0
// What is missing in a pod and what is there beside it, as lines for people: the plan and what the kernel shows, in the same words. For `rules check`.

import type { PodRuleOptions, RuleBackendName } from '../contracts.js'
import { selectWanted } from './iptables-text.js'
import { familyNames } from './nft-jobs.js'
import { planTables } from './nft-layout.js'
import { formatExpressions } from './nft-text.js'
import { formatReturnPart } from './rtnetlink.js'
import { selectFamilies } from './rule-table.js'

/** `shown` is what `rules show` prints. Order is not compared. */
export function formatDifferences(
  backend: RuleBackendName,
  options: PodRuleOptions,
  shown: readonly string[],
): readonly string[] {
  const isByFamily = shown.some((line) => /^table ip6? /.test(line))
  const rules =
    backend === 'nftables' ? formatNft(options, isByFamily ? 'by-family' : 'inet') : formatIptables(backend, options)
  const parts = selectFamilies(options).flatMap((family) =>
    (['route', 'rule'] as const).map((kind) => formatReturnPart({ kind, family })),
  )
  const wanted = [...rules, ...parts]
  const there = withPlaces(shown)
  return [
    ...wanted.filter((line) => !there.includes(line)).map((line) => `missing: ${line}`),
    ...there.filter((line) => !wanted.includes(line)).map((line) => `unexpected: ${line}`),
  ]
}

function formatNft(options: PodRuleOptions, layout: 'inet' | 'by-family'): readonly string[] {
  return planTables(options, layout).flatMap(({ family, table, chains }) =>
    chains.flatMap(({ chain, rules }) =>
      rules.map((rule) => `table ${familyNames[family] ?? family} ${table}, ${chain}: ${formatExpressions(rule)}`),
    ),
  )
}

function formatIptables(backend: string, options: PodRuleOptions): readonly string[] {
  return selectFamilies(options).flatMap((family) =>
    [...selectWanted(family, options)].flatMap(([table, { chains, jumps }]) => {
      const own = [...chains].flatMap(([chain, rules]) => rules.map((rule) => `-A ${chain} ${rule}`))
      const all = [...jumps.map(({ from, rule }) => `-A ${from} ${rule}`), ...own]
      return all.map((rule) => `${backend}, IPv${family}, ${table}: ${rule}`)
    }),
  )
}

/** Rules of tables of ours, which are shown below their chains, with table and chain before them. */
function withPlaces(lines: readonly string[]): readonly string[] {
  let table = ''
  let chain = ''
  return lines.flatMap((line) => {
    if (line.startsWith('    ')) return [`${table}, ${chain}: ${line.trim()}`]
    if (line.startsWith('  ')) chain = line.trim()
    else if (line.startsWith('table ')) table = line
    else return [line]
    return []
  })
}
