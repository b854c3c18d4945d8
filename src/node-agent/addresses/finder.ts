// SPDX-License-Identifier: Apache-2.0
// From a question of a person to the keys that the control plane is asked for, and from what is held to what the question means. Pure.

import { formatIp, parseIp } from '../../base/ip.js'
import type { Question } from '../../wire/question.js'
import { findRange, type Held, type HeldAddress } from './held.js'

/** What a question leaves open. */
export interface Place {
  readonly clusterId: string
  /** Of this node; a plain address is looked for in it, in the one without a name, and in those that something held is in. */
  readonly network: string
  /** Such as `cluster.local`. */
  readonly domain: string
}

/** One key, and what of the question it stands for, in words; undefined: an address, said by what bears it. */
export interface Key {
  readonly key: string
  readonly by: string | undefined
}

export interface Found {
  readonly held: HeldAddress
  readonly by: string
}

/** More networks than this are not guessed at. */
const mostNetworks = 16

/** Each key once. Empty when the question can only be answered by somebody who knows everything. */
export function selectKeys(question: Question, held: Held, place: Place): readonly Key[] {
  const keys = new Map<string, Key>()
  for (const key of candidates(question, held, place)) if (!keys.has(key.key)) keys.set(key.key, key)
  return [...keys.values()]
}

function candidates(question: Question, held: Held, place: Place): readonly Key[] {
  switch (question.form) {
    case 'ip':
      return selectNetworks(held, place).map((network) => toAddressKey(`${network}/${question.ip}`))
    case 'range':
      return selectNetworks(held, place).flatMap((network) =>
        [question.range, question.masked, ...toHost(question.range)].map((text) => toAddressKey(`${network}/${text}`)),
      )
    case 'key':
      return [toAddressKey(question.key)]
    case 'hostname':
      return byHostname(question.hostname, held, place)
    case 'name':
      return byName(question.namespace, question.name, held, place)
    case 'uid':
      return [{ key: question.uid, by: `uid ${question.uid}` }]
  }
}

function toAddressKey(key: string): Key {
  return { key, by: undefined }
}

/** The address of a range of one. */
function toHost(range: string): readonly string[] {
  const [ip = '', length] = range.split('/')
  return Number(length) === (parseIp(ip)?.length ?? 0) * 8 ? [ip] : []
}

function selectNetworks(held: Held, place: Place): readonly string[] {
  return [...new Set([place.network, '', ...held.networks()])].slice(0, mostNetworks)
}

// Names are kept by namespace. That of a service of the cluster is in its host name; others can only be found among what is held.
function byHostname(hostname: string, held: Held, { domain }: Place): readonly Key[] {
  const by = `host name ${hostname}`
  const known: Key[] = []
  for (const { decoded, name } of held.all()) {
    if (decoded.kind !== 'service') continue
    if (decoded.service.hostname === hostname) known.push({ key: name, by })
    else if (isUnder(hostname, decoded.service.hostname))
      known.push({ key: name, by: `wildcard host ${decoded.service.hostname}` })
  }
  const [name = '', namespace = '', svc, ...rest] = hostname.split('.')
  if (namespace === '' || name === '*') return known
  const whole = `${namespace}/${name}.${namespace}.svc.${domain}`
  if (svc === 'svc' && rest.join('.') === domain) return [{ key: whole, by }, ...known]
  const isShort = svc === undefined || (svc === 'svc' && rest.length === 0)
  return isShort ? [...known, { key: whole, by: `short name ${hostname}` }] : known
}

function isUnder(hostname: string, wildcard: string): boolean {
  return wildcard.startsWith('*.') && hostname.endsWith(wildcard.slice(1))
}

function byName(namespace: string, name: string, held: Held, { clusterId, domain }: Place): readonly Key[] {
  const by = `name ${namespace}/${name}`
  const keys: Key[] = [{ key: `${clusterId}//Pod/${namespace}/${name}`, by }]
  if (name.includes('.') || name.startsWith('*')) keys.push({ key: `${namespace}/${name}`, by })
  if (!name.includes('.')) keys.push({ key: `${namespace}/${name}.${namespace}.svc.${domain}`, by })
  for (const { decoded, name: key } of held.all()) {
    const named = decoded.kind === 'workload' ? decoded.workload : decoded.service
    if (named.namespace === namespace && named.name === name) keys.push({ key, by })
  }
  return keys
}

/** Workloads, then services by name or address, then services by range; each thing once. */
export function selectFound(keys: readonly Key[], held: Held): readonly Found[] {
  const found = new Map<string, Found>()
  for (const { key, by } of keys) {
    for (const one of held.matches(key)) {
      if (!found.has(one.name)) found.set(one.name, { held: one, by: by ?? formatAddress(one, key) })
    }
  }
  return [...found.values()].sort((a, b) => rank(a) - rank(b))
}

function formatAddress(held: HeldAddress, key: string): string {
  if (held.aliases.includes(key)) return `address ${key}`
  const range = findRange(held, key)
  return range === undefined
    ? `address ${key}`
    : `range ${range.network}/${formatIp(range.address)}/${range.length ?? 0}`
}

function rank({ held, by }: Found): number {
  if (held.decoded.kind === 'workload') return 0
  return by.startsWith('range ') ? 2 : 1
}
