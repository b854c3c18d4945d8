// SPDX-License-Identifier: Apache-2.0
// The rules inside an enrolled pod, as data: one table that every backend renders in its own way. Knows nothing of nftables or iptables, touches
// no kernel, and takes its options as already checked.

import type { PodRuleOptions } from '../contracts.js'

/** Marks compare in these bits only; the others belong to whoever else marks packets. */
export const markMask = 0xfff
/** On every socket that ztunnel makes in the pod. */
export const ztunnelMark = 0x539
/** On connections from ztunnel to the application, and on the replies, which have to go back to ztunnel. */
export const returnMark = 0x111
export const outboundPort = 15001
export const inboundPort = 15006
export const hbonePort = 15008
export const dnsPort = 15053

/** Packets with the return mark are delivered locally: IP rule and route of each family. */
export const returnRoute = { mark: returnMark, mask: markMask, table: 100, priority: 32764 } as const

export type RuleTableName = 'mangle' | 'nat' | 'raw'
export type RuleHook = 'prerouting' | 'output'
export type Family = 4 | 6

/** One condition. `not` turns it round. Prefixes are canonical text (`10.0.0.0/8`, `::1/128`), of the family of their rule. */
export type Match =
  | { readonly kind: 'in-interface'; readonly name: string; readonly not?: true }
  | { readonly kind: 'out-interface'; readonly name: string; readonly not?: true }
  | { readonly kind: 'source'; readonly prefix: string; readonly not?: true }
  | { readonly kind: 'destination'; readonly prefix: string; readonly not?: true }
  | { readonly kind: 'protocol'; readonly protocol: 'tcp' | 'udp' }
  | { readonly kind: 'source-port'; readonly port: number; readonly not?: true }
  | { readonly kind: 'destination-port'; readonly port: number; readonly not?: true }
  /** Packet mark & mask = value. */
  | { readonly kind: 'mark'; readonly value: number; readonly mask: number; readonly not?: true }
  /** Connection mark & mask = value. */
  | { readonly kind: 'connection-mark'; readonly value: number; readonly mask: number; readonly not?: true }

/** What happens to a packet that meets all conditions. */
export type Action =
  | { readonly kind: 'accept' }
  /** Leaves our rules; rules of others behind ours still see the packet where the backend can do that. */
  | { readonly kind: 'return' }
  | { readonly kind: 'redirect'; readonly port: number }
  /** The bits of `mask` in the connection's mark become `value`; the others stay. */
  | { readonly kind: 'set-connection-mark'; readonly value: number; readonly mask: number }
  /** The packet's mark becomes the connection's, all 32 bits. */
  | { readonly kind: 'restore-mark' }
  | { readonly kind: 'conntrack-zone'; readonly zone: number }

/** One rule. Port conditions always stand behind a protocol condition. */
export interface Rule {
  /** For reading and for tests: `M1` to `R2` as documented, `X1` and `X2` for exclusions. Several rules may have the same. */
  readonly id: string
  readonly table: RuleTableName
  readonly hook: RuleHook
  /** `undefined`: says nothing of addresses and holds for both. */
  readonly family: Family | undefined
  readonly matches: readonly Match[]
  readonly action: Action
}

const tcp: Match = { kind: 'protocol', protocol: 'tcp' }
const udp: Match = { kind: 'protocol', protocol: 'udp' }
const fromZtunnel = { kind: 'mark', value: ztunnelMark, mask: markMask } as const satisfies Match
const notFromZtunnel: Match = { ...fromZtunnel, not: true }
const isReturning: Match = { kind: 'mark', value: returnMark, mask: markMask }
const overLo = { kind: 'out-interface', name: 'lo' } as const satisfies Match
const accept: Action = { kind: 'accept' }
const toDns: Action = { kind: 'redirect', port: dnsPort }

/** The one address of a family that counts as loopback here; 127.0.0.2 does not. */
const loopback = { 4: '127.0.0.1/32', 6: '::1/128' } as const
const notLoopback = (family: Family): Match => ({ kind: 'destination', prefix: loopback[family], not: true })

/**
 * All rules for these options: within a table and hook in the order in which they have to stand, a rule of IPv6 right behind its twin of IPv4.
 * With IPv6 off there is none of family 6 (and those without a family are meant for IPv4 alone).
 */
export function selectRules(options: PodRuleOptions): readonly Rule[] {
  const families: readonly Family[] = options.ipv6 ? [4, 6] : [4]
  return [
    ...selectMangle(),
    ...selectNatPrerouting(options, families),
    ...selectNatOutput(options, families),
    ...selectRaw(options),
  ]
}

/** The rules that one family gets, for backends that keep the families apart. */
export function selectRulesOf(family: Family, options: PodRuleOptions): readonly Rule[] {
  if (family === 6 && !options.ipv6) return []
  return selectRules(options).filter((rule) => rule.family === undefined || rule.family === family)
}

/** The families that get rules, routes and IP rules. */
export function selectFamilies(options: PodRuleOptions): readonly Family[] {
  return options.ipv6 ? [4, 6] : [4]
}

function selectMangle(): readonly Rule[] {
  const table = 'mangle'
  return [
    {
      id: 'M1',
      table,
      hook: 'prerouting',
      family: undefined,
      matches: [fromZtunnel],
      action: { kind: 'set-connection-mark', value: returnMark, mask: markMask },
    },
    {
      id: 'M2',
      table,
      hook: 'output',
      family: undefined,
      matches: [{ kind: 'connection-mark', value: returnMark, mask: markMask }],
      action: { kind: 'restore-mark' },
    },
  ]
}

function selectNatPrerouting(options: PodRuleOptions, families: readonly Family[]): readonly Rule[] {
  const place = { table: 'nat', hook: 'prerouting' } as const
  const virtual = options.virtualInterfaces.flatMap((name): readonly Rule[] => {
    const matches: readonly Match[] = [{ kind: 'in-interface', name }, tcp]
    return [
      { id: 'N1', ...place, family: undefined, matches, action: { kind: 'redirect', port: outboundPort } },
      { id: 'N2', ...place, family: undefined, matches, action: { kind: 'return' } },
    ]
  })
  if (options.bypassInbound) return virtual
  const probes = families.map((family): Rule => {
    const matches: readonly Match[] = [{ kind: 'source', prefix: probePrefix(options, family) }, tcp]
    return { id: 'N3', ...place, family, matches, action: accept }
  })
  const excluded = options.excludedInboundPorts.map((port): Rule => {
    const matches: readonly Match[] = [tcp, { kind: 'destination-port', port }]
    return { id: 'X1', ...place, family: undefined, matches, action: { kind: 'return' } }
  })
  const plaintext = families.map((family): Rule => {
    const notHbone: Match = { kind: 'destination-port', port: hbonePort, not: true }
    const matches: readonly Match[] = [notLoopback(family), tcp, notHbone, notFromZtunnel]
    return { id: 'N4', ...place, family, matches, action: { kind: 'redirect', port: inboundPort } }
  })
  return [...virtual, ...probes, ...excluded, ...plaintext]
}

function selectNatOutput(options: PodRuleOptions, families: readonly Family[]): readonly Rule[] {
  const place = { table: 'nat', hook: 'output' } as const
  const each = (id: string, action: Action, matchesOf: (family: Family) => readonly Match[]): readonly Rule[] =>
    families.map((family) => ({ id, ...place, family, matches: matchesOf(family), action }))
  const dnsQuery: Match = { kind: 'destination-port', port: 53 }
  const dns: readonly Rule[] = [
    {
      id: 'N6',
      ...place,
      family: undefined,
      matches: [{ ...overLo, not: true }, udp, dnsQuery, notFromZtunnel],
      action: toDns,
    },
    ...each('N7', toDns, (family) => [notLoopback(family), tcp, dnsQuery, notFromZtunnel]),
  ]
  const excluded = options.excludedOutboundCidrs.flatMap((prefix): readonly Rule[] => {
    const family: Family = prefix.includes(':') ? 6 : 4
    if (!families.includes(family)) return []
    const matches: readonly Match[] = [{ kind: 'destination', prefix }, tcp]
    return [{ id: 'X2', ...place, family, matches, action: { kind: 'return' } }]
  })
  return [
    ...each('N5', accept, (family) => [{ kind: 'destination', prefix: probePrefix(options, family) }, tcp]),
    ...(options.dnsCapture ? dns : []),
    { id: 'N8', ...place, family: undefined, matches: [tcp, isReturning], action: accept },
    ...each('N9', accept, (family) => [notLoopback(family), overLo]),
    // Behind the capture of DNS: a query is answered the same over TCP as over UDP, wherever it goes.
    ...excluded,
    ...each('N10', { kind: 'redirect', port: outboundPort }, (family) => [notLoopback(family), tcp, notFromZtunnel]),
  ]
}

function selectRaw(options: PodRuleOptions): readonly Rule[] {
  if (!options.dnsCapture) return []
  const table = 'raw'
  // ztunnel's own queries and their answers share a zone of their own: they never meet the entries of the application's redirected ones.
  const action: Action = { kind: 'conntrack-zone', zone: 1 }
  return [
    {
      id: 'R2',
      table,
      hook: 'prerouting',
      family: undefined,
      matches: [udp, { kind: 'source-port', port: 53 }, notFromZtunnel],
      action,
    },
    {
      id: 'R1',
      table,
      hook: 'output',
      family: undefined,
      matches: [udp, { kind: 'destination-port', port: 53 }, fromZtunnel],
      action,
    },
  ]
}

function probePrefix(options: PodRuleOptions, family: Family): string {
  return family === 4 ? `${options.probeAddress4}/32` : `${options.probeAddress6}/128`
}
