// SPDX-License-Identifier: Apache-2.0
// A store of made-up resources, small enough to be right by looking at it: every question is answered by walking over everything.

import { formatIp, maskPrefix, parseIp, parsePrefix } from '../../src/base/ip.js'
import { encodeEntry } from '../../src/wire/entry.js'
import { versionOf } from '../../src/wire/version.js'
import { ADDRESS_TYPE } from '../../src/wire/messages.js'
import type { Resource, ResourceChange, ResourceSource, ResourceStore } from '../../src/xds/source.js'

/** What a toy is made of; the rest is empty. */
export interface Toy {
  readonly name: string
  /** Differs = the bytes differ. */
  readonly content?: string
  readonly aliases?: readonly string[]
  readonly parents?: readonly string[]
  readonly node?: string
  /** Prefixes like `10.0.0.0/8`, of the network "". */
  readonly ranges?: readonly string[]
  readonly bringsMembers?: boolean
  /** Names of policies. */
  readonly needs?: readonly string[]
  /** False: known, but never written. */
  readonly written?: boolean
  /** Left out: a hash of sorts. Empty: the type has no versions. */
  readonly version?: string
}

export function toResource(toy: Toy, typeUrl: string): Resource {
  const content = toy.content ?? ''
  const body = Buffer.from(
    JSON.stringify([
      toy.name,
      content,
      toy.aliases ?? [],
      toy.parents ?? [],
      toy.node ?? '',
      toy.ranges ?? [],
      ...(toy.needs ?? []),
    ]),
  )
  const version = toy.version ?? versionOf(body)
  const entry = toy.written === false ? undefined : encodeEntry({ name: toy.name, version, typeUrl, body })
  const ranges = (toy.ranges ?? []).map((text) => {
    const prefix = parsePrefix(text)!
    return { network: '', address: maskPrefix(prefix), length: prefix.length }
  })
  return {
    name: toy.name,
    version,
    aliases: [...(toy.aliases ?? []), ...(toy.ranges ?? []).map((range) => `/${range}`)],
    entry,
    parents: toy.parents ?? [],
    node: toy.node ?? '',
    ranges,
    bringsMembers: toy.bringsMembers === true,
    ...(toy.needs && { needs: toy.needs }),
  }
}

class ToySource implements ResourceSource {
  resources = new Map<string, Resource>()

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
    const found = new Set<Resource>()
    for (const resource of this.resources.values()) {
      if (resource.name !== key && !resource.aliases.includes(key) && !isInside(resource, key)) continue
      found.add(resource)
      for (const member of this.members(resource.name)) found.add(member)
    }
    return [...found]
  }

  members(name: string): readonly Resource[] {
    return [...this.resources.values()].filter((resource) => resource.parents.includes(name))
  }

  local(node: string): readonly Resource[] {
    return [...this.resources.values()].filter((resource) => resource.node === node)
  }
}

function isInside(resource: Resource, key: string): boolean {
  const address = key.startsWith('/') ? parseIp(key.slice(1)) : undefined
  if (address === undefined || formatIp(address) !== key.slice(1)) return false
  return resource.ranges.some(
    ({ address: base, length }) => Buffer.compare(maskPrefix({ address, length }), Buffer.from(base)) === 0,
  )
}

export class ToyStore implements ResourceStore {
  readonly #sources = new Map<string, ToySource>()
  readonly #listeners: ((changes: ReadonlyMap<string, readonly ResourceChange[]>) => void)[] = []

  constructor(typeUrls: readonly string[] = [ADDRESS_TYPE]) {
    for (const typeUrl of typeUrls) this.#sources.set(typeUrl, new ToySource(typeUrl))
  }

  source(typeUrl: string): ToySource | undefined {
    return this.#sources.get(typeUrl)
  }

  onCommit(listener: (changes: ReadonlyMap<string, readonly ResourceChange[]>) => void): void {
    this.#listeners.push(listener)
  }

  /** One commit: these are made or changed, those go. Gives the names that differ. */
  commit(toys: readonly Toy[], gone: readonly string[] = [], typeUrl = ADDRESS_TYPE): string[] {
    return this.commitAll(new Map([[typeUrl, { toys, gone }]]))
  }

  /** One commit over several types. */
  commitAll(
    parts: ReadonlyMap<string, { readonly toys?: readonly Toy[]; readonly gone?: readonly string[] }>,
  ): string[] {
    const told = new Map<string, ResourceChange[]>()
    for (const [typeUrl, { toys = [], gone = [] }] of parts) {
      const source = this.#sources.get(typeUrl)!
      const before = new Map(source.resources)
      for (const name of gone) source.resources.delete(name)
      for (const toy of toys) source.resources.set(toy.name, toResource(toy, typeUrl))
      const changes: ResourceChange[] = []
      for (const name of new Set([...gone, ...toys.map((toy) => toy.name)])) {
        const was = before.get(name)
        const is = source.resources.get(name)
        if (isSame(was, is)) {
          if (was !== undefined) source.resources.set(name, was)
        } else changes.push({ name, before: was, after: is })
      }
      if (changes.length > 0) told.set(typeUrl, changes)
    }
    if (told.size > 0) for (const listener of this.#listeners) listener(told)
    return [...told.values()].flat().map((change) => change.name)
  }
}

function isSame(a: Resource | undefined, b: Resource | undefined): boolean {
  if (a === undefined || b === undefined) return a === b
  return Buffer.compare(a.entry ?? nothing, b.entry ?? nothing) === 0 && plain(a) === plain(b)
}

const nothing = Buffer.alloc(0)

function plain({ aliases, parents, node, ranges, bringsMembers }: Resource): string {
  return JSON.stringify([aliases, parents, node, ranges, bringsMembers])
}
