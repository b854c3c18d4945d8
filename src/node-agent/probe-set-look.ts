// SPDX-License-Identifier: Apache-2.0
// The look at the host's set of addresses that kubelet may probe: every enrolled pod has its own in there, and nobody else has any. Part of the sweep, and
// of the start.

import type { EnrolledPod } from './enrolled-pods.js'
import { selectNextStep } from './next-step.js'
import { noteMended, type SweepParts } from './sweep-parts.js'

type LookParts = Pick<
  SweepParts,
  'defaults' | 'enroller' | 'ledger' | 'log' | 'metrics' | 'pods' | 'probeSet' | 'watcher' | 'wishes'
>

export class ProbeSetLook {
  readonly #parts: LookParts
  #isThere = false

  constructor(parts: LookParts) {
    this.#parts = parts
  }

  /** The set and its rule could be made once. */
  get isThere(): boolean {
    return this.#isThere
  }

  /** Makes the set and its rule, so that addresses can be put in. */
  async make(): Promise<void> {
    await this.#parts.probeSet.ensure()
    this.#isThere = true
  }

  /** Makes the set, gives every enrolled pod its addresses, and drops what is nobody's. To be called only when the pods are listed. */
  async look(): Promise<void> {
    const { probeSet, pods, enroller } = this.#parts
    await this.make()
    const entries = await probeSet.list()
    const owners = pods.selectOwners()
    const strangers = new Set<string>()
    for (const [ip, uid] of entries) {
      const row = pods.get(uid)
      if (row === undefined ? this.#isNobody(uid) : row.isProbed && !row.ips.includes(ip)) strangers.add(uid)
    }
    for (const uid of strangers) {
      const row = pods.get(uid)
      noteMended(this.#parts, 'probe-set', row?.pod, { uid })
      if (row === undefined) await probeSet.remove(uid)
      // Written anew from what the pod has now.
      else await enroller.refreshAddresses(uid)
    }
    for (const row of pods.values()) {
      const { uid } = row.pod
      if (!row.isProbed || enroller.isBusy(uid)) continue
      const missing = this.#selectProbed(row).filter((ip) => owners.get(ip) === uid && entries.get(ip) !== uid)
      if (missing.length === 0) continue
      noteMended(this.#parts, 'probe-set', row.pod, { ips: missing })
      row.isProbed = false
      this.#parts.watcher.poke(uid)
    }
  }

  #selectProbed({ ips }: EnrolledPod): readonly string[] {
    return ips.filter((ip) => this.#parts.defaults.ipv6 || !ip.includes(':'))
  }

  /** Not on this node, or neither in the mesh nor on the way. */
  #isNobody(uid: string): boolean {
    const { wishes, ledger, enroller, defaults } = this.#parts
    if (enroller.isBusy(uid)) return false
    const wish = wishes.pods.get(uid)
    if (wish === undefined) return true
    const { verb } = selectNextStep(wish, undefined, ledger.get(uid), defaults)
    // A pod that will be enrolled as soon as its address is known keeps what it has.
    return verb !== 'enroll' && !(wish.verdict.eligible && !wish.ended)
  }
}
