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
import { findKubeletUid } from './kubelet-uid.js'
import { IpsetStore } from './probe-set-ipset.js'
import {
  type ProbeEntry,
  destroyNftProbesJob,
  dropNftProbesJob,
  ensureNftProbesJob,
  listNftProbesJob,
  putNftProbeJob,
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
  put(entry: ProbeEntry): Promise<void>
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
  #kubeletUid: number | undefined
  #last: Promise<unknown> = Promise.resolve()

  constructor(options: ProbeSetOptions, store: ProbeStore) {
    this.#options = options
    this.#store = store
    this.#kubeletUid = options.kubeletUid
  }

  ensure(): Promise<void> {
    return this.#inTurn(() => this.#ensure())
  }

  async put(ip: string, uid: string): Promise<void> {
    const entry = { ip: toCanonical(ip), uid: checkUid(uid) }
    if (this.#isOff(entry.ip)) return
    await this.#inTurn(async () => {
      try {
        await this.#store.put(entry)
      } catch {
        // Somebody took the set away, or made it so that it cannot hold this: mended, it can. Otherwise this fails again and says why.
        await this.#ensure()
        await this.#store.put(entry)
      }
    })
  }

  async remove(uid: string): Promise<void> {
    await this.#inTurn(async () => {
      try {
        await this.#drop(uid)
      } catch (error) {
        if (!(error instanceof Retryable)) throw error
        // Somebody was faster with one of them: what is left is looked for again.
        await this.#drop(uid)
      }
    })
  }

  list(): Promise<ReadonlyMap<string, string>> {
    return this.#inTurn(async () => new Map((await this.#store.list()).map(({ ip, uid }) => [ip, uid])))
  }

  destroy(): Promise<void> {
    return this.#inTurn(() => this.#store.destroy())
  }

  async #ensure(): Promise<void> {
    const { procRoot, log } = this.#options
    this.#kubeletUid ??= await findKubeletUid(procRoot)
    const kubeletUid = this.#kubeletUid
    const changed = await this.#store.ensure({ ...this.#options, kubeletUid })
    if (changed) log.info({ kubeletUid }, 'probe set and rule of the host were made or mended')
  }

  async #drop(uid: string): Promise<void> {
    const entries = await this.#store.list()
    await this.#store.drop(entries.filter((entry) => entry.uid === uid).map(({ ip }) => ip))
  }

  /** With IPv6 off an IPv6 address needs no exemption, for nothing of it is captured. */
  #isOff(ip: string): boolean {
    return ip.includes(':') && !this.#options.ipv6
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(work)
    this.#last = turn.catch(() => undefined)
    return turn
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

  async put(args: ProbeEntry): Promise<void> {
    await this.#workers.run(putNftProbeJob, { netns: this.#netns, args })
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
