// SPDX-License-Identifier: Apache-2.0
// The plain way to make a pod's rules, the yardstick of the node agent: programs that are started, each through nsenter. Makes the same rules as the
// product's iptables backend, which it takes the text from.

import { spawnSync } from 'node:child_process'
import type { PodRuleOptions } from '../../src/node-agent/contracts.js'
import { selectWanted } from '../../src/node-agent/rules/iptables-text.js'
import { returnRoute, type Family } from '../../src/node-agent/rules/rule-table.js'

/** One started program. */
interface Call {
  readonly command: readonly string[]
  readonly input?: string
}

const families: readonly Family[] = [4, 6]
const { mark, mask, table: routeTable, priority } = returnRoute

/** Starts programs and waits for each. Throws, with what it said, when one fails. */
export class PlainRules {
  readonly #make: readonly Call[]
  readonly #take: readonly Call[]
  readonly #look: readonly Call[]

  /** `suffix`: `-nft` or `-legacy`, as the programs are called. */
  constructor(options: PodRuleOptions, suffix: string) {
    const of = (list: (family: Family) => readonly Call[]): readonly Call[] => families.flatMap(list)
    const name = (family: Family, part: string): string => `${family === 4 ? 'iptables' : 'ip6tables'}${suffix}${part}`
    const restore = (family: Family, input: string): Call => ({
      command: [name(family, '-restore'), '--noflush'],
      input,
    })
    const ip = (family: Family, verb: string): Call => ({
      command: ['ip', family === 4 ? '-4' : '-6', '-batch', '-'],
      input: [
        `rule ${verb} fwmark ${mark}/${mask} lookup ${routeTable} priority ${priority}`,
        `route ${verb} local default dev lo table ${routeTable}`,
        '',
      ].join('\n'),
    })
    this.#make = of((family) => [restore(family, formatAdd(family, options)), ip(family, 'add')])
    this.#take = of((family) => [restore(family, formatDelete(family, options)), ip(family, 'delete')])
    this.#look = of((family) => [
      { command: [name(family, '-save')] },
      ...listRules(family, options).map(({ table, chain, rule }) => ({
        command: [name(family, ''), '-t', table, '-C', chain, ...rule.split(' ')],
      })),
    ])
  }

  /** Four programs. */
  make(netnsPath: string): void {
    run(netnsPath, this.#make)
  }

  /** Four programs. */
  remove(netnsPath: string): void {
    run(netnsPath, this.#take)
  }

  /** What is there goes, and is made anew: eight programs. */
  replace(netnsPath: string): void {
    this.remove(netnsPath)
    this.make(netnsPath)
  }

  /** As istio-cni does it when a pod's rules are there already: a dump of each family, then every rule is asked for. */
  check(netnsPath: string): void {
    run(netnsPath, this.#look)
  }

  /** Programs that check() starts. */
  get checks(): number {
    return this.#look.length
  }
}

function run(netnsPath: string, calls: readonly Call[]): void {
  for (const { command, input = '' } of calls) {
    const { error, status, stderr } = spawnSync('nsenter', [`--net=${netnsPath}`, '--', ...command], { input })
    if (error !== undefined) throw error
    if (status !== 0)
      throw new Error(`${command.join(' ')} in ${netnsPath} ended with ${String(status)}: ${String(stderr)}`)
  }
}

function formatAdd(family: Family, options: PodRuleOptions): string {
  return [...selectWanted(family, options)]
    .filter(([, { chains }]) => chains.size > 0)
    .flatMap(([name, { chains, jumps }]) => [
      `*${name}`,
      ...[...chains.keys()].map((chain) => `:${chain} - [0:0]`),
      ...jumps.map(({ from, rule }) => `-A ${from} ${rule}`),
      ...[...chains].flatMap(([chain, rules]) => rules.map((rule) => `-A ${chain} ${rule}`)),
      'COMMIT',
      '',
    ])
    .join('\n')
}

function formatDelete(family: Family, options: PodRuleOptions): string {
  return [...selectWanted(family, options)]
    .filter(([, { chains }]) => chains.size > 0)
    .flatMap(([name, { chains, jumps }]) => [
      `*${name}`,
      ...jumps.map(({ from, rule }) => `-D ${from} ${rule}`),
      ...[...chains.keys()].map((chain) => `-F ${chain}`),
      ...[...chains.keys()].map((chain) => `-X ${chain}`),
      'COMMIT',
      '',
    ])
    .join('\n')
}

function listRules(
  family: Family,
  options: PodRuleOptions,
): readonly { readonly table: string; readonly chain: string; readonly rule: string }[] {
  return [...selectWanted(family, options)].flatMap(([table, { chains, jumps }]) => [
    ...jumps.map(({ from, rule }) => ({ table, chain: from, rule })),
    ...[...chains].flatMap(([chain, rules]) => rules.map((rule) => ({ table, chain, rule }))),
  ])
}
