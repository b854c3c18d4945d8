// SPDX-License-Identifier: Apache-2.0
// From a question to the resources it means: every network, cluster and namespace that it leaves open is tried, each thing comes once.
// For answers to people. Proxies name their keys in full and never come this way.

import { formatIp, parseIp } from '../base/ip.js'
import { ADDRESS_TYPE, AUTHORIZATION_TYPE } from '../wire/messages.js'
import type { Question } from '../wire/question.js'
import type { AddressRange, Resource, ResourceSource, ResourceStore } from '../xds/source.js'
import { isServiceName, type Directory } from './directory.js'

export interface Found {
  readonly kind: 'workload' | 'service' | 'policy'
  readonly resource: Resource
  /** What of the question led here, in words. */
  readonly by: string
}

/** Workloads, then services by name or address, then services by range, then policies. Empty when nobody has it. */
export function selectFound(question: Question, store: ResourceStore, directory: Directory): readonly Found[] {
  const source = store.source(ADDRESS_TYPE)
  if (source === undefined) return []
  const found = new Map<string, Found>()
  for (const one of candidates(question, source, directory, store)) {
    const key = `${one.kind} ${one.resource.name}`
    if (!found.has(key)) found.set(key, one)
  }
  return [...found.values()].sort((a, b) => rank(a) - rank(b))
}

function rank(found: Found): number {
  if (found.kind === 'workload') return 0
  if (found.kind === 'policy') return 3
  return found.by.startsWith('range ') ? 2 : 1
}

function candidates(
  question: Question,
  source: ResourceSource,
  directory: Directory,
  store: ResourceStore,
): readonly Found[] {
  switch (question.form) {
    case 'ip':
      return directory.networks().flatMap((network) => byKey(`${network}/${question.ip}`, source))
    case 'range':
      return byRange(question.range, question.masked, source, directory)
    case 'key':
      return byKey(question.key, source)
    case 'hostname':
      return byHostname(question.hostname, source, directory)
    case 'name':
      return byName(question.namespace, question.name, { source, directory, store })
    case 'uid':
      return byNames([question.uid], source, `uid ${question.uid}`)
  }
}

/** What has this address itself. The members that a lookup brings along belong to their service and are left out. */
function byKey(key: string, source: ResourceSource): readonly Found[] {
  return source.lookup(key).flatMap((resource): Found[] => {
    const kind = isServiceName(resource.name) ? 'service' : 'workload'
    if (resource.aliases.includes(key)) return [{ kind, resource, by: `address ${key}` }]
    const range = resource.ranges.find((candidate) => contains(candidate, key))
    return range === undefined ? [] : [{ kind, resource, by: `range ${formatRange(range)}` }]
  })
}

function byRange(range: string, masked: string, source: ResourceSource, directory: Directory): readonly Found[] {
  const spellings = range === masked ? [range] : [range, masked]
  const found = directory
    .networks()
    .flatMap((network) => spellings.flatMap((spelling) => byKey(`${network}/${spelling}`, source)))
  if (found.length > 0) return found
  const [ip = '', length] = range.split('/')
  const isHost = Number(length) === (parseIp(ip)?.length ?? 0) * 8
  return isHost ? directory.networks().flatMap((network) => byKey(`${network}/${ip}`, source)) : []
}

// Exact names first; then what a resolver would try: a wildcard host above it; then the short forms that are understood inside a cluster.
function byHostname(hostname: string, source: ResourceSource, directory: Directory): readonly Found[] {
  const exact = byNames(directory.servicesByHostname(hostname), source, `host name ${hostname}`)
  if (exact.length > 0) return exact
  const labels = hostname.split('.')
  for (let i = 1; i < labels.length; i++) {
    const wildcard = `*.${labels.slice(i).join('.')}`
    const found = byNames(directory.servicesByHostname(wildcard), source, `wildcard host ${wildcard}`)
    if (found.length > 0) return found
  }
  const [name = '', namespace = '', svc, ...more] = labels
  if (namespace === '' || (svc !== undefined && svc !== 'svc') || more.length > 0) return []
  const inCluster = `/${name}.${namespace}.svc.`
  const names = directory.servicesByName(namespace, name).filter((candidate) => candidate.includes(inCluster))
  return byNames(names, source, `short name ${hostname}`)
}

interface Places {
  readonly source: ResourceSource
  readonly directory: Directory
  readonly store: ResourceStore
}

function byName(namespace: string, name: string, places: Places): readonly Found[] {
  const { source, directory, store } = places
  const whole = `${namespace}/${name}`
  const by = `name ${whole}`
  const policy = store.source(AUTHORIZATION_TYPE)?.get(whole)
  const found: Found[] = [
    ...byNames(directory.workloadNames(namespace, name), source, by),
    ...byNames([whole, ...directory.servicesByName(namespace, name)], source, by),
    ...(policy === undefined ? [] : [{ kind: 'policy' as const, resource: policy, by }]),
  ]
  return found.length > 0 ? found : byNames(directory.endpointsOf(namespace, name), source, by)
}

function byNames(names: readonly string[], source: ResourceSource, by: string): readonly Found[] {
  return names.flatMap((name): Found[] => {
    const resource = source.get(name)
    if (resource === undefined) return []
    return [{ kind: isServiceName(name) ? 'service' : 'workload', resource, by }]
  })
}

function formatRange(range: AddressRange): string {
  return `${range.network}/${formatIp(range.address)}/${range.length}`
}

function contains(range: AddressRange, key: string): boolean {
  const slash = key.indexOf('/')
  const ip = parseIp(key.slice(slash + 1))
  if (key.slice(0, slash) !== range.network || ip?.length !== range.address.length) return false
  for (let bit = 0; bit < range.length; bit++) {
    const mask = 0x80 >> (bit & 7)
    if (((ip[bit >> 3] ?? 0) & mask) !== ((range.address[bit >> 3] ?? 0) & mask)) return false
  }
  return true
}
