// SPDX-License-Identifier: Apache-2.0
// `addressd-node rules show|check|apply|remove` for people who look into one pod. Prints, and says by a number how it went; main reads the flags.

import { formatError } from '../../base/errors.js'
import type { PodRuleOptions, PodRules } from '../contracts.js'
import type { Netns } from '../netns/netns.js'
import type { NetnsWorkers } from '../netns/workers.js'
import { showIptables } from './iptables-show.js'
import type { NodeTools } from './iptables-tools.js'
import { showNftJob } from './nft-jobs.js'
import { formatDifferences } from './rules-difference.js'

export const rulesActions = ['show', 'check', 'apply', 'remove'] as const
export type RulesAction = (typeof rulesActions)[number]

export interface RulesCommand {
  readonly action: RulesAction
  readonly netns: Netns
  /** Of the namespace, as it was given: lines begin with it. */
  readonly path: string
  readonly rules: PodRules
  /** What the rules are compared with, or made as. */
  readonly options: PodRuleOptions
  readonly workers: NetnsWorkers
  /** Where programs are, to show what iptables holds. */
  readonly tools: NodeTools
  /** One line, without its end. */
  readonly print: (line: string) => void
}

/**
 * Gives the exit code: 0 it went well (of check: the rules are complete), 1 it failed, 3 the rules are absent or different. 2, wrong usage, is for the
 * program to say.
 */
export async function runRulesCommand(command: RulesCommand): Promise<number> {
  const { action, rules, netns, options, path } = command
  const print = (line: string): void => command.print(`${path}: ${line}`)
  try {
    switch (action) {
      case 'show':
        return await show(command)
      case 'check': {
        const state = await rules.check(netns, options)
        print(`${rules.backend}: ${state}`)
        if (state === 'complete') return 0
        if (state === 'absent') return 3
        const differences = formatDifferences(rules.backend, options, await listShown(command))
        for (const line of differences) print(line)
        if (differences.length === 0) print('every rule is there, but not in this order, or its table sleeps')
        return 3
      }
      case 'apply':
        await rules.apply(netns, options)
        print(`${rules.backend}: rules made`)
        return 0
      case 'remove':
        await rules.remove(netns)
        print(`${rules.backend}: rules taken out`)
        return 0
    }
  } catch (error) {
    print(`${action} failed: ${formatError(error)}`)
    return 1
  }
}

async function show(command: RulesCommand): Promise<number> {
  const { path, print } = command
  const lines = await listShown(command)
  for (const line of lines) print(line)
  if (lines.length === 0) print(`${path}: no rule of addressd or istio-cni is there`)
  return 0
}

async function listShown({ workers, netns, tools, options }: RulesCommand): Promise<readonly string[]> {
  const ownTables = await workers.run(showNftJob, { netns, args: { removeStrangeChains: true } })
  // What iptables keeps is shown as iptables says it.
  return [...ownTables, ...(await showIptables({ workers, netns, tools, ipv6: options.ipv6 }))]
}
