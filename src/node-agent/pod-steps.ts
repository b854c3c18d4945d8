// SPDX-License-Identifier: Apache-2.0
// The single steps of a pod outside its namespace: its addresses in the probe set and its annotation. What is done already is not done again. For both
// ways, in and out, and for the door; whose turn it is, is theirs to see to.

import type { PodIdentity, Redirection } from './contracts.js'
import type { EnrolledPod } from './enrolled-pods.js'
import type { EnrollerParts } from './enroller-parts.js'
import { isSameIps } from './pod-ips.js'
import { inAnyCase } from './step-failures.js'

export class PodSteps {
  readonly #parts: Pick<EnrollerParts, 'annotator' | 'defaults' | 'ledger' | 'probeSet'>

  constructor(parts: Pick<EnrollerParts, 'annotator' | 'defaults' | 'ledger' | 'probeSet'>) {
    this.#parts = parts
  }

  /** The probe set holds these addresses for the pod afterwards, and no others. Rejects as the set does, and is done again next time. */
  async putAddresses(row: EnrolledPod, ips: readonly string[]): Promise<void> {
    const { probeSet, defaults } = this.#parts
    const { uid } = row.pod
    if (row.isProbed && isSameIps(row.ips, ips)) return
    row.isProbed = false
    row.ips = ips
    const isStale = row.probed.some((ip) => !ips.includes(ip))
    row.probed = [...new Set([...row.probed, ...ips])]
    const wanted = ips.filter((ip) => defaults.ipv6 || !ip.includes(':'))
    const putAll = (): Promise<void> => inAnyCase(wanted.map((ip) => () => probeSet.put(ip, uid)))
    await putAll()
    if (isStale) {
      // The set forgets by pod, so what stays is put in again.
      await probeSet.remove(uid)
      await putAll()
    }
    row.probed = ips
    row.isProbed = true
  }

  /** The same from nothing: whatever the set holds for the pod goes first. */
  async rewriteAddresses(row: EnrolledPod): Promise<void> {
    row.isProbed = false
    await this.#parts.probeSet.remove(row.pod.uid)
    await this.putAddresses(row, row.ips)
  }

  /** Undefined takes the annotation away. Rejects with Retryable. */
  async annotate(pod: PodIdentity, value: Redirection | undefined): Promise<'written' | 'gone'> {
    const { ledger, annotator } = this.#parts
    if (ledger.get(pod.uid) === value && value !== undefined) return 'written'
    const outcome = await annotator.annotate(pod, value)
    if (outcome === 'written') ledger.write(pod.uid, value)
    return outcome
  }
}
