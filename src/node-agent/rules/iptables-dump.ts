// SPDX-License-Identifier: Apache-2.0
// What the `-save` programs print, read: tables, chains and rules in order. For everybody who compares or plans; decides nothing and runs nothing.

import { Retryable } from '../../base/errors.js'

export interface DumpChain {
  /** Made by the kernel, not by somebody: it has a policy. */
  readonly isBuiltIn: boolean
  /** Each without the leading `-A CHAIN `, in order, as the tool prints them. */
  readonly rules: readonly string[]
}

/** Chains by name. */
export type DumpTable = ReadonlyMap<string, DumpChain>
/** Tables by name. */
export type Dump = ReadonlyMap<string, DumpTable>

/** Reads the text of a `-save` program. Throws Retryable when it breaks off: half of a dump must not pass for the whole. */
export function parseDump(text: string): Dump {
  const tables = new Map<string, Map<string, { isBuiltIn: boolean; rules: string[] }>>()
  let open: string | undefined
  for (const line of text.split('\n')) {
    if (line.startsWith('*')) {
      open = line.slice(1).trim()
      if (!tables.has(open)) tables.set(open, new Map())
    } else if (line.startsWith('COMMIT')) {
      open = undefined
    } else if (open !== undefined) {
      const table = tables.get(open)
      const chain = /^:(\S+) (\S+)/.exec(line)
      if (chain?.[1] !== undefined) table?.set(chain[1], { isBuiltIn: chain[2] !== '-', rules: [] })
      const rule = /^(?:\[\d+:\d+\] )?-A (\S+) ?(.*)$/.exec(line)
      if (rule?.[1] !== undefined) table?.get(rule[1])?.rules.push(rule[2] ?? '')
    }
  }
  if (open !== undefined) throw new Retryable(`the dump of rules breaks off in the table ${open}`)
  return tables
}

/** The chain that a rule jumps or goes to, or its built-in target; undefined when it has none. */
export function parseTarget(rule: string): string | undefined {
  const words = splitWords(rule)
  const at = words.findIndex((word) => word === '-j' || word === '-g')
  return at < 0 ? undefined : words[at + 1]
}

/**
 * The same text for rules that mean the same however a version of the tool orders their conditions. Names of match modules are left out: the options
 * that follow them say it all.
 */
export function normalizeRule(rule: string): string {
  const words = splitWords(rule)
  const target = words.findIndex((word) => word === '-j' || word === '-g')
  const conditions = target < 0 ? words : words.slice(0, target)
  const groups: string[] = []
  for (const [i, word] of conditions.entries()) {
    const before = conditions[i - 1]
    const isNegation = word === '!'
    const isOption = word.startsWith('-')
    if (isNegation || (isOption && before !== '!')) groups.push(word)
    else groups.push(`${groups.pop() ?? ''} ${word}`)
  }
  const said = groups.filter((group) => !group.startsWith('-m ')).sort()
  return [...said, ...(target < 0 ? [] : words.slice(target))].join(' ')
}

/** Words of a line; quoted ones (comments) stay one word with their quotes. */
function splitWords(line: string): string[] {
  return line.match(/"(?:[^"\\]|\\.)*"|\S+/g) ?? []
}
