// SPDX-License-Identifier: Apache-2.0
// From what a dump shows to what shall be there, as the text of one `-restore --noflush`: only chains of ours and jumps to them are touched, each table
// changes as a whole or not at all. Pure; the same plan makes, mends, removes and takes back.

import { type Dump, type DumpTable, normalizeRule, parseTarget } from './iptables-dump.js'

/** A rule that leads from a chain of others into one of ours. */
export interface Jump {
  readonly from: string
  readonly rule: string
}

/** All that one table shall hold of ours. */
export interface WantedTable {
  /** Chain to its rules, in order. A chain of ours that is not named goes. */
  readonly chains: ReadonlyMap<string, readonly string[]>
  /** The only rules elsewhere that lead to them. Missing ones are put at the end of their chain, or first where `jumpsFirst` says so. */
  readonly jumps: readonly Jump[]
  readonly jumpsFirst?: boolean
}

/** Whose chain it is, by table and name. */
export type IsOurs = (table: string, chain: string) => boolean

/** `complete`: exactly as wanted. `absent`: no chain of ours in any of the wanted tables. */
export type DumpState = 'complete' | 'different' | 'absent'

const emptyTable: DumpTable = new Map()

export function selectDumpState(dump: Dump, wanted: ReadonlyMap<string, WantedTable>, isOurs: IsOurs): DumpState {
  const isThere = [...wanted.keys()].some((table) => selectOurChains(table, dump, isOurs).length > 0)
  if (!isThere) return 'absent'
  return formatRestore(dump, wanted, isOurs) === '' ? 'complete' : 'different'
}

/** The text that makes the tables as wanted; empty when they are. */
export function formatRestore(dump: Dump, wanted: ReadonlyMap<string, WantedTable>, isOurs: IsOurs): string {
  return [...wanted]
    .map(([name, table]) => {
      const lines = planTable(name, { dump, wanted: table, isOurs })
      return lines.length === 0 ? '' : [`*${name}`, ...lines, 'COMMIT', ''].join('\n')
    })
    .join('')
}

/** What a dump holds of ours in these tables, as something to want again. */
export function selectPresent(dump: Dump, tables: Iterable<string>, isOurs: IsOurs): ReadonlyMap<string, WantedTable> {
  return new Map(
    [...tables].map((table) => {
      const ours = selectOurChains(table, dump, isOurs)
      const chains = new Map(ours.map((name) => [name, dump.get(table)?.get(name)?.rules ?? []]))
      return [table, { chains, jumps: selectReferences(table, { dump, isOurs, targets: new Set(ours) }) }]
    }),
  )
}

interface TablePlan {
  readonly dump: Dump
  readonly wanted: WantedTable
  readonly isOurs: IsOurs
}

function planTable(table: string, { dump, wanted, isOurs }: TablePlan): readonly string[] {
  const ours = selectOurChains(table, dump, isOurs)
  const current = dump.get(table) ?? emptyTable
  const gone = ours.filter((name) => !wanted.chains.has(name))
  const changed = [...wanted.chains].filter(([name, rules]) => !hasSameRules(current.get(name)?.rules, rules))
  const references = selectReferences(table, { dump, isOurs, targets: new Set([...ours, ...wanted.chains.keys()]) })
  const { missing, spare } = matchJumps(wanted.jumps, references)
  return [
    ...changed.map(([name]) => `:${name} - [0:0]`),
    ...spare.map(({ from, rule }) => `-D ${from} ${rule}`),
    ...gone.map((name) => `-F ${name}`),
    ...gone.map((name) => `-X ${name}`),
    ...missing.map(({ from, rule }) => (wanted.jumpsFirst === true ? `-I ${from} 1 ${rule}` : `-A ${from} ${rule}`)),
    ...changed.flatMap(([name, rules]) => rules.map((rule) => `-A ${name} ${rule}`.trimEnd())),
  ]
}

function selectOurChains(table: string, dump: Dump, isOurs: IsOurs): readonly string[] {
  return [...(dump.get(table) ?? emptyTable)]
    .filter(([name, chain]) => !chain.isBuiltIn && isOurs(table, name))
    .map(([name]) => name)
}

/** Rules in chains that are not ours which lead to one of the targets. */
function selectReferences(
  table: string,
  { dump, isOurs, targets }: { dump: Dump; isOurs: IsOurs; targets: ReadonlySet<string> },
): readonly Jump[] {
  return [...(dump.get(table) ?? emptyTable)]
    .filter(([name, chain]) => chain.isBuiltIn || !isOurs(table, name))
    .flatMap(([from, { rules }]) =>
      rules.filter((rule) => targets.has(parseTarget(rule) ?? '')).map((rule) => ({ from, rule })),
    )
}

/** Which wanted jumps are missing, and which there are that nobody wants (the second of two equal ones, too). */
function matchJumps(wanted: readonly Jump[], found: readonly Jump[]): { missing: Jump[]; spare: Jump[] } {
  const spare = [...found]
  const missing = wanted.filter((jump) => {
    const at = spare.findIndex(
      ({ from, rule }) => from === jump.from && normalizeRule(rule) === normalizeRule(jump.rule),
    )
    if (at >= 0) spare.splice(at, 1)
    return at < 0
  })
  return { missing, spare }
}

function hasSameRules(found: readonly string[] | undefined, wanted: readonly string[]): boolean {
  if (found?.length !== wanted.length) return false
  return wanted.every((rule, i) => {
    const other = found[i] ?? ''
    return rule === other || normalizeRule(rule) === normalizeRule(other)
  })
}
