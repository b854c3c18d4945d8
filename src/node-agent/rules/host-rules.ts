// SPDX-License-Identifier: Apache-2.0
// The node's own rule: a probe of kubelet to a pod in the set leaves with an address that the pod's rules know and let pass. As text for iptables and as
// expressions for nf_tables. Matched on kubelet's user in both, so that nobody else on the node passes for it.

import { InvalidInput } from '../../base/errors.js'
import { formatIp, parseIp } from '../../base/ip.js'
import type { IsOurs, WantedTable } from './iptables-plan.js'
import { toAttribute, toBigEndian, toCString, toHostOrder, toNested } from './netlink.js'
import type { PlannedTable } from './nft-layout.js'
import { hookNumber, nftFamily } from './nft-messages.js'
import type { Family } from './rule-table.js'

/** Names that istio-cni uses too: entries and rules are taken over, in both directions. */
export const probeSetNames = { 4: 'istio-inpod-probes-v4', 6: 'istio-inpod-probes-v6' } as const
export const hostChain = 'ISTIO_POSTRT'
export const hostTable = { family: nftFamily.inet, table: 'istio-ambient-nat' } as const
const sourceNat = 100
const tcpNumber = 6

export interface HostRuleOptions {
  readonly kubeletUid: number
  readonly ipv6: boolean
  readonly probeAddress4: string
  readonly probeAddress6: string
}

export function selectHostFamilies({ ipv6 }: { readonly ipv6: boolean }): readonly Family[] {
  return ipv6 ? [4, 6] : [4]
}

export const isHostChain: IsOurs = (table, chain) => table === 'nat' && chain === hostChain

/** What the nat table of this family shall hold on the host; nothing when the family is off. Throws InvalidInput. */
export function selectWantedOnHost(family: Family, options: HostRuleOptions): ReadonlyMap<string, WantedTable> {
  if (!selectHostFamilies(options).includes(family)) return nothingOnHost
  const match = `-p tcp -m owner --uid-owner ${checkUid(options.kubeletUid)} -m set --match-set ${probeSetNames[family]} dst`
  const rule = `${match} -j SNAT --to-source ${formatIp(toAddress(family, options))}`
  return new Map([
    [
      'nat',
      {
        chains: new Map([[hostChain, [rule]]]),
        jumps: [{ from: 'POSTROUTING', rule: `-j ${hostChain}` }],
        // Before whoever else gives packets another source.
        jumpsFirst: true,
      },
    ],
  ])
}

export const nothingOnHost: ReadonlyMap<string, WantedTable> = new Map([['nat', { chains: new Map(), jumps: [] }]])

/** The same for nf_tables. Throws InvalidInput. */
export function planHostTable(options: HostRuleOptions): PlannedTable {
  return {
    ...hostTable,
    chains: [
      {
        ...hostTable,
        chain: 'postrouting',
        type: 'nat',
        hook: hookNumber.postrouting,
        priority: sourceNat,
        rules: selectHostFamilies(options).map((family) => toHostExpressions(family, options)),
      },
    ],
  }
}

function toHostExpressions(family: Family, options: HostRuleOptions): Buffer {
  const familyNumber = family === 4 ? nftFamily.ip : nftFamily.ip6
  const [offset, length] = family === 4 ? [16, 4] : [24, 16]
  return Buffer.concat([
    expression('meta', number(2, 16), number(1, 1)),
    compare(Buffer.from([tcpNumber])),
    expression('meta', number(2, 10), number(1, 1)),
    compare(toHostOrder(checkUid(options.kubeletUid))),
    expression('meta', number(2, 15), number(1, 1)),
    compare(Buffer.from([familyNumber])),
    expression('payload', number(1, 1), number(2, 1), number(3, offset), number(4, length)),
    expression('lookup', toAttribute(1, toCString(probeSetNames[family])), number(2, 1)),
    expression('immediate', number(1, 1), toNested(2, toAttribute(1, toAddress(family, options)))),
    // As the kernel says it again: from one register to the same, with the flag that addresses change.
    expression('nat', number(1, 0), number(2, familyNumber), number(3, 1), number(4, 1), number(7, 1)),
  ])
}

function expression(name: string, ...attributes: readonly Buffer[]): Buffer {
  return toNested(1, toAttribute(1, toCString(name)), toNested(2, ...attributes))
}

function number(type: number, value: number): Buffer {
  return toAttribute(type, toBigEndian(value))
}

function compare(value: Uint8Array): Buffer {
  return expression('cmp', number(1, 1), number(2, 0), toNested(3, toAttribute(1, value)))
}

function toAddress(family: Family, options: HostRuleOptions): Uint8Array {
  const text = family === 4 ? options.probeAddress4 : options.probeAddress6
  const bytes = parseIp(text)
  if (bytes?.length === (family === 4 ? 4 : 16)) return bytes
  throw new InvalidInput(`the probes' address ${JSON.stringify(text)} is no address of IPv${family}`)
}

function checkUid(uid: number): number {
  if (Number.isInteger(uid) && uid >= 0 && uid < 2 ** 32) return uid
  throw new InvalidInput(`${uid} is no number of a user`)
}
