// SPDX-License-Identifier: Apache-2.0
// The jobs that run programs, by what they take and give. Apart from the jobs themselves, which a thread loads only when one is asked for: most nodes never
// start such a program.

import type { PodRuleOptions, RuleState } from '../contracts.js'
import type { JobKey } from '../netns/job.js'
import type { Command, CommandResult, Ran } from './iptables-command.js'
import type { PodWork } from './iptables-pod.js'

export interface ApplyArgs {
  readonly work: PodWork
  readonly options: PodRuleOptions
}

export interface ApplyResult {
  readonly changed: boolean
  /** At which the rules are whole; undefined when that is not sure. */
  readonly generation: number | undefined
}

export interface CheckArgs extends ApplyArgs {
  readonly knownGeneration: number | undefined
}

export interface CheckResult {
  readonly state: RuleState
  readonly generation: number | undefined
}

export const applyIptablesJob = 'iptables.apply' as JobKey<ApplyArgs, Ran<ApplyResult>>
export const checkIptablesJob = 'iptables.check' as JobKey<CheckArgs, Ran<CheckResult>>
export const removeIptablesJob = 'iptables.remove' as JobKey<PodWork, Ran<undefined>>
/** Chains and jumps of iptables alone, for a backend that keeps its rules elsewhere. The result says whether there were any. */
export const removeIptablesLeftoversJob = 'iptables.removeLeftovers' as JobKey<PodWork, Ran<boolean>>
export const runCommandsJob = 'rules/run-commands' as JobKey<readonly Command[], Ran<readonly CommandResult[]>>
