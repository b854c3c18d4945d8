// SPDX-License-Identifier: Apache-2.0
// The host's set of pod addresses whose probes are exempt, whatever backend keeps it. For enrolment and the sweep: one change after the other, addresses in
// one spelling, entries by uid. Never emptied at start; what no longer belongs to a pod is for the caller to remove.

import { InvalidInput, Retryable } from '../../base/errors.js'
import { formatIp, parseIp } from '../../base/ip.js'
import type { Logger } from '../../base/log.js'
import type { ProbeSet } from '../contracts.js'
import type { Netns } from '../netns/netns.js'
import type { NetnsWorkers } from '../netns/workers.js'
import type { ChosenBackend } from './backend-choice.js'
import type { HostRuleOptions } from './host-rules.js'
import type { CommandRecord } from './iptables-command.js'
import { type Failures, JoinedTurns } from './joined-turns.js'
import { findKubeletUid } from './kubelet-uid.js'
import { IpsetStore } from './probe-set-ipset.js'
import {
  type ProbeEntry,
  destroyNftProbesJob,
  dropNftProbesJob,
  ensureNftProbesJob,
  listNftProbesJob,
  putNftProbesJob,
} from './probe-set-nft.js'

export interface ProbeSetOptions {
  readonly chosen: ChosenBackend
  readonly workers: NetnsWorkers
  /** The agent's own namespace without it. */
  readonly hostNetns: Netns | undefined
  /** The host's /proc, where kubelet is looked for. */
  readonly procRoot: string
  readonly ipv6: boolean
  readonly probeAddress4: string
  readonly probeAddress6: string
  readonly log: Logger
  /** Told of every program that ran. */
  readonly onCommand?: ((record: CommandRecord) => void) | undefined
  /** Where kubelet cannot be looked for. */
  readonly kubeletUid?: number | undefined
}

/** What a backend can do. `list` gives canonical addresses; what is not there is no error for `drop`, or a Retryable one. */
interface ProbeStore {
  ensure(rule: HostRuleOptions): Promise<boolean>
  /** No address comes twice. When it fails, some may be there. */
  put(entries: readonly ProbeEntry[]): Promise<void>
  drop(ips: readonly string[]): Promise<void>
  list(): Promise<readonly ProbeEntry[]>
  destroy(): Promise<void>
}

export function createProbeSet(options: ProbeSetOptions): ProbeSet {
  const { chosen, workers, hostNetns, ipv6, onCommand } = options
  const store =
    chosen.backend === 'nftables'
      ? new NftStore(workers, hostNetns)
      : new IpsetStore({ ...chosen, workers, hostNetns, ipv6, onCommand })
  return new HostProbeSet(options, store)
}

class HostProbeSet implements ProbeSet {
  readonly #options: ProbeSetOptions
  readonly #store: ProbeStore
  readonly #turns = new JoinedTurns()
  #kubeletUid: number | undefined

  constructor(options: ProbeSetOptions, store: ProbeStore) {
    this.#options = options
    this.#store = store
    this.#kubeletUid = options.kubeletUid
  }

  ensure(): Promise<void> {
    return this.#turns.run(() => this.#ensure())
  }

  async put(ip: string, uid: string): Promise<void> {
    const entry = { ip: toCanonical(ip), uid: checkUid(uid) }
    if (this.#isOff(entry.ip)) return
    await this.#turns.join(entry, this.#putAll)
  }

  async remove(uid: string): Promise<void> {
    // An object of its own: two that ask for the same pod are two.
    await this.#turns.join({ uid }, this.#removeAll)
  }

  list(): Promise<ReadonlyMap<string, string>> {
    return this.#turns.run(async () => new Map((await this.#store.list()).map(({ ip, uid }) => [ip, uid])))
  }

  destroy(): Promise<void> {
    return this.#turns.run(() => this.#store.destroy())
  }

  async #ensure(): Promise<void> {
    const { procRoot, log } = this.#options
    this.#kubeletUid ??= await findKubeletUid(procRoot)
    const kubeletUid = this.#kubeletUid
    const changed = await this.#store.ensure({ ...this.#options, kubeletUid })
    if (changed) log.info({ kubeletUid }, 'probe set and rule of the host were made or mended')
  }

  readonly #putAll = async (entries: readonly ProbeEntry[]): Promise<Failures<ProbeEntry>> => {
    // Of an address that is given to two pods, the later one counts.
    const latest = [...new Map(entries.map((entry) => [entry.ip, entry])).values()]
    try {
      await this.#store.put(latest)
      return new Map()
    } catch {
      // Somebody took the set away, or made it so that it cannot hold these: mended, it can. Otherwise it fails again and says why, each for itself.
      const failures = new Map<ProbeEntry, unknown>()
      const fail = (ip: string, error: unknown): void => {
        for (const entry of entries) if (entry.ip === ip) failures.set(entry, error)
      }
      try {
        await this.#ensure()
      } catch (error) {
        for (const { ip } of latest) fail(ip, error)
        return failures
      }
      for (const entry of latest) await this.#store.put([entry]).catch((error: unknown) => fail(entry.ip, error))
      return failures
    }
  }

  readonly #removeAll = async (
    asked: readonly { readonly uid: string }[],
  ): Promise<Failures<{ readonly uid: string }>> => {
    const uids = new Set(asked.map(({ uid }) => uid))
    try {
      await this.#drop(uids)
    } catch (error) {
      if (!(error instanceof Retryable)) throw error
      // Somebody was faster with one of them: what is left is looked for again.
      await this.#drop(uids)
    }
    return new Map()
  }

  async #drop(uids: ReadonlySet<string>): Promise<void> {
    const entries = await this.#store.list()
    await this.#store.drop(entries.filter(({ uid }) => uids.has(uid)).map(({ ip }) => ip))
  }

  /** With IPv6 off an IPv6 address needs no exemption, for nothing of it is captured. */
  #isOff(ip: string): boolean {
    return ip.includes(':') && !this.#options.ipv6
  }
}

class NftStore implements ProbeStore {
  readonly #workers: NetnsWorkers
  readonly #netns: Netns | undefined

  constructor(workers: NetnsWorkers, netns: Netns | undefined) {
    this.#workers = workers
    this.#netns = netns
  }

  async ensure({ kubeletUid, ipv6, probeAddress4, probeAddress6 }: HostRuleOptions): Promise<boolean> {
    const args = { kubeletUid, ipv6, probeAddress4, probeAddress6 }
    return (await this.#workers.run(ensureNftProbesJob, { netns: this.#netns, args })).changed
  }

  async put(args: readonly ProbeEntry[]): Promise<void> {
    await this.#workers.run(putNftProbesJob, { netns: this.#netns, args })
  }

  async drop(args: readonly string[]): Promise<void> {
    await this.#workers.run(dropNftProbesJob, { netns: this.#netns, args })
  }

  list(): Promise<readonly ProbeEntry[]> {
    return this.#workers.run(listNftProbesJob, { netns: this.#netns, args: undefined })
  }

  async destroy(): Promise<void> {
    await this.#workers.run(destroyNftProbesJob, { netns: this.#netns, args: undefined })
  }
}

/** In the one spelling that entries are compared by; an IPv4 address in IPv6's clothes is an IPv4 address. Throws InvalidInput. */
function toCanonical(text: string): string {
  const bytes = parseIp(text)
  if (bytes === undefined) throw new InvalidInput(`${JSON.stringify(text)} is no address of a pod`)
  const ip = formatIp(bytes)
  return ip.startsWith('::ffff:') && ip.includes('.') ? ip.slice('::ffff:'.length) : ip
}

/** The uid ends as a comment in quotes. Throws InvalidInput. */
function checkUid(uid: string): string {
  if (/^[A-Za-z0-9._:-]{1,128}$/.test(uid)) return uid
  throw new InvalidInput(`${JSON.stringify(uid.slice(0, 150))} is no uid of a pod`)
}
