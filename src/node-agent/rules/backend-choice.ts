// SPDX-License-Identifier: Apache-2.0
// Which backend makes the rules on this node, from the settings and from what the kernel and the host have. Decides once, at start; makes no rule.

import { Fatal } from '../../base/errors.js'
import type { Logger } from '../../base/log.js'
import type { RuleBackendName } from '../contracts.js'
import type { Netns } from '../netns/netns.js'
import type { NetnsWorkers } from '../netns/workers.js'
import { hasNfTablesJob } from './backend-choice-job.js'
import type { CommandRecord } from './iptables-command.js'
import type { IptablesTools, IptablesVariant, NodeTools } from './iptables-tools.js'
import { type DetectedVariant, detectVariant } from './variant.js'

export type ChosenBackend =
  | { readonly backend: 'nftables' }
  | {
      readonly backend: Exclude<RuleBackendName, 'nftables'>
      readonly variant: IptablesVariant
      readonly tools: IptablesTools
    }

export interface ChooseBackendOptions {
  /** `NATIVE_NFTABLES`: over netlink or not at all, by iptables, or (undefined) over netlink where the kernel has nf_tables. */
  readonly nativeNftables: boolean | undefined
  /** `FORCE_IPTABLES_BINARY`. Whoever names an iptables and leaves the other setting alone wants iptables. */
  readonly forceIptablesBinary: IptablesVariant | undefined
  readonly workers: NetnsWorkers
  readonly hostNetns?: Netns | undefined
  readonly tools: NodeTools
  readonly ipv6: boolean
  readonly log: Logger
  readonly onCommand?: ((record: CommandRecord) => void) | undefined
}

/** Rejects with Fatal, naming what is missing, when the node cannot do what the settings ask for. */
export async function chooseBackend(options: ChooseBackendOptions): Promise<ChosenBackend> {
  const { nativeNftables, forceIptablesBinary, workers, hostNetns, log } = options
  const mayUseNetlink = nativeNftables ?? forceIptablesBinary === undefined
  if (mayUseNetlink) {
    const isThere = await workers.run(hasNfTablesJob, { netns: hostNetns, args: undefined })
    if (isThere) {
      log.info({ backend: 'nftables' }, 'rule backend chosen')
      return { backend: 'nftables' }
    }
    if (nativeNftables === true) {
      throw new Fatal(
        'NATIVE_NFTABLES is true, but the kernel has no nf_tables: load the module, or leave the choice to the agent',
      )
    }
  }
  const detected = await detectVariant({ ...options, force: forceIptablesBinary })
  return toChosen(detected, log)
}

function toChosen({ variant, tools }: DetectedVariant, log: Logger): ChosenBackend {
  const backend = variant === 'nft' ? 'iptables-nft' : 'iptables-legacy'
  log.info({ backend }, 'rule backend chosen')
  return { backend, variant, tools }
}
