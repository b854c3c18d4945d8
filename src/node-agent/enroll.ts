// SPDX-License-Identifier: Apache-2.0
// Takes pods into the mesh and out of it, one turn at a time for each. For the CNI server, the pod watcher and the sweep, who may all ask for the same pod
// at once. The steps are in way-in.ts and way-out.ts. Whether a pod belongs to the mesh is not its question, nor is trying again.

import { setMaxListeners } from 'node:events'
import { InvalidInput, Retryable, formatError } from '../base/errors.js'
import type { PodIdentity } from './contracts.js'
import { formatPod, type EnrollRequest, type ReleaseRequest, type RestoredPod } from './enrol-requests.js'
import type { EnrolledPod } from './enrolled-pods.js'
import type { EnrollerParts } from './enroller-parts.js'
import { Lanes } from './lanes.js'
import { NetnsLookup } from './netns-lookup.js'
import { isSameNetns, type Netns } from './netns/netns.js'
import { toCanonicalIps } from './pod-ips.js'
import { PodSteps } from './pod-steps.js'
import { restorePods } from './restored-pods.js'
import { Sandboxes } from './sandboxes.js'
import { toFailure } from './step-failures.js'
import { Suspects } from './suspects.js'
import { WayIn } from './way-in.js'
import { WayOut } from './way-out.js'

export class Enroller {
  readonly suspects: Suspects
  readonly #parts: EnrollerParts
  readonly #lanes = new Lanes()
  readonly #lifetime = new AbortController()
  readonly #lookup: NetnsLookup
  readonly #sandboxes: Sandboxes
  readonly #steps: PodSteps
  readonly #in: WayIn
  readonly #out: WayOut

  constructor(parts: EnrollerParts) {
    this.#parts = parts
    const lifetime = this.#lifetime.signal
    // Every pod under way listens, and there may be hundreds.
    setMaxListeners(0, lifetime)
    this.#lookup = new NetnsLookup(parts.finder)
    this.#sandboxes = new Sandboxes(parts.clock, lifetime)
    this.#steps = new PodSteps(parts)
    this.suspects = new Suspects(parts)
    const shared = { lookup: this.#lookup, sandboxes: this.#sandboxes, steps: this.#steps, suspects: this.suspects }
    this.#out = new WayOut({ ...parts, ...shared, lifetime })
    this.#in = new WayIn({ ...parts, ...shared, out: this.#out })
  }

  /** Something is done or waits to be done for this pod. */
  isBusy(uid: string): boolean {
    return this.#lanes.isBusy(uid)
  }

  /** The runtime has just taken the pod's sandbox down: that there is nothing to enrol is no surprise. */
  isDown(uid: string): boolean {
    return this.#sandboxes.isDown(uid)
  }

  /**
   * Resolves when the pod is in the mesh: rules made, ztunnel has acknowledged, probe set and annotation written. What is done already is not done
   * again. Rejects with InvalidInput (nothing of it is left, trying the same again is useless) or Retryable (the pod is at least marked pending).
   */
  async enroll(request: EnrollRequest): Promise<void> {
    const { pod, netnsPath, containerId } = request
    const attempt = this.#sandboxes.begin(pod.uid, { netnsPath, containerId, signal: request.signal })
    const { signal } = attempt
    try {
      await this.#lanes.run(pod.uid, () => this.#in.enroll(request, signal), signal)
      this.#parts.metrics.countAttempt('enrol', 'done')
    } catch (error) {
      const failure = toFailure(pod, error)
      const result = signal.aborted ? 'aborted' : failure instanceof InvalidInput ? 'refused' : 'retried'
      this.#parts.metrics.countAttempt('enrol', result)
      if (failure instanceof Retryable && this.#parts.pods.get(pod.uid) !== undefined) this.#parts.onUnfinished(pod.uid)
      throw failure
    } finally {
      request.netns?.close()
      attempt.end()
    }
  }

  /** Takes the pod out. Rejects with Retryable; what was done is not undone, and what is left is done next time. */
  async release(request: ReleaseRequest): Promise<void> {
    const { pod } = request
    this.#sandboxes.leave(pod.uid)
    try {
      await this.#lanes.run(pod.uid, () => this.#out.release(request))
      this.#parts.metrics.countAttempt('release', 'done')
    } catch (error) {
      this.#parts.metrics.countAttempt('release', 'retried')
      throw toFailure(pod, error)
    }
  }

  /** The pod's addresses have changed: the probe set follows. Rejects with Retryable. */
  async syncAddresses(pod: PodIdentity, ips: readonly string[]): Promise<void> {
    await this.#lanes.run(pod.uid, async () => {
      const row = this.#parts.pods.get(pod.uid)
      if (row === undefined || row.isLeaving) return
      await this.#steps.putAddresses(row, toCanonicalIps(ips))
    })
  }

  /** Writes the pod's addresses into the probe set anew, and nothing else of it stays there. Rejects with Retryable. */
  async refreshAddresses(uid: string): Promise<void> {
    await this.#lanes.run(uid, async () => {
      const row = this.#parts.pods.get(uid)
      if (row === undefined || row.isLeaving || !row.isProbed) return
      await this.#steps.rewriteAddresses(row)
    })
  }

  /**
   * The runtime takes a sandbox down. Lets go only of the pod that is held for that very namespace; when the path leads nowhere any more, of the one
   * whose sandbox has this id. What fails on the way is found by the sweep.
   */
  async releaseNetns(netnsPath: string, containerId: string): Promise<void> {
    const opened = await this.#openOrNothing(netnsPath)
    try {
      const isOurs = (row: EnrolledPod): boolean =>
        opened === undefined
          ? containerId !== '' && row.containerId === containerId
          : row.netns !== undefined && isSameNetns(row.netns, opened)
      const uids = new Set<string>()
      for (const row of this.#parts.pods.values()) if (isOurs(row)) uids.add(row.pod.uid)
      for (const uid of this.#sandboxes.takeDown(netnsPath, containerId)) uids.add(uid)
      await Promise.all([...uids].map((uid) => this.#lanes.run(uid, () => this.#out.endSandbox(uid, isOurs))))
    } finally {
      opened?.close()
    }
  }

  /**
   * Pods that were enrolled before this process was: each gets a row at once and, where one scan finds it, its namespace. Never rejects, and waits
   * no longer for the scan than a ztunnel can be made to wait for its snapshot.
   */
  restore(pods: readonly RestoredPod[]): Promise<void> {
    return restorePods(this.#parts, pods)
  }

  /** Puts the addresses of restored pods into the probe set, found or not: their probes must not fail meanwhile. Never rejects. */
  async putRestoredAddresses(): Promise<void> {
    const { pods, log } = this.#parts
    const put = async (row: EnrolledPod): Promise<void> => {
      try {
        await this.#lanes.run(row.pod.uid, () =>
          row.isLeaving ? Promise.resolve() : this.#steps.putAddresses(row, row.ips),
        )
      } catch (error) {
        log.warn(
          { pod: formatPod(row.pod), error: formatError(error) },
          'an address is not in the probe set; it is tried again',
        )
      }
    }
    await Promise.all([...pods.values()].filter(({ ips }) => ips.length > 0).map(put))
  }

  /** One scan with whoever else looks now; the caller closes what it gets. */
  findNetns(uid: string, ips: readonly string[]): Promise<Netns | undefined> {
    return this.#lookup.find({ uid, ips })
  }

  /** Gives up waiting everywhere, lets the work in hand end and closes every handle. Pods stay enrolled. */
  async close(): Promise<void> {
    this.#lifetime.abort(new Retryable('the agent is stopping'))
    await this.#lanes.drained()
    this.#parts.pods.clear()
  }

  async #openOrNothing(path: string): Promise<Netns | undefined> {
    try {
      return await this.#parts.finder.open(path)
    } catch (error) {
      this.#parts.log.debug(
        { path, error: formatError(error) },
        'the namespace of a sandbox that is taken down is gone already',
      )
      return undefined
    }
  }
}
