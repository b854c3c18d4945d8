// SPDX-License-Identifier: Apache-2.0
// The older type Workload: the same resources with the bare workload inside, made when first asked for. Services lead to their members and are never written.

import { toWorkloadEntry } from '../wire/entry.js'
import { WORKLOAD_TYPE } from '../wire/messages.js'
import { isServiceName } from './names.js'
import type { Resource, ResourceChange, ResourceSource } from '../xds/source.js'

export class WorkloadSource implements ResourceSource {
  readonly typeUrl = WORKLOAD_TYPE
  readonly #addresses: ResourceSource
  /** Few clients ask for this type: what they got is kept as long as the resource lives. */
  readonly #made = new WeakMap<Resource, Resource>()

  constructor(addresses: ResourceSource) {
    this.#addresses = addresses
  }

  get size(): number {
    return this.#addresses.size
  }

  get(name: string): Resource | undefined {
    const found = this.#addresses.get(name)
    return found && this.#toWorkload(found)
  }

  *all(): Iterable<Resource> {
    for (const resource of this.#addresses.all()) yield this.#toWorkload(resource)
  }

  lookup(key: string): readonly Resource[] {
    return this.#addresses.lookup(key).map((resource) => this.#toWorkload(resource))
  }

  members(name: string): readonly Resource[] {
    return this.#addresses.members(name).map((resource) => this.#toWorkload(resource))
  }

  local(node: string): readonly Resource[] {
    return this.#addresses.local(node).map((resource) => this.#toWorkload(resource))
  }

  /** The same changes under this type. A service that differs only inside is no change here: nothing of it is written. */
  toChanges(changes: readonly ResourceChange[]): readonly ResourceChange[] {
    return changes.flatMap(({ name, before, after }) =>
      before !== undefined && after !== undefined && isSameService(before, after)
        ? []
        : [{ name, before: before && new WorkloadResource(before), after: after && new WorkloadResource(after) }],
    )
  }

  #toWorkload(resource: Resource): Resource {
    let made = this.#made.get(resource)
    if (made === undefined) this.#made.set(resource, (made = new WorkloadResource(resource)))
    return made
  }
}

const noNames: readonly string[] = Object.freeze([])

/** Says what the Address says, and encodes the bare workload when it is first written. */
class WorkloadResource implements Resource {
  private made: Uint8Array | undefined

  constructor(private readonly address: Resource) {}

  get name(): string {
    return this.address.name
  }
  get version(): string {
    return this.address.version
  }
  get aliases(): readonly string[] {
    return this.address.aliases
  }
  get parents(): readonly string[] {
    return this.address.parents
  }
  get node(): string {
    return this.address.node
  }
  get ranges(): Resource['ranges'] {
    return this.address.ranges
  }
  get bringsMembers(): boolean {
    return this.address.bringsMembers
  }
  get needs(): readonly string[] {
    return this.address.needs ?? noNames
  }
  get entry(): Uint8Array | undefined {
    if (this.made === undefined && this.address.entry !== undefined && !isServiceName(this.name))
      this.made = toWorkloadEntry(this.address.entry)
    return this.made
  }
}

function isSameService(before: Resource, after: Resource): boolean {
  return isServiceName(before.name) && isSameList(before.aliases, after.aliases)
}

function isSameList(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((item, place) => item === b[place])
}
