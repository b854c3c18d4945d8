// SPDX-License-Identifier: Apache-2.0
// What recorded cases about rules need: the case as it is written, the kernel of a namespace as text, and how the two compare.

import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { parsePodOverrides } from '../../../src/node-agent/rules/overrides.js'
import type { PodRuleOptions } from '../../../src/node-agent/contracts.js'
import type { TestNetns } from '../../support/test-netns.js'

export interface RuleStep {
  readonly do: string
  readonly error?: string | null
  readonly annotations?: Readonly<Record<string, string>>
  readonly config?: Readonly<Record<string, unknown>>
  readonly command?: string
}

export interface RuleCase {
  readonly id: string
  readonly about: string
  readonly side?: string
  readonly input: {
    readonly backend: string
    readonly ipv6: boolean
    readonly dnsCapture: boolean
    readonly reconcile: boolean
    readonly probeAddress4?: string
    readonly probeAddress6?: string
    readonly annotations: Readonly<Record<string, string>>
    readonly before: readonly string[]
    readonly hostBefore?: readonly string[]
    readonly config?: Readonly<Record<string, unknown>>
    readonly steps: readonly RuleStep[]
  }
  readonly steps?: readonly any[]
  readonly result: Readonly<Record<string, any>>
  readonly deviation?: { readonly expect: any }
}

export function readRuleCase(path: string): RuleCase {
  const text = JSON.parse(readFileSync(path, 'utf8')) as Omit<RuleCase, 'id'>
  return { ...text, id: basename(path, '.json') }
}

/** The settings of one step: the case's, with what the step brings. */
export function toStepOptions({ input }: RuleCase, step: RuleStep): PodRuleOptions {
  const defaults = {
    ipv6: (step.config?.['IPv6'] as boolean | undefined) ?? input.ipv6,
    dnsCapture: (step.config?.['DNSCapture'] as boolean | undefined) ?? input.dnsCapture,
    probeAddress4: input.probeAddress4 ?? '169.254.7.127',
    probeAddress6: input.probeAddress6 ?? 'fd16:9254:7127:1337:ffff:ffff:ffff:ffff',
  }
  const annotations = step.annotations ?? input.annotations
  return parsePodOverrides({ namespace: 'shop', name: 'web', annotations }, defaults).options
}

/** Table to chain to rules; tables that show no rule and empty built-in chains are left out. */
export function toTables(lines: readonly string[]): Record<string, Record<string, string[]>> {
  const tables: Record<string, Record<string, string[]>> = {}
  let table: Record<string, string[]> = {}
  for (const line of lines) {
    const clean = line.trim()
    if (clean.startsWith('*')) table = tables[clean.slice(1)] = {}
    const chain = /^:(\S+) -/.exec(clean)?.[1]
    if (chain !== undefined) table[chain] ??= []
    const rule = /^-A (\S+) (.*)$/.exec(clean)
    if (rule?.[1] !== undefined) (table[rule[1]] ??= []).push(rule[2] ?? '')
  }
  return Object.fromEntries(
    Object.entries(tables).filter(([, chains]) => Object.values(chains).some((rules) => rules.length > 0)),
  )
}

export function saveTables(netns: TestNetns, program: string): Record<string, Record<string, string[]>> {
  return toTables(netns.run([program]).split('\n'))
}

/** Everything of a pod's kernel that a case of iptables speaks of. */
export function takePodState(netns: TestNetns, variant: string): Record<string, unknown> {
  const lines = (...command: string[]): string[] => {
    const text = netns.tryRun(command).stdout
    return text
      .split('\n')
      .map((line) => line.replace(/\s+/g, ' ').trim())
      .filter((line) => line !== '')
  }
  return {
    iptables: saveTables(netns, `iptables-${variant}-save`),
    ip6tables: saveTables(netns, `ip6tables-${variant}-save`),
    ip_rule: lines('ip', 'rule', 'show'),
    ip6_rule: lines('ip', '-6', 'rule', 'show'),
    routes4: lines('ip', 'route', 'show', 'table', '100'),
    routes6: lines('ip', '-6', 'route', 'show', 'table', '100'),
  }
}

/** The recorded state in the same shape. */
export function toPodState(result: Readonly<Record<string, any>>): Record<string, unknown> {
  return { ...result, iptables: toTables(result['iptables']), ip6tables: toTables(result['ip6tables']) }
}

/** What of a state is ours: our two chains and the rules that lead to them, IP rule and routes. */
export function selectOurs(state: Record<string, unknown>): Record<string, unknown> {
  const names = ['ISTIO_PRERT', 'ISTIO_OUTPUT']
  const ofTables = (tables: Record<string, Record<string, string[]>>): unknown =>
    Object.fromEntries(
      Object.entries(tables)
        .map(([table, chains]) => {
          const kept = Object.entries(chains)
            .map(([chain, rules]) =>
              names.includes(chain)
                ? ([chain, rules] as const)
                : ([chain, rules.filter((rule) => names.some((name) => rule.endsWith(`-j ${name}`)))] as const),
            )
            .filter(([chain, rules]) => names.includes(chain) || rules.length > 0)
          return [table, Object.fromEntries(kept)] as const
        })
        .filter(([, chains]) => Object.keys(chains).length > 0),
    )
  const rules = (lines: unknown): unknown => (lines as string[]).filter((line) => line.includes('0x111'))
  return {
    iptables: ofTables(state['iptables'] as never),
    ip6tables: ofTables(state['ip6tables'] as never),
    ip_rule: rules(state['ip_rule']),
    ip6_rule: rules(state['ip6_rule']),
    routes4: state['routes4'],
    routes6: state['routes6'],
  }
}

/** Nothing of ours, in the shape of selectOurs. */
export const nothingOurs = { iptables: {}, ip6tables: {}, ip_rule: [], ip6_rule: [], routes4: [], routes6: [] }
