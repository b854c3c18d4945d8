// SPDX-License-Identifier: Apache-2.0
// The pods that are enrolled, or on their way in or out: who, where, and which steps are done. Owns one handle of each pod's namespace. For the enrolment,
// the sweep and the snapshots of ztunnel. Decides nothing.

import type { PodIdentity, PodRuleOptions, ZdsPod } from './contracts.js'
import { isSameNetns, type Netns } from './netns/netns.js'

/** One pod. The steps are set by whoever does them, and cleared by whoever finds that they are no longer so. */
export class EnrolledPod {
  /** Canonical text; empty while nobody knows them. */
  ips: readonly string[] = []
  /** What the pod's object said of its addresses when the runtime told others: not news until it says something else. */
  outdated: readonly string[] | undefined
  /** Those that were put into the probe set under its uid, and maybe more. */
  probed: readonly string[] = []
  /** Where the runtime keeps the namespace, when it told. */
  netnsPath: string | undefined
  containerId: string | undefined
  /** What the rules were last made with. */
  options: PodRuleOptions | undefined
  /** What was last told of annotations that are not followed; empty when all are. */
  toldOfAnnotations = ''
  /** The rules in the namespace are these, as far as we know. */
  isRuled = false
  /** The newest ztunnel said yes to this namespace, or will be told by its snapshot. */
  isTold = false
  /** The probe set has its addresses. */
  isProbed = false
  /** On its way out: no ztunnel is told of it any more. */
  isLeaving = false
  #netns: Netns | undefined

  constructor(readonly pod: PodIdentity) {}

  /** Borrowed: share() to keep it. */
  get netns(): Netns | undefined {
    return this.#netns
  }

  /**
   * Takes over a handle. Of the same namespace the one we have stays, and the new one is closed; another one takes its place and says true:
   * nothing is done yet in there.
   */
  settle(netns: Netns): boolean {
    const old = this.#netns
    if (old !== undefined && isSameNetns(old, netns)) {
      netns.close()
      return false
    }
    this.#netns = netns
    old?.close()
    this.isRuled = false
    this.isTold = false
    return true
  }

  close(): void {
    this.#netns?.close()
    this.#netns = undefined
  }
}

export class EnrolledPods {
  readonly #rows = new Map<string, EnrolledPod>()

  get size(): number {
    return this.#rows.size
  }

  get(uid: string): EnrolledPod | undefined {
    return this.#rows.get(uid)
  }

  values(): Iterable<EnrolledPod> {
    return this.#rows.values()
  }

  /** The row of this pod, a new one without any step done where there was none. */
  ensure(pod: PodIdentity): EnrolledPod {
    const known = this.#rows.get(pod.uid)
    if (known !== undefined) return known
    const row = new EnrolledPod(pod)
    this.#rows.set(pod.uid, row)
    return row
  }

  /** Drops the row and closes its handle. */
  remove(uid: string): void {
    this.#rows.get(uid)?.close()
    this.#rows.delete(uid)
  }

  clear(): void {
    for (const uid of [...this.#rows.keys()]) this.remove(uid)
  }

  /** What a ztunnel shall hold now; handles are borrowed. */
  selectZdsPods(): readonly ZdsPod[] {
    const out: ZdsPod[] = []
    for (const { pod, netns, isLeaving } of this.#rows.values()) if (!isLeaving) out.push({ pod, netns })
    return out
  }

  /** The pod that an address belongs to: of several that claim it, the one that came last. */
  selectOwners(): ReadonlyMap<string, string> {
    const owners = new Map<string, string>()
    for (const row of this.#rows.values()) {
      if (!row.isLeaving && row.isProbed) for (const ip of row.ips) owners.set(ip, row.pod.uid)
    }
    return owners
  }
}
