// SPDX-License-Identifier: Apache-2.0
// Every backend of rules as tests make it, with what it needs of this machine. For runners that do the same with each.

import { silentLogger } from '../../src/base/log.js'
import type { PodRules, ProbeSet } from '../../src/node-agent/contracts.js'
import type { Netns } from '../../src/node-agent/netns/netns.js'
import type { NetnsWorkers } from '../../src/node-agent/netns/workers.js'
import type { ChosenBackend } from '../../src/node-agent/rules/backend-choice.js'
import { createIptablesRules } from '../../src/node-agent/rules/iptables-rules.js'
import { findNodeTools } from '../../src/node-agent/rules/iptables-tools.js'
import type { NftLayout } from '../../src/node-agent/rules/nft-layout.js'
import { createNftablesRules } from '../../src/node-agent/rules/nftables.js'
import { createProbeSet } from '../../src/node-agent/rules/probe-set.js'
import { detectVariant } from '../../src/node-agent/rules/variant.js'
import { hostParts } from './host-parts.js'
import { probeAddress4, probeAddress6 } from './packet-room.js'

export interface TestBackend {
  readonly name: string
  /** As recorded cases call it. */
  readonly recordedAs: 'nftables' | 'iptables-nft' | 'iptables-legacy'
  readonly layout?: NftLayout
  /** Why this machine cannot run it. */
  missing(): string | undefined
}

const missingAnywhere = (): string | undefined => hostParts.netns ?? hostParts.built

export const testBackends: readonly TestBackend[] = [
  { name: 'nftables', recordedAs: 'nftables', missing: () => missingAnywhere() ?? hostParts.nft },
  {
    name: 'nftables, a table for each family',
    recordedAs: 'nftables',
    layout: 'by-family',
    missing: () => missingAnywhere() ?? hostParts.nft,
  },
  {
    name: 'iptables-nft',
    recordedAs: 'iptables-nft',
    missing: () => missingAnywhere() ?? hostParts.iptablesNft ?? hostParts.ipset,
  },
  {
    name: 'iptables-legacy',
    recordedAs: 'iptables-legacy',
    missing: () => missingAnywhere() ?? hostParts.iptablesLegacy ?? hostParts.ipset,
  },
]

async function choose({ recordedAs }: TestBackend, workers: NetnsWorkers): Promise<ChosenBackend> {
  if (recordedAs === 'nftables') return { backend: 'nftables' }
  const force = recordedAs === 'iptables-nft' ? 'nft' : 'legacy'
  const tools = findNodeTools(process.env['PATH'] ?? '')
  const found = await detectVariant({ force, tools, workers, ipv6: true, log: silentLogger })
  return { backend: recordedAs, variant: found.variant, tools: found.tools }
}

export async function createTestRules(
  backend: TestBackend,
  workers: NetnsWorkers,
  removeStrangeChains = false,
): Promise<PodRules> {
  const chosen = await choose(backend, workers)
  if (chosen.backend === 'nftables') {
    return createNftablesRules({ workers, removeStrangeChains, log: silentLogger, layout: backend.layout })
  }
  return createIptablesRules({ ...chosen, workers, removeStrangeChains, log: silentLogger })
}

/** On a node whose kubelet runs as root. */
export async function createTestProbeSet(
  backend: TestBackend,
  workers: NetnsWorkers,
  node: Netns,
  ipv6 = true,
): Promise<ProbeSet> {
  return createProbeSet({
    chosen: await choose(backend, workers),
    workers,
    hostNetns: node,
    procRoot: '/proc',
    ipv6,
    probeAddress4,
    probeAddress6,
    log: silentLogger,
    kubeletUid: 0,
  })
}
