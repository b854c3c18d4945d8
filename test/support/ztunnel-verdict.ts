// SPDX-License-Identifier: Apache-2.0
// What a ztunnel would do with a connection, given the policies that it holds and those that the workload lists. A small model of its evaluation over
// decoded policies, for tests of what our bytes mean. Slow and obvious on purpose.

import { maskPrefix, parseIp } from '../../src/base/ip.js'
import type { AuthorizationJson } from '../../src/wire/authorization-json.js'

export interface Connection {
  /** `trust-domain/ns/NAMESPACE/sa/ACCOUNT`; empty for plaintext. */
  readonly principal: string
  readonly sourceIp: string
  readonly destinationIp: string
  readonly port: number
}

export interface Destination {
  readonly namespace: string
  /** Names in the order in which the workload lists them. */
  readonly listed: readonly string[]
}

type Json = Readonly<Record<string, any>>

/** Decides by all policies that are served, `namespace/name` to content. */
export function judgeConnection(
  connection: Connection,
  destination: Destination,
  served: ReadonlyMap<string, AuthorizationJson>,
): 'allow' | 'deny' {
  const considered = [...served].filter(([name, policy]) => {
    if (policy.scope === undefined) return true
    if (policy.scope === 'NAMESPACE') return policy.namespace === destination.namespace
    return destination.listed.includes(name)
  })
  const enforced = considered.map(([, policy]) => policy).filter((policy) => policy['dryRun'] !== true)
  const holds = (policy: AuthorizationJson): boolean =>
    ((policy['groups'] ?? []) as readonly Json[]).some((group) => isGroupTrue(group, connection))
  if (enforced.some((policy) => policy.action === 'DENY' && holds(policy))) return 'deny'
  const allowing = enforced.filter((policy) => policy.action === undefined)
  return allowing.length === 0 || allowing.some(holds) ? 'allow' : 'deny'
}

function isGroupTrue(group: Json, connection: Connection): boolean {
  return ((group['rules'] ?? []) as readonly Json[]).every((clause) => {
    const matches = (clause['matches'] ?? []) as readonly Json[]
    return matches.length === 0 || matches.some((match) => isMatchTrue(match, connection))
  })
}

/** An empty match never holds; in any other every list must. */
function isMatchTrue(match: Json, connection: Connection): boolean {
  const lists = Object.entries(match)
  if (lists.length === 0) return false
  return lists.every(([list, values]) => {
    const isNegative = list.startsWith('not')
    const positive = isNegative ? `${list.charAt(3).toLowerCase()}${list.slice(4)}` : list
    const fits = (values as readonly unknown[]).some((value) => tests[positive]!(value as Json, connection))
    return fits !== isNegative
  })
}

const tests: Readonly<Record<string, (value: any, connection: Connection) => boolean>> = {
  namespaces: (value: Json, { principal }) => isTextTrue(value, principal.split('/')[2] ?? ''),
  principals: (value: Json, { principal }) => principal !== '' && isTextTrue(value, principal),
  sourceIps: (value: Json, { sourceIp }) => isInRange(value, sourceIp),
  destinationIps: (value: Json, { destinationIp }) => isInRange(value, destinationIp),
  destinationPorts: (value: number, { port }) => value === port,
  serviceAccounts(value: Json, { principal }) {
    const [, , namespace, , account] = principal.split('/')
    return principal !== '' && namespace === (value['namespace'] ?? '') && account === (value['serviceAccount'] ?? '')
  },
}

function isTextTrue(value: Json, text: string): boolean {
  if (value['presence'] !== undefined) return text !== ''
  if (value['exact'] !== undefined) return text === value['exact']
  if (value['prefix'] !== undefined) return text.startsWith(value['prefix'] as string)
  return text.endsWith(value['suffix'] as string)
}

function isInRange(range: Json, text: string): boolean {
  const ip = parseIp(text)!
  const base = parseIp(range['address'] as string)!
  const length = (range['length'] ?? 0) as number
  const mask = (address: Uint8Array): Buffer => Buffer.from(maskPrefix({ address, length }))
  return ip.length === base.length && mask(ip).equals(mask(base))
}
