// SPDX-License-Identifier: Apache-2.0
// Gives addresses to the hosts of ServiceEntries that have none, and writes them into their status. For the leader alone. Never changes a spec, and
// changes of a status nothing but its list of addresses.

import type { Logger } from '../base/log.js'
import { projectObject } from '../kube/project.js'
import type { ServiceEntryRecord } from '../kube/records.js'
import { compareAge, selectHosts, type AddressClaim, type AddressClaims, type HostAddress } from './address-claims.js'
import { AddressPool } from './address-pool.js'
import { toObject, type JsonObject, type JsonPatchStep, type ObjectApi } from './object-api.js'
import type { WorkOutcome, WorkQueue } from './work-queue.js'

export interface AllocationOptions {
  readonly objects: ObjectApi
  readonly claims: AddressClaims
  readonly cluster: string
  readonly log: Logger
  readonly ipv4Prefix: string
  readonly ipv6Prefix: string
}

export class IpAllocation {
  readonly #options: AllocationOptions
  #pools: readonly AddressPool[] = []
  /** Entries that have an address that is somebody else's. */
  readonly #losers = new Set<string>()
  /** Addresses taken for hosts of an entry whose write was not answered: it may have been done. */
  readonly #unsure = new Map<string, readonly HostAddress[]>()

  constructor(options: AllocationOptions) {
    this.#options = options
  }

  /** Begins anew: all that any entry has or names is in use, and every entry is looked at, the oldest first. */
  start(queue: WorkQueue): void {
    const { ipv4Prefix, ipv6Prefix, claims } = this.#options
    this.#pools = [new AddressPool(ipv4Prefix), new AddressPool(ipv6Prefix)]
    this.#losers.clear()
    this.#unsure.clear()
    const all = [...claims.rows.values()].sort(compareAge)
    for (const claim of all) this.notice(claim)
    for (const claim of all) this.#judge(claim, queue)
  }

  /** Takes what an entry has and names as used, so that nothing of it is given to others. */
  notice(claim: AddressClaim): void {
    for (const pool of this.#pools) {
      for (const { value } of claim.allocated) pool.use(value)
      for (const value of claim.own) pool.use(value)
    }
  }

  /** An entry came or changed; what it has was noticed. */
  look(claim: AddressClaim, queue: WorkQueue): void {
    this.#judge(claim, queue)
  }

  /** Puts one entry right. */
  async perform(key: string, signal: AbortSignal): Promise<WorkOutcome> {
    const { objects, claims, cluster } = this.#options
    const claim = claims.rows.get(key)
    if (claim === undefined || !claim.isOurs) return 'done'
    const { path } = await objects.locate(
      { kind: 'ServiceEntry', namespace: claim.namespace, name: claim.name },
      signal,
    )
    // What is read may lag behind what was written a moment ago: the object itself decides.
    const reply = await objects.get(path, signal)
    if (reply.kind !== 'ok') return 'done'
    const { record: entry } = projectObject('ServiceEntry', reply.object, cluster)
    if (entry.uid !== claim.uid) return 'done'
    const wanted = this.#toWanted(key, entry)
    if (wanted === undefined) return 'done'
    const steps = toSteps(reply.object, wanted.list)
    return this.#write(key, { path: `${path}/status`, steps, wanted, entry, signal })
  }

  /** Queues an entry that needs something, and those that have to make room because of it. */
  #judge(claim: AddressClaim, queue: WorkQueue): void {
    for (const key of this.#options.claims.losersOf(claim)) {
      const loser = this.#options.claims.rows.get(key)
      if (loser === undefined || !loser.isOurs || loser.hosts.length === 0) continue
      this.#losers.add(key)
      queue.add(key)
    }
    if (claim.isOurs && !isSettled(claim.hosts, claim.allocated)) queue.add(claim.key)
  }

  /** Undefined when the entry is right as it is. */
  #toWanted(key: string, entry: ServiceEntryRecord): Wanted | undefined {
    const hosts = selectHosts(entry)
    const present = entry.statusAddresses
    if (hosts.length === 0) return present.length === 0 ? undefined : { list: [], taken: [], given: present }
    const mustMove = this.#losers.has(key) && this.#isLoser(key, present)
    if (!mustMove) this.#losers.delete(key)
    if (!mustMove && isSettled(hosts, present)) {
      this.#unsure.delete(key)
      return undefined
    }
    const kept = mustMove ? [] : present
    const unsure = this.#unsure.get(key) ?? []
    const taken: HostAddress[] = []
    const list = hosts.flatMap((host) => {
      const known = kept.filter((address) => address.host === host)
      if (known.length > 0) return known
      const before = unsure.filter((address) => address.host === host)
      const fresh = before.length > 0 ? before : this.#take(host)
      taken.push(...fresh)
      return fresh
    })
    this.#unsure.set(key, taken)
    // Every pool may be empty: then there is nothing to write, and the next change of the entry is the next try.
    return isSame(list, present) ? undefined : { list, taken, given: [] }
  }

  /** Does the list hold what somebody else is to keep? */
  #isLoser(key: string, present: readonly HostAddress[]): boolean {
    const claim = this.#options.claims.rows.get(key)
    return claim !== undefined && this.#options.claims.losersOf({ ...claim, allocated: present }).includes(key)
  }

  #take(host: string): readonly HostAddress[] {
    return this.#pools.flatMap((pool) => {
      const value = pool.take()
      return value === undefined ? [] : [{ value, host }]
    })
  }

  async #write(key: string, { path, steps, wanted, entry, signal }: Write): Promise<WorkOutcome> {
    const { objects, log } = this.#options
    const reply = await objects.patch(path, steps, signal)
    this.#unsure.delete(key)
    if (reply.kind !== 'ok') {
      this.#free(wanted.taken)
      return reply.kind === 'missing' ? 'done' : 'again'
    }
    // What a loser gives up is somebody else's, in part: only what an entry that may have none gives back can be given out again.
    this.#free(wanted.given.filter(({ value }) => !this.#options.claims.isOthers(key, value)))
    this.#losers.delete(key)
    const { namespace, name } = entry
    log.info({ namespace, name, addresses: wanted.list.length }, 'addresses of a ServiceEntry were written')
    return 'written'
  }

  #free(addresses: readonly HostAddress[]): void {
    for (const { value } of addresses) for (const pool of this.#pools) pool.free(value)
  }
}

/** `taken`: addresses of `list` that were free before. `given`: addresses that are free when it is written. */
interface Wanted {
  readonly list: readonly HostAddress[]
  readonly taken: readonly HostAddress[]
  readonly given: readonly HostAddress[]
}

interface Write {
  readonly path: string
  readonly steps: readonly JsonPatchStep[]
  readonly wanted: Wanted
  readonly entry: ServiceEntryRecord
  readonly signal: AbortSignal
}

/** Do exactly these hosts have addresses? */
function isSettled(hosts: readonly string[], allocated: readonly HostAddress[]): boolean {
  const having = new Set(allocated.map(({ host }) => host))
  return having.size === hosts.length && hosts.every((host) => having.has(host))
}

function isSame(a: readonly HostAddress[], b: readonly HostAddress[]): boolean {
  return a.length === b.length && a.every((address, i) => address.value === b[i]?.value && address.host === b[i].host)
}

/** Puts the list in the place of the one that was read, and only of that one. */
function toSteps(object: JsonObject, list: readonly HostAddress[]): readonly JsonPatchStep[] {
  const value = list.map((address) => ({ value: address.value, host: address.host }))
  const same = { op: 'test', path: '/metadata/uid', value: toObject(object['metadata'])['uid'] } as const
  const status = object['status'] ?? undefined
  if (status === undefined) {
    return [
      same,
      { op: 'test', path: '/status', value: null },
      { op: 'add', path: '/status', value: {} },
      { op: 'add', path: '/status/addresses', value },
    ]
  }
  const before = toObject(status)['addresses'] ?? undefined
  return [
    same,
    { op: 'test', path: '/status/addresses', value: before ?? null },
    { op: before === undefined ? 'add' : 'replace', path: '/status/addresses', value },
  ]
}
