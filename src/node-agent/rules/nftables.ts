// SPDX-License-Identifier: Apache-2.0
// The netlink backend: rules of pods as one transaction each, without a program. For enrolment and the sweep. Works through the workers alone; remembers
// only generations, so that a check of an untouched pod costs next to nothing.

import { InvalidInput, formatError } from '../../base/errors.js'
import type { Logger } from '../../base/log.js'
import type { PodRuleOptions, PodRules, RuleState } from '../contracts.js'
import { type Netns, formatNetns } from '../netns/netns.js'
import type { NetnsWorkers } from '../netns/workers.js'
import { GenerationMemory } from './generation.js'
import { type NftApplyResult, type NftJobArgs, applyNftJob, checkNftJob, removeNftJob } from './nft-jobs.js'
import type { NftLayout } from './nft-layout.js'
import { NetnsTurns } from './turns.js'

export interface NftablesRulesOptions {
  readonly workers: NetnsWorkers
  /** Chains `ISTIO_*` that none of us makes go, too (`AMBIENT_RECONCILE_POD_RULES_ON_STARTUP`). */
  readonly removeStrangeChains: boolean
  readonly log: Logger
  /** Called when tables of iptables-legacy are in use in a pod: takes our chains and istio-cni's out of them. Without it they stay, with a warning. */
  readonly removeLegacyLeftovers?: ((netns: Netns) => Promise<unknown>) | undefined
  /** Only this layout; by default the one that this kernel takes. */
  readonly layout?: NftLayout | undefined
}

export function createNftablesRules(options: NftablesRulesOptions): PodRules {
  return new NftablesRules(options)
}

class NftablesRules implements PodRules {
  readonly backend = 'nftables'
  readonly #options: NftablesRulesOptions
  readonly #memory = new GenerationMemory()
  readonly #turns = new NetnsTurns()
  #layout: NftLayout
  #isLayoutProven: boolean

  constructor(options: NftablesRulesOptions) {
    this.#options = options
    this.#layout = options.layout ?? 'inet'
    this.#isLayoutProven = options.layout !== undefined
  }

  apply(netns: Netns, options: PodRuleOptions): Promise<void> {
    return this.#turns.take(netns, async (held) => {
      const result = await this.#applyInSomeLayout(held, options)
      if (result.hasLegacy && result.changed) await this.#removeLegacy(held, result.wasAbsent)
      if (result.generation === undefined) this.#memory.forget(held)
      else this.#memory.remember(held, result.generation, options)
      const fields = { netns: formatNetns(held), changed: result.changed }
      if (result.removed.length === 0) this.#options.log.debug(fields, 'rules of a pod are as wanted')
      else this.#options.log.info({ ...fields, removed: result.removed }, 'rules that others left in a pod taken out')
    })
  }

  check(netns: Netns, options: PodRuleOptions): Promise<RuleState> {
    return this.#turns.take(netns, async (held) => {
      const { state, generation } = await this.#options.workers.run(checkNftJob, {
        netns: held,
        args: this.#toArgs(held, options),
      })
      if (state === 'complete') this.#memory.remember(held, generation, options)
      else this.#memory.forget(held)
      return state
    })
  }

  remove(netns: Netns): Promise<void> {
    return this.#turns.take(netns, async (held) => {
      this.#memory.forget(held)
      const { removeStrangeChains, workers } = this.#options
      const { hasLegacy } = await workers.run(removeNftJob, { netns: held, args: { removeStrangeChains } })
      if (hasLegacy) await this.#removeLegacy(held, false)
    })
  }

  /** Before the first success nobody knows whether this kernel takes our rules in a table of both families. */
  async #applyInSomeLayout(netns: Netns, options: PodRuleOptions): Promise<NftApplyResult> {
    try {
      const result = await this.#applyNow(netns, options)
      this.#isLayoutProven = true
      return result
    } catch (error) {
      if (!(error instanceof InvalidInput) || this.#isLayoutProven) throw error
      this.#layout = 'by-family'
      try {
        const result = await this.#applyNow(netns, options)
        this.#isLayoutProven = true
        this.#options.log.info(
          { refusal: formatError(error) },
          'a table for each family, as this kernel takes no other',
        )
        return result
      } catch {
        this.#layout = 'inet'
        throw error
      }
    }
  }

  #applyNow(netns: Netns, options: PodRuleOptions): Promise<NftApplyResult> {
    return this.#options.workers.run(applyNftJob, { netns, args: this.#toArgs(netns, options) })
  }

  #toArgs(netns: Netns, options: PodRuleOptions): NftJobArgs {
    const { removeStrangeChains } = this.#options
    return { options, layout: this.#layout, removeStrangeChains, known: this.#memory.recall(netns, options) }
  }

  /** When that fails, what this call made goes again; rules that were there before it stay. */
  async #removeLegacy(netns: Netns, isTakenBack: boolean): Promise<void> {
    const { workers, removeLegacyLeftovers, log } = this.#options
    if (removeLegacyLeftovers === undefined) {
      log.warn({ netns: formatNetns(netns) }, 'tables of iptables-legacy in a pod not looked at for rules of istio-cni')
      return
    }
    try {
      await removeLegacyLeftovers(netns)
    } catch (error) {
      this.#memory.forget(netns)
      if (isTakenBack) await workers.run(removeNftJob, { netns, args: { removeStrangeChains: false } })
      throw error
    }
  }
}
