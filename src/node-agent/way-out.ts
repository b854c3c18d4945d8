// SPDX-License-Identifier: Apache-2.0
// The steps of a pod on its way out of the mesh, in their order: for a living one the rules go before ztunnel does, for one that has ended its namespace is
// left alone. What fails keeps no other step from being done. For the enrolment alone, which gives each pod one turn at a time.

import { InvalidInput, formatError } from '../base/errors.js'
import type { PodIdentity } from './contracts.js'
import { formatPod, type ReleaseRequest } from './enrol-requests.js'
import type { EnrolledPod } from './enrolled-pods.js'
import type { EnrollerParts } from './enroller-parts.js'
import type { NetnsLookup } from './netns-lookup.js'
import type { Netns } from './netns/netns.js'
import type { PodSteps } from './pod-steps.js'
import type { Sandboxes } from './sandboxes.js'
import { inAnyCase } from './step-failures.js'
import type { Suspects } from './suspects.js'

export interface WayOutParts extends EnrollerParts {
  readonly lookup: NetnsLookup
  readonly sandboxes: Sandboxes
  readonly steps: PodSteps
  readonly suspects: Suspects
  /** Gives up waiting for ztunnel. */
  readonly lifetime: AbortSignal
}

export class WayOut {
  readonly #parts: WayOutParts

  constructor(parts: WayOutParts) {
    this.#parts = parts
  }

  /** Rejects when a step failed; then the row stays, and what is left is done next time. */
  async release(request: ReleaseRequest): Promise<void> {
    const { pods, steps, suspects, sandboxes, ledger, log } = this.#parts
    const { pod, how } = request
    const { uid } = pod
    // Whatever fails below, from here on nobody may count on it.
    this.#parts.listener?.onReleased(uid)
    const row = pods.get(uid)
    if (row !== undefined) {
      row.isProbed = false
      row.isLeaving ||= how !== 'left'
    }
    await this.#letGoOutside(request, row)
    if (how !== 'gone') {
      try {
        await steps.annotate(pod, undefined)
      } catch (error) {
        if (how === 'left') throw error
        log.debug({ pod: formatPod(pod), error: formatError(error) }, 'the annotation of a finished pod stays')
      }
    }
    pods.remove(uid)
    if (how === 'gone') {
      sandboxes.forgetEnded(uid)
      // The API server says so before our tables do, or it is wrong: then the rest is not forgotten.
      if (this.#parts.isThere(pod)) suspects.add({ pod, processUid: uid, ips: row?.ips ?? [], wasEnrolled: true })
      else {
        suspects.delete(uid)
        ledger.forget(uid)
      }
    }
    log[row === undefined ? 'debug' : 'info']({ pod: formatPod(pod), how }, 'released')
  }

  /** The pod was deleted while it was being enrolled. */
  async letGo(pod: PodIdentity): Promise<never> {
    await this.release({ pod, how: 'gone' })
    throw new InvalidInput('it was deleted while it was being enrolled')
  }

  /** The runtime takes down the sandbox of this pod, if it is still that of `isOurs`. Never rejects: what is left is cleared up later. */
  async endSandbox(uid: string, isOurs: (row: EnrolledPod) => boolean): Promise<void> {
    const { pods, sandboxes, log } = this.#parts
    const row = pods.get(uid)
    if (row === undefined || !isOurs(row)) return
    const { pod, netns } = row
    if (netns !== undefined) sandboxes.noteEnded(uid, netns)
    try {
      await this.release({ pod, how: this.#parts.isThere(pod) ? 'ended' : 'gone' })
    } catch (error) {
      pods.remove(uid)
      log.warn(
        { pod: formatPod(pod), error: formatError(error) },
        'a sandbox was taken down; the rest of it is cleared up later',
      )
    }
  }

  /** Rules, ztunnel and probe set. */
  async #letGoOutside(request: ReleaseRequest, row: EnrolledPod | undefined): Promise<void> {
    const { ztunnels, probeSet, lifetime } = this.#parts
    const { uid } = request.pod
    const steps = [(): Promise<void> => probeSet.remove(uid)]
    if (request.how === 'left') {
      // While the rules are there the proxy must be.
      steps.push(async () => {
        await this.#unrule(request, row)
        if (row !== undefined) {
          row.isLeaving = true
          row.isTold = false
        }
        await ztunnels.remove(uid, lifetime)
      })
    } else {
      steps.push(() => ztunnels.remove(uid, lifetime))
    }
    await inAnyCase(steps)
  }

  async #unrule(request: ReleaseRequest, row: EnrolledPod | undefined): Promise<void> {
    const { rules, suspects, log } = this.#parts
    const { pod, ips = [], processUid = pod.uid } = request
    const known = row?.netns?.share()
    const netns =
      known ?? (request.onHostNetwork === true ? undefined : await this.#findOrNothing(pod, processUid, ips))
    if (netns === undefined) {
      if (request.onHostNetwork !== true) suspects.add({ pod, processUid, ips, wasEnrolled: true })
      log.warn(
        { pod: formatPod(pod) },
        'the namespace of a pod that leaves the mesh was not found; no rules were taken out',
      )
      return
    }
    try {
      await rules.remove(netns)
      if (row !== undefined) row.isRuled = false
    } finally {
      netns.close()
    }
  }

  async #findOrNothing(pod: PodIdentity, uid: string, ips: readonly string[]): Promise<Netns | undefined> {
    try {
      return await this.#parts.lookup.find({ uid, ips })
    } catch (error) {
      this.#parts.log.warn(
        { pod: formatPod(pod), error: formatError(error) },
        'the namespace of a pod could not be looked for',
      )
      return undefined
    }
  }
}
