// SPDX-License-Identifier: Apache-2.0
// The iptables backend, of either variant: rules of pods through the programs of the node. For enrolment and the sweep. One pod's work is done one after
// the other, that of several pods side by side.

import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Logger } from '../../base/log.js'
import type { PodRuleOptions, PodRules, RuleBackendName, RuleState } from '../contracts.js'
import { type Netns, formatNetns } from '../netns/netns.js'
import type { NetnsWorkers } from '../netns/workers.js'
import { GenerationMemory } from './generation.js'
import { type CommandRecord, takeResult } from './iptables-command.js'
import {
  applyIptablesJob,
  checkIptablesJob,
  removeIptablesJob,
  removeIptablesLeftoversJob,
} from './iptables-job-keys.js'
import type { PodWork } from './iptables-pod.js'
import type { IptablesTools, IptablesVariant } from './iptables-tools.js'
import { NetnsTurns } from './turns.js'

export interface IptablesRulesOptions {
  readonly workers: NetnsWorkers
  readonly variant: IptablesVariant
  readonly tools: IptablesTools
  /** Chains `ISTIO_*` that none of us makes go, too (`AMBIENT_RECONCILE_POD_RULES_ON_STARTUP`). */
  readonly removeStrangeChains: boolean
  readonly log: Logger
  /** Told of every program that ran. */
  readonly onCommand?: ((record: CommandRecord) => void) | undefined
  /** Where the lock for pods' legacy tables lies: the process makes a file in it. */
  readonly lockFolder?: string | undefined
}

export function createIptablesRules(options: IptablesRulesOptions): PodRules {
  return new IptablesRules(options)
}

export interface RemoveLeftoversOptions extends Omit<IptablesRulesOptions, 'variant' | 'log'> {
  readonly netns: Netns
}

/** Takes chains of either variant out of a pod whose rules another backend makes. Resolves to whether there were any. */
export async function removeIptablesLeftovers(options: RemoveLeftoversOptions): Promise<boolean> {
  const { workers, netns, onCommand } = options
  // Nothing is made, so it does not matter which variant would be.
  const args = toWork({ ...options, variant: 'nft' })
  return takeResult(await workers.run(removeIptablesLeftoversJob, { netns, args, occupies: true }), onCommand)
}

class IptablesRules implements PodRules {
  readonly backend: RuleBackendName
  readonly #options: IptablesRulesOptions
  readonly #work: PodWork
  readonly #memory = new GenerationMemory()
  readonly #turns = new NetnsTurns()

  constructor(options: IptablesRulesOptions) {
    this.backend = options.variant === 'nft' ? 'iptables-nft' : 'iptables-legacy'
    this.#options = options
    this.#work = toWork(options)
  }

  async apply(netns: Netns, options: PodRuleOptions): Promise<void> {
    const { workers, log, onCommand } = this.#options
    await this.#turns.take(netns, async (held) => {
      const args = { work: this.#work, options }
      this.#memory.forget(held)
      const { changed, generation } = takeResult(
        await workers.run(applyIptablesJob, { netns: held, args, occupies: true }),
        onCommand,
      )
      if (generation !== undefined) this.#memory.remember(held, generation, options)
      log.debug({ netns: formatNetns(held), changed }, 'rules of a pod are as wanted')
    })
  }

  check(netns: Netns, options: PodRuleOptions): Promise<RuleState> {
    const { workers, onCommand } = this.#options
    return this.#turns.take(netns, async (held) => {
      const args = { work: this.#work, options, knownGeneration: this.#memory.recall(held, options) }
      const { state, generation } = takeResult(
        await workers.run(checkIptablesJob, { netns: held, args, occupies: true }),
        onCommand,
      )
      // Known to be whole as far as nf_tables goes; IP rule and route are looked at every time.
      if (state === 'complete' && generation !== undefined) this.#memory.remember(held, generation, options)
      return state
    })
  }

  async remove(netns: Netns): Promise<void> {
    const { workers, onCommand } = this.#options
    await this.#turns.take(netns, async (held) => {
      this.#memory.forget(held)
      takeResult(await workers.run(removeIptablesJob, { netns: held, args: this.#work, occupies: true }), onCommand)
    })
  }
}

function toWork(
  options: Pick<IptablesRulesOptions, 'variant' | 'tools' | 'removeStrangeChains' | 'lockFolder'>,
): PodWork {
  const { variant, tools, removeStrangeChains, lockFolder } = options
  const lockFile = join(lockFolder ?? tmpdir(), `addressd-xtables-${process.pid}.lock`)
  return { variant, tools, removeStrangeChains, lockFile }
}
