// SPDX-License-Identifier: Apache-2.0
// Who asked for which key: the inverted index by which a change costs what those who asked for it cost. For one type.
// Knows keys and nodes, never resources beyond what they are called.

import { formatIp, maskPrefix, parseIp } from '../base/ip.js'
import type { AddressRange, Resource } from './source.js'

/** Keys and nodes on one side, askers of any kind on the other. */
export class KeyIndex<Asker extends object> {
  /** Nearly every key has one asker: a Set is made for more. */
  readonly #byKey = new Map<string, Asker | Set<Asker>>()
  readonly #byNode = new Map<string, Set<Asker>>()
  /** Keys asked for that lie inside the ranges of a resource, by its name. */
  readonly #inside = new Map<string, Set<string>>()
  readonly #ranged = new Map<string, readonly AddressRange[]>()

  get isEmpty(): boolean {
    return this.#byKey.size === 0 && this.#byNode.size === 0
  }

  add(key: string, asker: Asker): void {
    const askers = this.#byKey.get(key)
    if (askers === undefined) {
      this.#byKey.set(key, asker)
      this.#place(key)
    } else if (askers instanceof Set) askers.add(asker)
    else if (askers !== asker) this.#byKey.set(key, new Set([askers, asker]))
  }

  delete(key: string, asker: Asker): void {
    const askers = this.#byKey.get(key)
    if (askers instanceof Set) {
      askers.delete(asker)
      if (askers.size > 0) return
    } else if (askers !== asker) return
    this.#byKey.delete(key)
    for (const keys of this.#inside.values()) keys.delete(key)
  }

  addNode(node: string, asker: Asker): void {
    const askers = this.#byNode.get(node)
    if (askers === undefined) this.#byNode.set(node, new Set([asker]))
    else askers.add(asker)
  }

  deleteNode(node: string, asker: Asker): void {
    const askers = this.#byNode.get(node)
    if (askers?.delete(asker) === true && askers.size === 0) this.#byNode.delete(node)
  }

  asking(key: string): Iterable<Asker> {
    const askers = this.#byKey.get(key)
    if (askers instanceof Set) return askers
    return askers === undefined ? [] : [askers]
  }

  onNode(node: string): Iterable<Asker> {
    return this.#byNode.get(node) ?? []
  }

  /** The resource answers for these ranges from now on (none: for no range). */
  setRanges(name: string, ranges: readonly AddressRange[]): void {
    if (ranges.length === 0) {
      this.#ranged.delete(name)
      this.#inside.delete(name)
      return
    }
    this.#ranged.set(name, ranges)
    const keys = new Set<string>()
    for (const key of this.#byKey.keys()) if (isInside(key, ranges)) keys.add(key)
    this.#inside.set(name, keys)
  }

  /** Names of the resources that answer for ranges. */
  get ranged(): ReadonlyMap<string, readonly AddressRange[]> {
    return this.#ranged
  }

  /** Keys asked for that lie inside the ranges of this resource. */
  inside(name: string): ReadonlySet<string> {
    return this.#inside.get(name) ?? nothing
  }

  #place(key: string): void {
    for (const [name, ranges] of this.#ranged) {
      if (isInside(key, ranges)) this.#inside.get(name)?.add(key)
    }
  }
}

const nothing: ReadonlySet<string> = new Set()

/** True when the key is `network/ip`, letter by letter, and the address lies in one of the ranges. */
function isInside(key: string, ranges: readonly AddressRange[]): boolean {
  const slash = key.indexOf('/')
  if (slash < 0) return false
  const text = key.slice(slash + 1)
  const address = parseIp(text)
  if (address === undefined || formatIp(address) !== text) return false
  const network = key.slice(0, slash)
  return ranges.some((range) => {
    if (range.network !== network || range.address.length !== address.length) return false
    const masked = maskPrefix({ address, length: range.length })
    return masked.every((byte, i) => byte === range.address[i])
  })
}

/** Every key under which a resource is found by itself. */
export function keysOf(resource: Resource, index: KeyIndex<object>): string[] {
  return [resource.name, ...resource.aliases, ...index.inside(resource.name)]
}
