// SPDX-License-Identifier: Apache-2.0
// What the control plane said last, by name and by every key it is found under. For the address book; asks nobody and forgets nothing by itself.

import { maskPrefix, parseIp } from '../../base/ip.js'
import type { DecodedAddress } from '../../wire/address-decoder.js'
import type { ServiceMessage, WorkloadMessage } from '../../wire/messages.js'

export interface HeldAddress {
  /** A workload's uid or a service's `namespace/hostname`. */
  readonly name: string
  readonly version: string
  /** `network/ip`, `network/ip/length`. */
  readonly aliases: readonly string[]
  readonly decoded: DecodedAddress
}

export interface HeldWorkload extends HeldAddress {
  readonly decoded: { readonly kind: 'workload'; readonly workload: WorkloadMessage }
}

export class Held {
  readonly #nodeName: string
  readonly #byName = new Map<string, HeldAddress>()
  readonly #byAlias = new Map<string, Set<string>>()
  /** Service to its workloads. */
  readonly #members = new Map<string, Set<string>>()
  readonly #ranged = new Set<string>()
  readonly #networks = new Map<string, number>()
  #own = 0

  /** `nodeName`: whose workloads are this node's own. */
  constructor(nodeName: string) {
    this.#nodeName = nodeName
  }

  get size(): number {
    return this.#byName.size
  }

  /** Workloads of this node. */
  get ownSize(): number {
    return this.#own
  }

  all(): Iterable<HeldAddress> {
    return this.#byName.values()
  }

  get(name: string): HeldAddress | undefined {
    return this.#byName.get(name)
  }

  isOwn(held: HeldAddress): boolean {
    return this.#nodeName !== '' && held.decoded.kind === 'workload' && held.decoded.workload.node === this.#nodeName
  }

  /** Networks that anything here is in. */
  networks(): Iterable<string> {
    return this.#networks.keys()
  }

  /** Takes it in place of what had its name; gives that. */
  put(held: HeldAddress): HeldAddress | undefined {
    const before = this.remove(held.name)
    this.#byName.set(held.name, held)
    for (const alias of held.aliases) add(this.#byAlias, alias, held.name)
    if (this.isOwn(held)) this.#own++
    const { decoded } = held
    if (decoded.kind === 'workload') {
      for (const service of decoded.workload.services.keys()) add(this.#members, service, held.name)
    } else if (decoded.service.addresses.some(({ length }) => length !== undefined)) this.#ranged.add(held.name)
    for (const network of networksOf(held)) this.#networks.set(network, (this.#networks.get(network) ?? 0) + 1)
    return before
  }

  /** Forgets it; gives what it was. */
  remove(name: string): HeldAddress | undefined {
    const held = this.#byName.get(name)
    if (held === undefined) return undefined
    this.#byName.delete(name)
    for (const alias of held.aliases) drop(this.#byAlias, alias, name)
    if (this.isOwn(held)) this.#own--
    if (held.decoded.kind === 'workload') {
      for (const service of held.decoded.workload.services.keys()) drop(this.#members, service, name)
    }
    this.#ranged.delete(name)
    for (const network of networksOf(held)) {
      const left = (this.#networks.get(network) ?? 0) - 1
      if (left > 0) this.#networks.set(network, left)
      else this.#networks.delete(network)
    }
    return held
  }

  /** What bears this key: as its name, as an alias, or as an address inside a range of its own. */
  matches(key: string): readonly HeldAddress[] {
    const named = this.#byName.get(key)
    if (named !== undefined) return [named]
    const found = this.#select(this.#byAlias.get(key))
    if (found.length > 0 || this.#ranged.size === 0) return found
    return this.#select(this.#ranged).filter((held) => isInRange(held, key))
  }

  /** Workloads of a service, as far as they are known. */
  members(service: string): readonly HeldWorkload[] {
    return this.#select(this.#members.get(service)) as readonly HeldWorkload[]
  }

  #select(names: ReadonlySet<string> | undefined): HeldAddress[] {
    const found: HeldAddress[] = []
    for (const name of names ?? []) {
      const held = this.#byName.get(name)
      if (held !== undefined) found.push(held)
    }
    return found
  }
}

/** True when `key` (`network/ip`) lies in a range of the service. */
export function isInRange(held: HeldAddress, key: string): boolean {
  return findRange(held, key) !== undefined
}

/** The widest text of it: `network/ip/length` of the range of the service that `key` (`network/ip`) lies in. */
export function findRange(held: HeldAddress, key: string): ServiceMessage['addresses'][number] | undefined {
  if (held.decoded.kind !== 'service') return undefined
  const slash = key.indexOf('/')
  const address = parseIp(key.slice(slash + 1))
  if (slash < 0 || address === undefined) return undefined
  return held.decoded.service.addresses.find(
    (range) =>
      range.length !== undefined &&
      range.network === key.slice(0, slash) &&
      range.address.length === address.length &&
      Buffer.compare(
        maskPrefix({ address, length: range.length }),
        maskPrefix({ address: range.address, length: range.length }),
      ) === 0,
  )
}

function networksOf(held: HeldAddress): ReadonlySet<string> {
  if (held.decoded.kind === 'workload') return new Set([held.decoded.workload.network])
  return new Set(held.decoded.service.addresses.map(({ network }) => network))
}

function add(index: Map<string, Set<string>>, key: string, name: string): void {
  const names = index.get(key)
  if (names === undefined) index.set(key, new Set([name]))
  else names.add(name)
}

function drop(index: Map<string, Set<string>>, key: string, name: string): void {
  const names = index.get(key)
  if (names?.delete(name) === true && names.size === 0) index.delete(key)
}
