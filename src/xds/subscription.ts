// SPDX-License-Identifier: Apache-2.0
// The delta protocol of one type on one stream, as a function: requests in, what to answer out; concerned names in, what to push out.
// Pure and synchronous: no bytes, no sockets, no time beyond what it is told.

import type { WatchView } from './client-view.js'
import { isAskedFor, isReached, selectLacking } from './interest.js'
import type { Ask, HeldVersions, Part, Reply } from './reply.js'
import type { Resource } from './source.js'
import type { Pusher, Subscriber, Topic } from './topic.js'

/** What a nonce meant. */
export type Verdict = 'acknowledged' | 'rejected' | 'stale' | 'none'

const noVersions: HeldVersions = {
  size: 0,
  check: () => 'absent',
  unchecked: () => [],
  [Symbol.iterator]: () => [][Symbol.iterator](),
}

const noNames: ReadonlySet<string> = new Set()
const noneRemembered: ReadonlyMap<string, string> = new Map()

export class Subscription implements Subscriber {
  readonly topic: Topic
  readonly #node: string
  readonly owner: Pusher
  #asked = false
  #wildcard = false
  /** Keys asked for, letter by letter. */
  readonly #names = new Set<string>()
  /** Primary names that an explicit subscriber was told of or came back with. */
  readonly #sent = new Set<string>()
  /** Wildcard: up to where it was told what is new, what is gone, and which ranges to take anew. */
  #seenChanged = 0
  #seenRemoved = 0
  #seenRanges = 0
  /** Names to list as removed with the next push of what is gone. */
  #owed: readonly string[] = []
  /** Explicit: names to look at. */
  #concerned: Set<string> | undefined
  /** Explicit: ranged resources of which a concerned name is or was a member. */
  #rangesConcerned: Set<string> | undefined
  /** Ranged resources to be sent once more, alone. */
  #rangesDue: Set<string> | undefined
  sentNonce = ''
  sentAtMs = 0
  #ackedNonce = ''
  #lastError = ''

  /** `node`: the Kubernetes node of the client, empty when it did not say. */
  constructor(topic: Topic, node: string, owner: Pusher) {
    this.topic = topic
    this.#node = node
    this.owner = owner
  }

  get wildcard(): boolean {
    return this.#wildcard
  }

  /** Keys remembered for this client. */
  get size(): number {
    return this.#names.size + this.#sent.size
  }

  get seenRevision(): number {
    return Math.min(this.#seenChanged, this.topic.splits ? this.#seenRemoved : this.#seenChanged, this.#seenRanges)
  }

  /** Takes in what the request says about earlier responses. Before the first request of the type no nonce means anything. */
  judge(ask: Pick<Ask, 'nonce' | 'error'>): Verdict {
    if (ask.error !== undefined) {
      // An empty text would look like no rejection.
      this.#lastError = ask.error.message === '' ? 'rejected without a reason' : ask.error.message
      return 'rejected'
    }
    if (!this.#asked || ask.nonce === '') return 'none'
    if (ask.nonce !== this.sentNonce) return 'stale'
    this.acknowledge()
    return 'acknowledged'
  }

  /** The last response was accepted. */
  acknowledge(): void {
    this.#ackedNonce = this.sentNonce
    this.#lastError = ''
  }

  /** Takes in what the request wants; gives the answer, or undefined for silence. */
  ask(ask: Ask): Reply | undefined {
    const first = !this.#asked
    this.#asked = true
    if (this.topic.source === undefined) {
      for (const name of ask.subscribe) if (first && name !== '*') this.#names.add(name)
      return first ? { kind: 'selection', resources: [], removed: [], aliases: false } : undefined
    }
    const given = ask.unsubscribe.length === 0 ? noNames : new Set(ask.unsubscribe)
    const wanted = new Set<string>()
    for (const name of ask.subscribe) if (!given.has(name)) wanted.add(name)
    return first ? this.#start(ask, wanted, given) : this.#change(wanted, given)
  }

  #start(ask: Ask, wanted: Set<string>, given: ReadonlySet<string>): Reply {
    this.#wildcard = ask.subscribe.length === 0 || wanted.has('*')
    wanted.delete('*')
    for (const name of wanted) this.#addName(name)
    if (this.#wildcard) {
      this.#follow()
      return this.#everything(wanted, ask.initialVersions, given)
    }
    if (this.#node !== '') this.topic.keys.addNode(this.#node, this)
    const remembered = new Map<string, string>()
    for (const [name, version] of ask.initialVersions) {
      if (name === '*' || given.has(name)) continue
      remembered.set(name, version)
      this.#addName(name)
    }
    return this.#answer(wanted, remembered, ask.initialVersions)
  }

  #change(wanted: Set<string>, given: ReadonlySet<string>): Reply | undefined {
    for (const name of given) if (name !== '*') this.#dropName(name)
    if (given.has('*') && this.#wildcard) this.#endWildcard()
    const all = wanted.delete('*')
    for (const name of wanted) this.#addName(name)
    if (all) {
      if (!this.#wildcard) this.#beginWildcard()
      this.#follow()
      return this.#everything(wanted, noVersions, given)
    }
    return wanted.size === 0 ? undefined : this.#answer(wanted, noneRemembered, noVersions)
  }

  /** From here on a change is told; what was before is in the answer that is being made. */
  #follow(): void {
    this.topic.wildcards.add(this)
    this.#seenChanged = this.#seenRemoved = this.#seenRanges = this.topic.revision
  }

  #beginWildcard(): void {
    this.#wildcard = true
    for (const name of this.#names) this.topic.keys.delete(name, this)
    for (const name of this.#sent) this.topic.keys.delete(name, this)
    if (this.#node !== '') this.topic.keys.deleteNode(this.#node, this)
    this.#sent.clear()
    this.#concerned = this.#rangesConcerned = undefined
  }

  /** Silence follows; of what the client holds, what its names and its node stand for stays up to date. */
  #endWildcard(): void {
    this.#wildcard = false
    this.topic.wildcards.delete(this)
    if (this.#node !== '') this.topic.keys.addNode(this.#node, this)
    for (const name of this.#names) {
      this.topic.keys.add(name, this)
      for (const found of this.topic.source?.lookup(name) ?? [])
        if (found.entry !== undefined) this.#addSent(found.name)
    }
    for (const found of this.#local()) this.#addSent(found.name)
  }

  #everything(wanted: ReadonlySet<string>, versions: HeldVersions, given: ReadonlySet<string>): Reply {
    const removed: string[] = []
    for (const name of wanted) if (this.topic.get(name) === undefined) removed.push(name)
    this.#rangesDue = undefined
    if (versions.size === 0) {
      for (const ranged of this.topic.existingRanges(this.topic.rangedNames())) {
        if (this.topic.source?.members(ranged.name).length !== 0) this.#dueRange(ranged.name)
      }
      return { kind: 'snapshot', removed }
    }
    const asked = new Map<string, Resource>()
    for (const key of wanted) this.#find(key, asked)
    const resources = selectLacking(this.topic.source?.all() ?? [], asked, versions, this.topic)
    const lost = versions.unchecked().filter((name) => name !== '*' && !given.has(name) && !wanted.has(name))
    for (const name of lost) removed.push(name)
    this.#dueRangesOf(resources)
    // What a removed name was a member of is not known any more: every range is taken anew.
    if (lost.length > 0) {
      for (const ranged of this.topic.existingRanges(this.topic.rangedNames())) this.#dueRange(ranged.name)
    }
    return { kind: 'selection', resources, removed, aliases: false }
  }

  /** One response with all that the keys find, and the keys that found nothing or something only under another name. */
  #answer(wanted: ReadonlySet<string>, remembered: ReadonlyMap<string, string>, versions: HeldVersions): Reply {
    const asked = new Map<string, Resource>()
    const merely = new Map<string, Resource>()
    const removed: string[] = []
    for (const key of wanted) if (!this.#find(key, asked)) removed.push(key)
    let lost = false
    for (const [key, version] of remembered) {
      if (wanted.has(key) || this.#find(key, merely)) continue
      removed.push(key)
      // Without a version it was only asked for, never held.
      lost ||= version !== ''
    }
    if (!this.#wildcard) {
      for (const found of this.#local()) if (!this.#sent.has(found.name)) merely.set(found.name, found)
    }
    for (const name of asked.keys()) merely.delete(name)
    const told = [...asked.values(), ...merely.values()]
    const resources = selectLacking(told, asked, versions, this.topic)
    if (!this.#wildcard) for (const found of told) if (found.entry !== undefined) this.#addSent(found.name)
    this.#dueRangesOf(resources)
    if (lost) {
      for (const ranged of this.topic.existingRanges(this.#sent)) this.#dueRange(ranged.name)
    }
    return { kind: 'selection', resources, removed, aliases: !this.#wildcard }
  }

  /** Adds what the key finds; false when it must be listed as removed, because nothing bears it as its own name. */
  #find(key: string, into: Map<string, Resource>): boolean {
    for (const found of this.topic.source?.lookup(key) ?? []) into.set(found.name, found)
    return this.topic.get(key) !== undefined
  }

  #local(): readonly Resource[] {
    return this.#node === '' ? [] : (this.topic.source?.local(this.#node) ?? [])
  }

  concern(name: string): void {
    this.#concerned ??= new Set()
    this.#concerned.add(name)
  }

  concernRange(name: string): void {
    this.#rangesConcerned ??= new Set()
    this.#rangesConcerned.add(name)
  }

  /** These names are gone, and the client is told of it when all other types were pushed. */
  owe(removed: readonly string[]): void {
    this.#owed = [...this.#owed, ...removed]
  }

  /** May what is due for new and changed resources need policies? */
  isNeedy(): boolean {
    const due = this.#wildcard ? this.topic.log.since(this.#seenChanged) : (this.#concerned ?? [])
    for (const name of due) if ((this.topic.get(name)?.needs?.length ?? 0) > 0) return true
    return false
  }

  /** The next thing to push, or undefined. Moves on: each thing is given once. */
  push(part: Part): Reply | undefined {
    const due = this.#wildcard ? this.#pushWildcard(part) : this.#pushExplicit(part)
    return part === 'changed' || this.#owed.length === 0 ? due : this.#withOwed(due)
  }

  /** `due` is what is gone, or nothing. */
  #withOwed(due: Reply | undefined): Reply | undefined {
    const names = new Set(this.#owed)
    this.#owed = []
    if (due?.kind === 'selection') for (const name of due.removed) names.add(name)
    if (due?.kind === 'delta') for (const name of this.topic.log.since(due.from)) names.add(name)
    const removed = [...names].filter((name) => this.topic.get(name)?.entry === undefined)
    return removed.length === 0 ? undefined : { kind: 'selection', resources: [], removed, aliases: false }
  }

  #pushWildcard(part: Part): Reply | undefined {
    const to = this.topic.revision
    const from = part === 'removed' ? this.#seenRemoved : this.#seenChanged
    if (from === to) return undefined
    if (part !== 'removed') this.#seenChanged = to
    if (part !== 'changed') this.#seenRemoved = to
    return { kind: 'delta', from, to, part }
  }

  #pushExplicit(part: Part): Reply | undefined {
    const concerned = this.#concerned
    if (concerned === undefined) return undefined
    const told = new Map<string, Resource>()
    const removed: string[] = []
    for (const name of concerned) {
      const resource = this.topic.get(name)
      if (resource === undefined) {
        if (part === 'changed') continue
        if (this.#sent.has(name) || this.#names.has(name)) removed.push(name)
        this.#dropSent(name)
      } else if (part !== 'removed') {
        this.#look(resource, told)
      } else continue
      concerned.delete(name)
    }
    const ranges = this.#rangesConcerned
    if (concerned.size === 0) this.#concerned = this.#rangesConcerned = undefined
    if (told.size === 0 && removed.length === 0) return undefined
    for (const name of ranges ?? []) this.#dueRange(name)
    this.#dueRangesOf(told.values())
    for (const name of told.keys()) this.#addSent(name)
    return { kind: 'selection', resources: [...told.values()], removed, aliases: true }
  }

  /** Adds the changed resource if the client stands in any relation to it, and members that it brings and the client lacks. */
  #look(resource: Resource, told: Map<string, Resource>): void {
    const direct = isAskedFor(resource, this.#names, this.topic)
    if (
      resource.entry !== undefined &&
      (direct || this.#sent.has(resource.name) || isReached(resource, this.#names, this.#node, this.topic))
    ) {
      told.set(resource.name, resource)
    }
    if (!direct) return
    for (const member of this.topic.source?.members(resource.name) ?? []) {
      if (member.entry !== undefined && !this.#sent.has(member.name)) told.set(member.name, member)
    }
  }

  /** Ranged resources that must be sent once more, after all else of this type. */
  pushRanges(): Reply | undefined {
    const from = this.#seenRanges
    const due = this.#rangesDue
    this.#rangesDue = undefined
    const behind = this.#wildcard && from !== this.topic.revision
    if (behind) this.#seenRanges = this.topic.revision
    if (due === undefined) return behind ? { kind: 'ranges', from, to: this.topic.revision } : undefined
    if (behind) for (const name of this.topic.ranges.since(from)) due.add(name)
    const resources = this.topic.existingRanges(due).filter((r) => this.#wildcard || this.#sent.has(r.name))
    return resources.length === 0 ? undefined : { kind: 'selection', resources, removed: [], aliases: !this.#wildcard }
  }

  #dueRangesOf(resources: Iterable<Resource>): void {
    const ranged = this.topic.keys.ranged
    if (ranged.size === 0) return
    for (const resource of resources)
      for (const parent of resource.parents) if (ranged.has(parent)) this.#dueRange(parent)
  }

  #dueRange(name: string): void {
    this.#rangesDue ??= new Set()
    this.#rangesDue.add(name)
  }

  #addName(name: string): void {
    this.#names.add(name)
    if (!this.#wildcard) this.topic.keys.add(name, this)
  }

  #dropName(name: string): void {
    this.#names.delete(name)
    this.#sent.delete(name)
    if (!this.#wildcard) this.topic.keys.delete(name, this)
  }

  #addSent(name: string): void {
    if (this.#sent.has(name)) return
    this.#sent.add(name)
    this.topic.keys.add(name, this)
  }

  #dropSent(name: string): void {
    if (this.#sent.delete(name) && !this.#names.has(name)) this.topic.keys.delete(name, this)
  }

  /** What the client holds, as far as the server knows. */
  held(): readonly Resource[] {
    if (!this.#asked) return []
    if (this.#wildcard) return [...(this.topic.source?.all() ?? [])].filter((r) => r.entry !== undefined)
    const held: Resource[] = []
    for (const name of this.#sent) {
      const resource = this.topic.get(name)
      if (resource !== undefined) held.push(resource)
    }
    return held
  }

  /** Leaves the topic; nothing may be called afterwards. */
  close(): void {
    this.topic.wildcards.delete(this)
    if (this.#node !== '') this.topic.keys.deleteNode(this.#node, this)
    for (const name of this.#names) this.topic.keys.delete(name, this)
    for (const name of this.#sent) this.topic.keys.delete(name, this)
  }

  view(): WatchView {
    return {
      typeUrl: this.topic.typeUrl,
      wildcard: this.#wildcard,
      names: [...this.#names],
      sentNonce: this.sentNonce,
      ackedNonce: this.#ackedNonce,
      sentAtMs: this.sentAtMs,
      lastError: this.#lastError,
    }
  }
}
