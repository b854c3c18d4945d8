// SPDX-License-Identifier: Apache-2.0
// The rule table as iptables writes it: chains and lines of one family, in the very words in which the tool prints them again, so that a dump of the
// pod compares as text. Checks what it writes: nothing but names, numbers and prefixes ever reaches the loader.

import { isIP } from 'node:net'
import { InvalidInput } from '../../base/errors.js'
import { parsePrefix } from '../../base/ip.js'
import type { PodRuleOptions } from '../contracts.js'
import { type Action, type Family, type Match, type Rule, type RuleTableName, selectRulesOf } from './rule-table.js'
import type { WantedTable } from './iptables-plan.js'

/** The chains in the pod, named as istio-cni names them: what it made is taken over where it is the same. */
export const podChains = { prerouting: 'ISTIO_PRERT', output: 'ISTIO_OUTPUT' } as const
const builtIn = { prerouting: 'PREROUTING', output: 'OUTPUT' } as const
export const podTables = ['mangle', 'nat', 'raw'] as const satisfies readonly RuleTableName[]

/**
 * What the tables of one family have to hold; a table without rules of ours holds no chain of ours. With IPv6 off nothing is wanted of family 6.
 * Throws InvalidInput.
 */
export function selectWanted(family: Family, options: PodRuleOptions): ReadonlyMap<string, WantedTable> {
  const rules = selectRulesOf(family, options)
  return new Map(podTables.map((name) => [name, toWantedTable(rules.filter(({ table }) => table === name))]))
}

/** Nothing of ours in any table. */
export function selectNothing(): ReadonlyMap<string, WantedTable> {
  return new Map(podTables.map((name) => [name, toWantedTable([])]))
}

function toWantedTable(rules: readonly Rule[]): WantedTable {
  if (rules.length === 0) return { chains: new Map(), jumps: [] }
  const hooks = ['output', 'prerouting'] as const
  return {
    chains: new Map(
      hooks.map((hook) => [podChains[hook], rules.filter((rule) => rule.hook === hook).map(formatIptablesRule)]),
    ),
    jumps: [
      { from: builtIn.prerouting, rule: `-j ${podChains.prerouting}` },
      { from: builtIn.output, rule: `-j ${podChains.output}` },
    ],
  }
}

/** One rule without its chain: `-p tcp -m mark --mark 0x111/0xfff -j ACCEPT`. Throws InvalidInput. */
export function formatIptablesRule(rule: Rule): string {
  const of = <K extends Match['kind']>(...kinds: readonly K[]): readonly Extract<Match, { kind: K }>[] =>
    rule.matches.filter((match): match is Extract<Match, { kind: K }> =>
      (kinds as readonly string[]).includes(match.kind),
    )
  const protocol = of('protocol')[0]?.protocol
  const addresses = of('source', 'destination')
  const ports = of('source-port', 'destination-port')
  const marks = of('mark', 'connection-mark').map(formatMark)
  const words = [
    ...of('source').map((m) => `${not(m)}-s ${checkPrefix(m.prefix)}`),
    ...of('destination').map((m) => `${not(m)}-d ${checkPrefix(m.prefix)}`),
    ...of('in-interface').map((m) => `${not(m)}-i ${checkInterface(m.name)}`),
    ...of('out-interface').map((m) => `${not(m)}-o ${checkInterface(m.name)}`),
    ...(protocol === undefined ? [] : [`-p ${protocol}`]),
  ]
  const portWords = ports.map(
    (m) => `${not(m)}--${m.kind === 'source-port' ? 'sport' : 'dport'} ${checkNumber(m.port, 65535)}`,
  )
  // istio-cni loads the module of the protocol before marks for TCP and after them for UDP, and for a plain address too: written alike, its rules are ours.
  const isPlainAddress = protocol === 'tcp' && addresses.some((m) => m.not === undefined) && marks.length === 0
  const transport = ports.length > 0 || isPlainAddress ? [`-m ${protocol ?? ''}`, ...portWords] : []
  const modules = protocol === 'udp' ? [...marks, ...transport] : [...transport, ...marks]
  return [...words, ...modules, formatAction(rule.action)].join(' ')
}

function not(match: Match): string {
  return 'not' in match ? '! ' : ''
}

function formatMark(match: Extract<Match, { kind: 'mark' | 'connection-mark' }>): string {
  const module = match.kind === 'mark' ? 'mark' : 'connmark'
  return `-m ${module} ${not(match)}--mark ${formatHex(match.value)}/${formatHex(match.mask)}`
}

function formatAction(action: Action): string {
  switch (action.kind) {
    case 'accept':
      return '-j ACCEPT'
    case 'return':
      return '-j RETURN'
    case 'redirect':
      return `-j REDIRECT --to-ports ${checkNumber(action.port, 65535)}`
    case 'set-connection-mark':
      return `-j CONNMARK --set-xmark ${formatHex(action.value)}/${formatHex(action.mask)}`
    case 'restore-mark':
      return '-j CONNMARK --restore-mark --nfmask 0xffffffff --ctmask 0xffffffff'
    case 'conntrack-zone':
      return `-j CT --zone ${checkNumber(action.zone, 65535)}`
  }
}

function formatHex(value: number): string {
  return `0x${checkNumber(value, 0xffff_ffff).toString(16)}`
}

function checkNumber(value: number, most: number): number {
  if (!Number.isInteger(value) || value < 0 || value > most) throw new InvalidInput(`${value} is no number for a rule`)
  return value
}

/** Names that the loader would take for patterns or for more than a name are refused. */
function checkInterface(name: string): string {
  if (/^[A-Za-z0-9._-]{1,15}$/.test(name) && name !== '.' && name !== '..' && !name.startsWith('-')) return name
  throw new InvalidInput(`${JSON.stringify(name)} is no name of an interface: 1 to 15 letters, digits, ".", "_" or "-"`)
}

function checkPrefix(text: string): string {
  const prefix = parsePrefix(text)
  if (prefix !== undefined && isIP(text.slice(0, text.lastIndexOf('/'))) !== 0) return text
  throw new InvalidInput(`${JSON.stringify(text)} is no prefix of addresses`)
}
