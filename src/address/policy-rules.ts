// SPDX-License-Identifier: Apache-2.0
// The rules of an AuthorizationPolicy as groups that a proxy of connections can judge. What it cannot judge is never read as if it held: a rule that allows
// goes as a whole, a rule that denies keeps an empty Match in its place, which never holds. Pure and total: rules of any shape give groups.

import type { AddressMatch, AccountMatch, Clause, Group, Match, StringMatch } from '../wire/authorization-encoder.js'
import { parseAccountMatch, parseAddressMatch, parsePortMatch, parseStringMatch } from './policy-values.js'

/** A value that cannot be read, such as the name of a port. */
export interface UnreadableValue {
  readonly attribute: string
  readonly value: string
}

export interface ConvertedRules {
  readonly groups: readonly Group[]
  /** What was asked for and cannot be judged, each once, sorted: attributes of requests mostly. */
  readonly unsupported: readonly string[]
  /** Values that were left out of what was kept. */
  readonly unreadable: readonly UnreadableValue[]
}

type ListName = keyof Match
type MatchValue = StringMatch | AddressMatch | AccountMatch | number
type Fields = Readonly<Record<string, unknown>>

const ofOperation: Readonly<Record<string, ListName>> = {
  ports: 'destinationPorts',
  notPorts: 'notDestinationPorts',
}

const ofSource: Readonly<Record<string, ListName>> = {
  ipBlocks: 'sourceIps',
  notIpBlocks: 'notSourceIps',
  namespaces: 'namespaces',
  notNamespaces: 'notNamespaces',
  serviceAccounts: 'serviceAccounts',
  notServiceAccounts: 'notServiceAccounts',
  principals: 'principals',
  notPrincipals: 'notPrincipals',
}

const ofCondition: Readonly<Record<string, readonly [values: ListName, notValues: ListName]>> = {
  'source.namespace': ['namespaces', 'notNamespaces'],
  'source.principal': ['principals', 'notPrincipals'],
  'source.ip': ['sourceIps', 'notSourceIps'],
  'destination.ip': ['destinationIps', 'notDestinationIps'],
  'destination.port': ['destinationPorts', 'notDestinationPorts'],
}

const parsers: Readonly<Record<ListName, (text: string, namespace: string) => MatchValue | undefined>> = {
  namespaces: parseStringMatch,
  notNamespaces: parseStringMatch,
  principals: parseStringMatch,
  notPrincipals: parseStringMatch,
  sourceIps: parseAddressMatch,
  notSourceIps: parseAddressMatch,
  destinationIps: parseAddressMatch,
  notDestinationIps: parseAddressMatch,
  destinationPorts: parsePortMatch,
  notDestinationPorts: parsePortMatch,
  serviceAccounts: parseAccountMatch,
  notServiceAccounts: parseAccountMatch,
}

/** `namespace` is the policy's own. The rules are JSON as written. */
export function toGroups(
  rules: readonly unknown[],
  policy: { readonly namespace: string; readonly denies: boolean },
): ConvertedRules {
  const groups: Group[] = []
  const unsupported = new Set<string>()
  const unreadable: UnreadableValue[] = []
  for (const rule of rules) {
    const reading = new RuleReading(policy.namespace)
    const group = reading.toGroup(rule)
    for (const attribute of reading.unsupported) unsupported.add(attribute)
    if (reading.unsupported.size > 0 && !policy.denies) continue
    groups.push(group)
    unreadable.push(...reading.unreadable)
  }
  return { groups, unsupported: [...unsupported].sort(), unreadable }
}

/** Can any group hold at all? One without clauses always does; a clause of empty matches never. */
export function isEffective(groups: readonly Group[]): boolean {
  return groups.some((group) => group.every((clause) => clause.some((match) => Object.keys(match).length > 0)))
}

/** Reads one rule and notes what it had to leave out. */
class RuleReading {
  readonly unsupported = new Set<string>()
  readonly unreadable: UnreadableValue[] = []
  readonly #namespace: string

  constructor(namespace: string) {
    this.#namespace = namespace
  }

  /** Destinations, then sources, then one clause a condition. */
  toGroup(rule: unknown): Group {
    const clauses: Clause[] = []
    const fields = this.#fields(rule, 'rule')
    // Without fields it may have meant anything: it must not turn into a rule that always holds.
    if (fields === undefined) return [[{}]]
    if (this.#refuseOthers(fields, ['from', 'to', 'when'])) clauses.push([{}])
    for (const [list, entry, lists] of [
      ['to', 'operation', ofOperation],
      ['from', 'source', ofSource],
    ] as const) {
      const clause = this.#items(fields, list).map((item) => this.#toMatch(item, entry, lists))
      if (clause.length > 0) clauses.push(clause)
    }
    for (const condition of this.#items(fields, 'when')) clauses.push([this.#toCondition(condition)])
    return clauses
  }

  #toMatch(item: unknown, entry: string, lists: Readonly<Record<string, ListName>>): Match {
    const holder = this.#fields(item, entry)
    if (holder === undefined) return {}
    this.#refuseOthers(holder, [entry])
    const said = holder[entry] ?? undefined
    const fields = said === undefined ? {} : this.#fields(said, entry)
    const match: Match = {}
    for (const [attribute, value] of Object.entries(fields ?? {})) {
      if (isAbsent(value)) continue
      const list = Object.hasOwn(lists, attribute) ? lists[attribute] : undefined
      if (list === undefined) this.unsupported.add(attribute)
      else this.#addList(match, list, attribute, value)
    }
    return match
  }

  #toCondition(condition: unknown): Match {
    const fields = this.#fields(condition, 'when')
    if (fields === undefined) return {}
    this.#refuseOthers(fields, ['key', 'values', 'notValues'])
    const key = typeof fields['key'] === 'string' ? fields['key'] : ''
    const lists = Object.hasOwn(ofCondition, key) ? ofCondition[key] : undefined
    if (lists === undefined) {
      this.unsupported.add(key === '' ? 'when' : key)
      return {}
    }
    const match: Match = {}
    for (const [i, member] of (['values', 'notValues'] as const).entries()) {
      const list = lists[i]
      if (list !== undefined && !isAbsent(fields[member])) this.#addList(match, list, key, fields[member])
    }
    return match
  }

  #addList(match: Match, list: ListName, attribute: string, value: unknown): void {
    if (!isTexts(value)) {
      this.unsupported.add(attribute)
      return
    }
    const values: MatchValue[] = []
    for (const text of value) {
      const parsed = parsers[list](text, this.#namespace)
      if (parsed === undefined) this.unreadable.push({ attribute, value: text })
      else values.push(parsed)
    }
    // A list that lost all its values is not written, as an empty one would not be.
    if (values.length > 0) Object.assign(match, { [list]: values })
  }

  /** Undefined and noted when it is no object. */
  #fields(value: unknown, name: string): Fields | undefined {
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields
    this.unsupported.add(name)
    return undefined
  }

  /** Empty when absent; what is no list stands for one entry that cannot be read. */
  #items(fields: Fields, name: string): readonly unknown[] {
    const value = fields[name]
    if (isAbsent(value)) return []
    return Array.isArray(value) ? value : [undefined]
  }

  /** True when there are any. */
  #refuseOthers(fields: Fields, known: readonly string[]): boolean {
    const others = Object.entries(fields).filter(([name, value]) => !known.includes(name) && !isAbsent(value))
    for (const [name] of others) this.unsupported.add(name)
    return others.length > 0
  }
}

function isAbsent(value: unknown): boolean {
  return value === undefined || value === null || (Array.isArray(value) && value.length === 0)
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string')
}
