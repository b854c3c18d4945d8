// SPDX-License-Identifier: Apache-2.0
// What xds needs of whoever owns resources. address implements it; xds itself knows neither Kubernetes nor Workload.

/** A range of addresses that a resource answers for, beyond its aliases. */
export interface AddressRange {
  readonly network: string
  /** 4 or 16 bytes, masked. */
  readonly address: Uint8Array
  /** Prefix length in bits. */
  readonly length: number
}

/** One immutable published resource. */
export interface Resource {
  /** Primary name: a workload's uid or a service's `namespace/hostname`. */
  readonly name: string
  /** Hash of the content, lower-case hex; equal across replicas and restarts. Empty for types that have no versions. */
  readonly version: string
  /** Other keys it is found by, letter by letter (`network/ip`, `network/ip/length`). Only explicit subscribers are told. */
  readonly aliases: readonly string[]
  /**
   * The encoded envoy `Resource` (version, Any, name) without aliases, made once. Undefined: the resource is known under this type and leads to its
   * members, but is never written (a service under the type Workload).
   */
  readonly entry: Uint8Array | undefined
  /** Names of the resources that bring this one along when they are asked for (a workload's services). */
  readonly parents: readonly string[]
  /** The node this resource lives on; empty when none. */
  readonly node: string
  /** Non-empty for a resource that is sent once more, alone, after any response that sent or removed a member of it. */
  readonly ranges: readonly AddressRange[]
  /** True: whenever this resource is sent because it changed, its members must go along although they did not. */
  readonly bringsMembers: boolean
  /** Names of policies that a client must hold before it acts on this resource, or it is open to everybody for a moment. Absent: none. */
  readonly needs?: readonly string[]
}

/** A resource differs between two commits; never both absent, never of equal bytes and aliases. */
export interface ResourceChange {
  readonly name: string
  readonly before: Resource | undefined
  readonly after: Resource | undefined
}

/** All resources of one type, as of the last commit. Synchronous. */
export interface ResourceSource {
  readonly typeUrl: string
  readonly size: number
  get(name: string): Resource | undefined
  all(): Iterable<Resource>
  /**
   * What a key finds: a primary name, an alias, an address inside a range. Workloads before services, a service together with its members.
   * Empty when nobody has it. The key must match letter by letter.
   */
  lookup(key: string): readonly Resource[]
  /** The resources that name this one among their parents. */
  members(name: string): readonly Resource[]
  /** The resources that live on this node. */
  local(node: string): readonly Resource[]
}

/** Every type that is served, and the moment when they change together. */
export interface ResourceStore {
  source(typeUrl: string): ResourceSource | undefined
  /** Called once per commit that changed anything, with the changes by type URL, after all sources show the new state. */
  onCommit(listener: (changes: ReadonlyMap<string, readonly ResourceChange[]>) => void): void
}
