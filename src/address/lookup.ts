// SPDX-License-Identifier: Apache-2.0
// Who answers for an address: all published resources, and how a key finds them. The only resolver: xds and people ask it the same way.

import { formatIp, maskPrefix, parseIp } from '../base/ip.js'
import type { Collection, Index } from '../collection/types.js'
import { ADDRESS_TYPE } from '../wire/messages.js'
import type { AddressRange, Resource, ResourceSource } from '../xds/source.js'
import { toPodRowKey } from './pods.js'

/** The tables that resources lie in. */
export interface ResourceTables {
  /** Filed under the keys of their pods. */
  readonly pods: Collection<Resource>
  /** Every other kind of workload, in the order in which a look-up shows them. */
  readonly workloads: readonly Collection<Resource>[]
  readonly services: Collection<Resource>
  /** When the object behind a service was made, seconds since the epoch. */
  createdOf(service: string): number
}

/** One table with the ways into it. */
interface Part {
  readonly rows: Collection<Resource>
  readonly byAlias: Index<Resource>
  readonly byParent: Index<Resource>
  readonly byNode: Index<Resource>
  toKey(name: string): string | undefined
}

export class AddressSource implements ResourceSource {
  readonly typeUrl = ADDRESS_TYPE
  readonly #parts: readonly Part[]
  readonly #services: Collection<Resource>
  readonly #servicesByAlias: Index<Resource>
  readonly #servicesByRange: Index<Resource>
  readonly #createdOf: (service: string) => number

  constructor(tables: ResourceTables) {
    const itself = (name: string): string => name
    this.#parts = [toPart(tables.pods, toPodRowKey), ...tables.workloads.map((rows) => toPart(rows, itself))]
    this.#services = tables.services
    this.#createdOf = (service) => tables.createdOf(service)
    this.#servicesByAlias = tables.services.index('alias', (service) => service.aliases)
    this.#servicesByRange = tables.services.index('range', ({ ranges }) =>
      ranges.length === 0 ? none : [...new Set(ranges.map((range) => range.network))],
    )
  }

  get size(): number {
    return this.#parts.reduce((sum, part) => sum + part.rows.size, this.#services.size)
  }

  get(name: string): Resource | undefined {
    return this.#workload(name) ?? this.#services.get(name)
  }

  *all(): Iterable<Resource> {
    for (const part of this.#parts) yield* part.rows.values()
    yield* this.#services.values()
  }

  lookup(key: string): readonly Resource[] {
    const workload = this.#workload(key)
    if (workload !== undefined) return [workload]
    const slash = key.indexOf('/')
    if (slash < 0) return []
    const workloads = this.#gather('byAlias', key)
    if (workloads.length > 0) return workloads
    const service = this.#services.get(key)
    if (service !== undefined) return [service, ...this.members(key)]
    const found = this.#servicesAt(key, slash)
    if (found.length === 0) return []
    return [...new Set([...found, ...found.flatMap(({ name }) => this.members(name))])]
  }

  members(name: string): readonly Resource[] {
    return this.#gather('byParent', name)
  }

  local(node: string): readonly Resource[] {
    return node === '' ? [] : this.#gather('byNode', node)
  }

  /** What one index of every part has under this term; as a rule only one part has anything. */
  #gather(by: 'byAlias' | 'byParent' | 'byNode', term: string): readonly Resource[] {
    let all: readonly Resource[] = nobody
    for (const part of this.#parts) {
      const found = part[by].lookup(term)
      if (found.length > 0) all = all.length === 0 ? found : [...all, ...found]
    }
    return all
  }

  #workload(name: string): Resource | undefined {
    for (const part of this.#parts) {
      const key = part.toKey(name)
      const found = key === undefined ? undefined : part.rows.get(key)
      if (found !== undefined) return found
    }
    return undefined
  }

  /**
   * A proxy can keep one service of a namespace under an address. Of several it is told the oldest, always the same one, and of equally old ones all;
   * services of other namespaces stand beside it, for which of them counts depends on who asks.
   */
  #selectOldest(services: readonly Resource[]): readonly Resource[] {
    if (services.length < 2) return services
    const oldest = new Map<string, number>()
    for (const { name } of services) {
      const namespace = toNamespace(name)
      oldest.set(namespace, Math.min(oldest.get(namespace) ?? Infinity, this.#createdOf(name)))
    }
    return services.filter(({ name }) => this.#createdOf(name) === oldest.get(toNamespace(name)))
  }

  /** Every service that carries the key as an alias or has the address in a range, by name. */
  #servicesAt(key: string, slash: number): readonly Resource[] {
    const found = new Set(this.#selectOldest(this.#servicesByAlias.lookup(key)))
    const inNetwork = this.#servicesByRange.lookup(key.slice(0, slash))
    const ip = inNetwork.length === 0 ? undefined : parseCanonicalIp(key.slice(slash + 1))
    if (ip !== undefined)
      for (const service of inNetwork)
        if (service.ranges.some((range) => range.network === key.slice(0, slash) && isInRange(ip, range)))
          found.add(service)
    return [...found].sort((a, b) => (a.name < b.name ? -1 : 1))
  }
}

const none: readonly string[] = Object.freeze([])
const nobody: readonly Resource[] = Object.freeze([])

function toPart(rows: Collection<Resource>, toKey: Part['toKey']): Part {
  return {
    rows,
    toKey,
    byAlias: rows.index('alias', (resource) => resource.aliases),
    byParent: rows.index('parent', (resource) => resource.parents),
    byNode: rows.index('node', ({ node }) => (node === '' ? none : [node])),
  }
}

function toNamespace(serviceName: string): string {
  return serviceName.slice(0, serviceName.indexOf('/'))
}

/** Keys match letter by letter: an address that is spelt otherwise is none. */
function parseCanonicalIp(text: string): Uint8Array | undefined {
  const ip = parseIp(text)
  return ip !== undefined && formatIp(ip) === text ? ip : undefined
}

/** Is the address one of the range? Families never mix. */
export function isInRange(ip: Uint8Array, range: AddressRange): boolean {
  return (
    ip.length === range.address.length &&
    Buffer.compare(maskPrefix({ address: ip, length: range.length }), range.address) === 0
  )
}
