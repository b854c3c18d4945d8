// SPDX-License-Identifier: Apache-2.0
// A store of addresses for tests of those who read one: put messages in, commit, and what the contract promises holds. Slow and obvious on purpose.

import { formatIp, maskPrefix, parseIp, parsePrefix } from '../../src/base/ip.js'
import { encodeEntry, encodeServiceEntry, encodeWorkloadEntry } from '../../src/wire/entry.js'
import { ADDRESS_TYPE, AUTHORIZATION_TYPE, type ServiceMessage, type WorkloadMessage } from '../../src/wire/messages.js'
import type { Resource, ResourceChange, ResourceSource, ResourceStore } from '../../src/xds/source.js'

type CommitListener = Parameters<ResourceStore['onCommit']>[0]

/** A workload of which only what matters is written down. */
export function makeWorkload(part: Partial<WorkloadMessage> & { readonly name: string }): WorkloadMessage {
  const namespace = part.namespace ?? 'shop'
  return {
    uid: `Kubernetes//Pod/${namespace}/${part.name}`,
    namespace,
    addresses: [],
    hostname: '',
    network: '',
    tunnelProtocol: 0,
    trustDomain: '',
    serviceAccount: 'default',
    waypoint: undefined,
    networkGateway: undefined,
    node: 'node-1',
    canonicalName: '',
    canonicalRevision: '',
    workloadType: 2,
    workloadName: '',
    nativeTunnel: false,
    applicationTunnel: undefined,
    services: new Map(),
    authorizationPolicies: [],
    status: 0,
    clusterId: 'Kubernetes',
    locality: undefined,
    networkMode: 0,
    capacity: undefined,
    ...part,
  }
}

/** A service `<name>.<namespace>.svc.cluster.local`. */
export function makeService(part: Partial<ServiceMessage> & { readonly name: string }): ServiceMessage {
  const namespace = part.namespace ?? 'shop'
  return {
    namespace,
    hostname: `${part.name}.${namespace}.svc.cluster.local`,
    addresses: [],
    ports: [],
    subjectAltNames: [],
    waypoint: undefined,
    loadBalancing: undefined,
    ipFamilies: 0,
    canonical: true,
    ingressUseWaypoint: false,
    weightedWaypoints: [],
    visibility: 0,
    ...part,
  }
}

/** The bytes of an address that is written right. */
export function ip(text: string): Uint8Array {
  const bytes = parseIp(text)
  if (bytes === undefined) throw new Error(`${text} is no IP address`)
  return bytes
}

function toWorkloadResource(workload: WorkloadMessage): Resource {
  return {
    ...encodeWorkloadEntry(workload),
    aliases: workload.addresses.map((address) => `${workload.network}/${formatIp(address)}`),
    parents: [...workload.services.keys()],
    node: workload.node,
    ranges: [],
    bringsMembers: false,
  }
}

function toServiceResource(service: ServiceMessage): Resource {
  return {
    ...encodeServiceEntry(service),
    aliases: service.addresses.map(({ network, address, length }) =>
      [network, formatIp(address), ...(length === undefined ? [] : [length])].join('/'),
    ),
    parents: [],
    node: '',
    ranges: service.addresses.flatMap(({ network, address, length }) =>
      length === undefined ? [] : [{ network, address, length }],
    ),
    bringsMembers: false,
  }
}

class ToySource implements ResourceSource {
  readonly resources = new Map<string, Resource>()

  constructor(readonly typeUrl: string) {}

  get size(): number {
    return this.resources.size
  }

  get(name: string): Resource | undefined {
    return this.resources.get(name)
  }

  all(): Iterable<Resource> {
    return this.resources.values()
  }

  lookup(key: string): readonly Resource[] {
    const exact = this.resources.get(key)
    const found = exact === undefined ? this.#select((r) => r.aliases.includes(key)) : [exact]
    const workloads = found.filter((r) => r.name.split('/').length > 2)
    if (workloads.length > 0) return workloads
    const services = found.length > 0 ? found : this.#select((r) => r.ranges.some((range) => isInside(range, key)))
    return [...services, ...services.flatMap((service) => this.members(service.name))]
  }

  members(name: string): readonly Resource[] {
    return this.#select((r) => r.parents.includes(name))
  }

  local(node: string): readonly Resource[] {
    return this.#select((r) => r.node === node)
  }

  #select(fits: (resource: Resource) => boolean): Resource[] {
    return [...this.resources.values()].filter(fits)
  }
}

function isInside(range: Resource['ranges'][number], key: string): boolean {
  const slash = key.indexOf('/')
  const prefix = parsePrefix(`${key.slice(slash + 1)}/${range.length}`)
  return (
    key.slice(0, slash) === range.network &&
    prefix?.address.length === range.address.length &&
    Buffer.compare(maskPrefix(prefix), range.address) === 0
  )
}

export class ToyStore implements ResourceStore {
  readonly addresses = new ToySource(ADDRESS_TYPE)
  readonly policies = new ToySource(AUTHORIZATION_TYPE)
  readonly #listeners: CommitListener[] = []

  source(typeUrl: string): ResourceSource | undefined {
    return [this.addresses, this.policies].find((source) => source.typeUrl === typeUrl)
  }

  onCommit(listener: CommitListener): void {
    this.#listeners.push(listener)
  }

  /** Adds or replaces these, in one commit. */
  put(...messages: readonly (WorkloadMessage | ServiceMessage)[]): void {
    const after = messages.map((m) => ('uid' in m ? toWorkloadResource(m) : toServiceResource(m)))
    this.#commit(this.addresses, new Map(after.map((resource) => [resource.name, resource])))
  }

  /** Removes these names, in one commit. */
  remove(...names: readonly string[]): void {
    this.#commit(this.addresses, new Map(names.map((name) => [name, undefined])))
  }

  /** Adds or replaces a policy. `body` is an encoded Authorization. */
  putPolicy(name: string, body: Uint8Array): void {
    const entry = encodeEntry({ name, version: '', typeUrl: AUTHORIZATION_TYPE, body })
    const rest = { aliases: [], parents: [], node: '', ranges: [], bringsMembers: false }
    this.#commit(this.policies, new Map([[name, { name, version: '', entry, ...rest }]]))
  }

  #commit(source: ToySource, next: ReadonlyMap<string, Resource | undefined>): void {
    const changes: ResourceChange[] = []
    for (const [name, after] of next) {
      const before = source.resources.get(name)
      if (before?.version === after?.version && source.typeUrl === ADDRESS_TYPE) continue
      changes.push({ name, before, after })
      if (after === undefined) source.resources.delete(name)
      else source.resources.set(name, after)
    }
    if (changes.length === 0) return
    for (const listener of this.#listeners) listener(new Map([[source.typeUrl, changes]]))
  }
}
