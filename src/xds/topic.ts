// SPDX-License-Identifier: Apache-2.0
// One type as it is served: its source, what changed when, and who must hear of it. Commits go in; subscribers are told which names to look at.
// Pure and synchronous: never encodes, never writes.

import { ADDRESS_TYPE, AUTHORIZATION_TYPE, WORKLOAD_TYPE } from '../wire/messages.js'
import { KeyIndex, keysOf } from './key-index.js'
import { RevisionLog } from './revision-log.js'
import type { Encoder } from './reply.js'
import type { Resource, ResourceChange, ResourceSource } from './source.js'

/** What a topic knows of a stream's interest. */
export interface Subscriber {
  /** The revision that the stream has seen last; only wildcards are asked. */
  readonly seenRevision: number
  /** A resource that concerns this explicit subscriber changed, or must be sent along with one that did. */
  concern(name: string): void
  /** Members of this ranged resource were sent or removed, perhaps to this subscriber. */
  concernRange(name: string): void
  readonly owner: Pusher
}

/** Whoever writes for a subscriber. */
export interface Pusher {
  /** Writes what is due. False when some of it must wait. */
  push(): boolean
}

/** Types in the order in which one push visits them. */
const visited = [AUTHORIZATION_TYPE, ADDRESS_TYPE, WORKLOAD_TYPE]

export class Topic {
  readonly typeUrl: string
  /** Lower goes first in a push. */
  readonly rank: number
  /** Undefined: a type that nobody makes. Its first request is answered with nothing, the others not at all. */
  readonly source: ResourceSource | undefined
  /** True: new and changed resources go before all other types, removals after them. */
  readonly splits: boolean
  readonly log = new RevisionLog()
  /** Ranged resources by the revision at which members of theirs were sent or removed. */
  readonly ranges = new RevisionLog()
  readonly keys = new KeyIndex<Subscriber>()
  readonly frames: Encoder
  readonly wildcards = new Set<Subscriber>()
  #revision = 0
  #rangesKnown = false

  constructor(typeUrl: string, source: ResourceSource | undefined, frames: (topic: Topic) => Encoder) {
    this.typeUrl = typeUrl
    this.source = source
    this.splits = typeUrl === AUTHORIZATION_TYPE
    const place = visited.indexOf(typeUrl)
    this.rank = place < 0 ? visited.length : place
    this.frames = frames(this)
  }

  /** Counts commits that changed this type. */
  get revision(): number {
    return this.#revision
  }

  /** Takes one commit in: afterwards every subscriber it concerns knows what to look at. Gives those for whom something may be due. */
  commit(changes: readonly ResourceChange[]): Set<Subscriber> {
    this.#revision++
    const concerned = new Set<Subscriber>()
    this.#learnRanges(changes)
    const watched = this.wildcards.size > 0
    if (!watched && this.keys.isEmpty) return concerned
    const told = this.#withMembers(changes)
    if (watched) {
      this.#recordForWildcards(told)
      for (const subscriber of this.wildcards) concerned.add(subscriber)
    }
    if (!this.keys.isEmpty) this.#concernAskers(told, concerned)
    return concerned
  }

  /** Drops what every wildcard has seen. */
  trim(): void {
    if (this.log.size === 0 && this.ranges.size === 0) return
    let seen = this.#revision
    for (const subscriber of this.wildcards) seen = Math.min(seen, subscriber.seenRevision)
    this.log.forget(seen)
    this.ranges.forget(seen)
    if (this.log.size === 0) this.frames.forget()
  }

  get(name: string): Resource | undefined {
    return this.source?.get(name)
  }

  /** Ranged resources among these names that still exist and are written. */
  existingRanges(names: Iterable<string>): Resource[] {
    const found: Resource[] = []
    for (const name of names) {
      const resource = this.get(name)
      if (resource?.entry !== undefined && resource.ranges.length > 0) found.push(resource)
    }
    return found
  }

  /** Names of all ranged resources, as of the last commit. */
  rangedNames(): Iterable<string> {
    this.#learnRanges([])
    return this.keys.ranged.keys()
  }

  /** Before the first question about ranges, or with each commit after it: which resources have any. */
  #learnRanges(changes: readonly ResourceChange[]): void {
    if (!this.#rangesKnown) {
      this.#rangesKnown = true
      for (const resource of this.source?.all() ?? []) {
        if (resource.ranges.length > 0) this.keys.setRanges(resource.name, resource.ranges)
      }
      return
    }
    for (const { name, before, after } of changes) {
      if (after !== undefined && after.ranges.length > 0) this.keys.setRanges(name, after.ranges)
      else if (before !== undefined && before.ranges.length > 0) this.keys.setRanges(name, [])
    }
  }

  /** The changes, and the members that must go along although their bytes did not change. */
  #withMembers(changes: readonly ResourceChange[]): Map<string, ResourceChange> {
    const told = new Map<string, ResourceChange>()
    for (const change of changes) {
      const earlier = told.get(change.name)
      // One name in two tables of the store: what left the one may have come into the other.
      told.set(change.name, earlier === undefined ? change : toOne(earlier, change))
    }
    for (const { name, before, after } of changes) {
      if (after === undefined || (before !== undefined && !after.bringsMembers)) continue
      for (const member of this.source?.members(name) ?? []) {
        if (!told.has(member.name)) told.set(member.name, { name: member.name, before: member, after: member })
      }
    }
    return told
  }

  #recordForWildcards(told: ReadonlyMap<string, ResourceChange>): void {
    const names: string[] = []
    const ranged = new Set<string>()
    for (const change of told.values()) {
      // A resource that is never written was never told, so its going is no news either.
      if (change.before?.entry !== undefined || change.after?.entry !== undefined) names.push(change.name)
      this.#addRangedParents(change, ranged)
    }
    this.log.record(this.#revision, names)
    this.ranges.record(this.#revision, ranged)
  }

  #addRangedParents(change: ResourceChange, into: Set<string>): void {
    if (this.keys.ranged.size === 0) return
    for (const state of [change.before, change.after]) {
      for (const parent of state?.parents ?? []) if (this.keys.ranged.has(parent)) into.add(parent)
    }
  }

  #concernAskers(told: ReadonlyMap<string, ResourceChange>, concerned: Set<Subscriber>): void {
    for (const change of told.values()) {
      const ranged = new Set<string>()
      this.#addRangedParents(change, ranged)
      const tell = (askers: Iterable<Subscriber>): void => {
        for (const asker of askers) {
          asker.concern(change.name)
          for (const name of ranged) asker.concernRange(name)
          concerned.add(asker)
        }
      }
      const { before, after } = change
      for (const state of before === after ? [after] : [before, after]) {
        if (state === undefined) continue
        for (const key of keysOf(state, this.keys)) tell(this.keys.asking(key))
        for (const parent of state.parents) this.#tellOfParent(parent, told.get(parent)?.before, tell)
        if (state.node !== '') tell(this.keys.onNode(state.node))
      }
    }
  }

  /** Everyone who asked for the parent, under any key that it has or had until now. */
  #tellOfParent(parent: string, was: Resource | undefined, tell: (askers: Iterable<Subscriber>) => void): void {
    tell(this.keys.asking(parent))
    for (const key of this.keys.inside(parent)) tell(this.keys.asking(key))
    for (const alias of this.get(parent)?.aliases ?? []) tell(this.keys.asking(alias))
    for (const alias of was?.aliases ?? []) tell(this.keys.asking(alias))
  }
}

function toOne(a: ResourceChange, b: ResourceChange): ResourceChange {
  return { name: a.name, before: a.before ?? b.before, after: b.after ?? a.after }
}
