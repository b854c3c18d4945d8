// SPDX-License-Identifier: Apache-2.0
// What this process knows of each namespace's rules: the generation at which they were seen whole, and for which options. For checks that cost next to
// nothing while nobody touches a pod. Forgetting is always safe: the next check looks.

import type { PodRuleOptions } from '../contracts.js'
import { type NetnsId, formatNetns } from '../netns/netns.js'

interface Seen {
  readonly generation: number
  readonly optionsKey: string
}

// A namespace that ends without its rules being taken out is never named again; the oldest go first.
const mostNamespaces = 4096

export class GenerationMemory {
  readonly #seen = new Map<string, Seen>()

  /** The rules for these options were whole at this generation. */
  remember(netns: NetnsId, generation: number, options: PodRuleOptions): void {
    const key = formatNetns(netns)
    this.#seen.delete(key)
    this.#seen.set(key, { generation, optionsKey: toOptionsKey(options) })
    for (const oldest of this.#seen.keys()) {
      if (this.#seen.size <= mostNamespaces) return
      this.#seen.delete(oldest)
    }
  }

  /** The generation at which the rules for just these options were whole; undefined when that is not known. */
  recall(netns: NetnsId, options: PodRuleOptions): number | undefined {
    const seen = this.#seen.get(formatNetns(netns))
    return seen?.optionsKey === toOptionsKey(options) ? seen.generation : undefined
  }

  forget(netns: NetnsId): void {
    this.#seen.delete(formatNetns(netns))
  }
}

/** Equal for equal options, whatever the order of their keys. */
export function toOptionsKey(options: PodRuleOptions): string {
  return JSON.stringify([
    options.ipv6,
    options.dnsCapture,
    options.bypassInbound,
    options.virtualInterfaces,
    options.excludedInboundPorts,
    options.excludedOutboundCidrs,
    options.probeAddress4,
    options.probeAddress6,
  ])
}
