// SPDX-License-Identifier: Apache-2.0
// What one ztunnel holds, by what it acknowledged. A handle in here stays open for as long as the entry does. For one connection; never asks anybody.

import { isSameNetns } from '../netns/netns.js'
import type { Netns, NetnsId } from '../netns/netns.js'
import type { PodIdentity } from '../contracts.js'

/** By uid what a process was known to hold when its connection ended; undefined where the namespace was never known. */
export type RememberedHoldings = ReadonlyMap<string, NetnsId | undefined>

interface Holding {
  readonly id: NetnsId | undefined
  readonly netns: Netns | undefined
  readonly pod: PodIdentity | undefined
}

export class Holdings {
  readonly #byUid = new Map<string, Holding>()
  #isClosed = false

  /** Where a process that connects again starts from: its proxies run on until the end of the new snapshot. */
  remember(earlier: RememberedHoldings): void {
    for (const [uid, id] of earlier) this.#byUid.set(uid, { id, netns: undefined, pod: undefined })
  }

  has(uid: string): boolean {
    return this.#byUid.has(uid)
  }

  /** This very pod in this very namespace was acknowledged on this connection. */
  isConfirmed(pod: PodIdentity, netns: NetnsId): boolean {
    const holding = this.#byUid.get(pod.uid)
    return (
      holding?.pod !== undefined &&
      holding.id !== undefined &&
      isSameNetns(holding.id, netns) &&
      holding.pod.name === pod.name &&
      holding.pod.namespace === pod.namespace &&
      holding.pod.serviceAccount === pod.serviceAccount
    )
  }

  /** Takes the handle over. */
  put(pod: PodIdentity, netns: Netns): void {
    if (this.#isClosed) {
      netns.close()
      return
    }
    const earlier = this.#byUid.get(pod.uid)
    this.#byUid.set(pod.uid, { id: { inode: netns.inode, device: netns.device }, netns, pod })
    earlier?.netns?.close()
  }

  /** The process says that it keeps the pod; in which namespace only it knows, unless it was remembered. */
  keep(uid: string): void {
    if (!this.#byUid.has(uid)) this.#byUid.set(uid, { id: undefined, netns: undefined, pod: undefined })
  }

  delete(uid: string): void {
    this.#byUid.get(uid)?.netns?.close()
    this.#byUid.delete(uid)
  }

  /** Everything else is gone. */
  retain(uids: ReadonlySet<string>): void {
    for (const uid of [...this.#byUid.keys()]) if (!uids.has(uid)) this.delete(uid)
  }

  /** Handles are borrowed. */
  list(): ReadonlyMap<string, Netns | undefined> {
    return new Map([...this.#byUid].map(([uid, { netns }]) => [uid, netns]))
  }

  /** Closes every handle; what is left to remember comes back. */
  close(): RememberedHoldings {
    const remembered = new Map([...this.#byUid].map(([uid, { id }]) => [uid, id]))
    for (const { netns } of this.#byUid.values()) netns?.close()
    this.#byUid.clear()
    this.#isClosed = true
    return remembered
  }
}
