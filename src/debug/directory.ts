// SPDX-License-Identifier: Apache-2.0
// What the names and keys of all resources are made of, kept up with every commit: so that a question that names no network,
// no cluster or no namespace is a few lookups and never a walk through the mesh. For the answers to people; proxies never need it.

import type { Resource, ResourceChange, ResourceSource } from '../xds/source.js'

/** Reads the short name and the namespace of a service from its resource; undefined when it is none. */
export type NameReader = (resource: Resource) => { readonly namespace: string; readonly name: string } | undefined

/** Follows one source of addresses. Feed it every change; it never looks at the source again after it was made. */
export class Directory {
  readonly #readName: NameReader
  /** How many keys lie in each network. */
  readonly #networks = new Map<string, number>()
  /** How many resources have a name of the shape `<prefix><namespace>/<name>`, by prefix: one a cluster and kind. */
  readonly #prefixes = new Map<string, number>()
  readonly #byHostname = new Map<string, Set<string>>()
  readonly #byServiceName = new Map<string, Set<string>>()
  /** `namespace/name` of the object behind resources that are one of several of it (endpoints of a slice or a service entry). */
  readonly #byObject = new Map<string, Set<string>>()

  constructor(source: ResourceSource | undefined, readName: NameReader) {
    this.#readName = readName
    for (const resource of source?.all() ?? []) this.#count(resource, 1)
  }

  /** Takes in one commit's changes of the source. */
  apply(changes: readonly ResourceChange[]): void {
    for (const change of changes) {
      if (change.before !== undefined) this.#count(change.before, -1)
      if (change.after !== undefined) this.#count(change.after, 1)
    }
  }

  /** Every network in which something has an address, by name. */
  networks(): readonly string[] {
    return [...this.#networks.keys()].sort()
  }

  /** Names of the services with this host name, letter by letter, of every namespace. */
  servicesByHostname(hostname: string): readonly string[] {
    return [...(this.#byHostname.get(hostname) ?? [])].sort()
  }

  /** Names of the services that are called so, whatever host names they have. */
  servicesByName(namespace: string, name: string): readonly string[] {
    return [...(this.#byServiceName.get(`${namespace}/${name}`) ?? [])].sort()
  }

  /** Names that a pod or workload entry called so may have, one a cluster; not all of them need to exist. */
  workloadNames(namespace: string, name: string): readonly string[] {
    return [...this.#prefixes.keys()].sort().map((prefix) => `${prefix}${namespace}/${name}`)
  }

  /** Names of the endpoints that an endpoint slice or service entry called so brings in. */
  endpointsOf(namespace: string, name: string): readonly string[] {
    return [...(this.#byObject.get(`${namespace}/${name}`) ?? [])].sort()
  }

  #count(resource: Resource, by: 1 | -1): void {
    for (const alias of resource.aliases) add(this.#networks, alias.slice(0, alias.indexOf('/')), by)
    for (const range of resource.ranges) add(this.#networks, range.network, by)
    const parts = resource.name.split('/')
    if (parts.length === 2) this.#countService(resource, parts[1] ?? '', by)
    else this.#countWorkload(resource.name, parts, by)
  }

  #countService(resource: Resource, hostname: string, by: 1 | -1): void {
    put(this.#byHostname, hostname, resource.name, by)
    const named = this.#readName(resource)
    if (named !== undefined) put(this.#byServiceName, `${named.namespace}/${named.name}`, resource.name, by)
  }

  // A uid is `cluster/group/kind/namespace/name`, with an address behind it when one object has several endpoints.
  #countWorkload(name: string, parts: readonly string[], by: 1 | -1): void {
    const [cluster, group, kind, namespace, object] = parts
    if (object === undefined) return
    if (kind === 'EndpointSlice' || kind === 'ServiceEntry') put(this.#byObject, `${namespace}/${object}`, name, by)
    else if (parts.length === 5) add(this.#prefixes, `${cluster}/${group}/${kind}/`, by)
  }
}

/** True for the name of a service, `namespace/hostname`; a workload's uid has more parts. */
export function isServiceName(name: string): boolean {
  const slash = name.indexOf('/')
  return slash >= 0 && !name.includes('/', slash + 1)
}

function add(counts: Map<string, number>, key: string, by: 1 | -1): void {
  const count = (counts.get(key) ?? 0) + by
  if (count > 0) counts.set(key, count)
  else counts.delete(key)
}

function put(sets: Map<string, Set<string>>, key: string, name: string, by: 1 | -1): void {
  const names = sets.get(key)
  if (by > 0) {
    if (names === undefined) sets.set(key, new Set([name]))
    else names.add(name)
  } else if (names?.delete(name) === true && names.size === 0) sets.delete(key)
}
