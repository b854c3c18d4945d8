// SPDX-License-Identifier: Apache-2.0
// The steps of a pod on its way into the mesh, in their order: its namespace, rules, ztunnel, probe set, annotation. For the enrolment alone, which gives
// each pod one turn at a time.

import { InvalidInput } from '../base/errors.js'
import { tellAnnotationProblems } from './annotation-problems.js'
import type { PodRuleOptions } from './contracts.js'
import { formatPod, type EnrollRequest } from './enrol-requests.js'
import type { EnrolledPod } from './enrolled-pods.js'
import type { EnrollerParts } from './enroller-parts.js'
import type { NetnsLookup } from './netns-lookup.js'
import { formatNetns, isSameNetns, type Netns } from './netns/netns.js'
import { isSameIps, toCanonicalIps } from './pod-ips.js'
import type { PodSteps } from './pod-steps.js'
import { toOptionsKey } from './rules/generation.js'
import { parsePodOverrides } from './rules/overrides.js'
import type { Sandboxes } from './sandboxes.js'
import type { Suspects } from './suspects.js'
import type { WayOut } from './way-out.js'

export interface WayInParts extends EnrollerParts {
  readonly lookup: NetnsLookup
  readonly sandboxes: Sandboxes
  readonly steps: PodSteps
  readonly suspects: Suspects
  readonly out: WayOut
}

export class WayIn {
  readonly #parts: WayInParts

  constructor(parts: WayInParts) {
    this.#parts = parts
  }

  /** Does what is not done yet. Of a step that fails nothing is left in the namespace; after the rules, the pod is marked pending. */
  async enroll(request: EnrollRequest, signal: AbortSignal): Promise<void> {
    const { rules, ztunnels, steps, suspects, out, defaults, log, ledger } = this.#parts
    const { pod } = request
    if (!this.#parts.isThere(pod)) throw new InvalidInput('it is gone')
    const { options, warnings } = parsePodOverrides({ ...pod, annotations: request.annotations ?? {} }, defaults)
    const netns = await this.#resolve(request)
    let row: EnrolledPod
    try {
      row = await this.#rule(request, netns, options)
    } finally {
      netns.close()
    }
    tellAnnotationProblems(row, warnings, log)
    takeRequest(row, request)
    suspects.delete(pod.uid)
    const told = row.netns
    try {
      if (!this.#isTold(row, request.netnsPath !== undefined) && told !== undefined) {
        row.isTold = false
        await ztunnels.add(pod, told, signal)
        row.isTold = true
      }
      await steps.putAddresses(row, row.ips)
    } catch (error) {
      if ((await steps.annotate(row.pod, 'pending')) === 'gone') return out.letGo(pod)
      throw error
    }
    if (!this.#parts.isThere(pod)) return out.letGo(pod)
    if (ledger.get(pod.uid) !== 'enabled') {
      if ((await steps.annotate(pod, 'enabled')) === 'gone') return out.letGo(pod)
      log.info(
        { pod: formatPod(pod), ips: row.ips, netns: formatNetns(told ?? netns), rules: rules.backend },
        'enrolled',
      )
    }
    this.#parts.listener?.onEnrolled(pod)
  }

  /** An own handle. */
  async #resolve(request: EnrollRequest): Promise<Netns> {
    const { pods, finder, lookup, sandboxes } = this.#parts
    const { pod, netns, netnsPath } = request
    const known = pods.get(pod.uid)
    if (netns !== undefined) return this.#unlessEnded(pod.uid, netns.share())
    if (netnsPath !== undefined) {
      const opened = await finder.open(netnsPath)
      sandboxes.forgetEnded(pod.uid)
      return opened
    }
    if (known?.netns !== undefined) return known.netns.share()
    const ips = toCanonicalIps(request.ips)
    const uid = request.processUid ?? pod.uid
    const seen = new Set<string>()
    const found = await lookup.find({ uid, ips: ips.length > 0 ? ips : (known?.ips ?? []) }, seen)
    if (found === undefined) {
      throw new InvalidInput(
        seen.has(uid)
          ? 'its processes were seen, but none of their network namespaces has its address'
          : "no process of this pod was seen in a network namespace of its own (the host's is never taken); are the host's processes below ADDRESSD_HOST_PROC?",
      )
    }
    return this.#unlessEnded(pod.uid, found)
  }

  #unlessEnded(uid: string, found: Netns): Netns {
    if (!this.#parts.sandboxes.isEnded(uid, found)) return found
    found.close()
    throw new InvalidInput('the runtime has taken its sandbox down, and there is no other yet')
  }

  /** Makes the rules what they shall be, and only then is the namespace the pod's. */
  async #rule(request: EnrollRequest, netns: Netns, options: PodRuleOptions): Promise<EnrolledPod> {
    const { pods, rules } = this.#parts
    const known = pods.get(request.pod.uid)
    const isSame = known?.netns !== undefined && isSameNetns(known.netns, netns)
    try {
      if (!isSame || (await rules.check(netns, options)) !== 'complete') await rules.apply(netns, options)
    } catch (error) {
      if (isSame) known.isRuled = false
      throw error
    }
    const row = pods.ensure(request.pod)
    row.settle(netns.share())
    if (isSame && row.options !== undefined && toOptionsKey(row.options) !== toOptionsKey(options)) {
      const fields = { pod: formatPod(row.pod), netns: formatNetns(netns), rules: rules.backend, options }
      this.#parts.log.info(fields, 'the rules of a pod follow its annotations')
    }
    row.options = options
    row.isRuled = true
    return row
  }

  /** Nothing has to be said to ztunnel. Who asks for the runtime wants its acknowledgement; else without any ztunnel the next snapshot says it. */
  #isTold(row: EnrolledPod, strict: boolean): boolean {
    const { ztunnels } = this.#parts
    if (!row.isTold || row.netns === undefined) return false
    if (!strict && ztunnels.ready === 0) return true
    const held = ztunnels.held().get(row.pod.uid)
    return held !== undefined && isSameNetns(held, row.netns)
  }
}

function takeRequest(row: EnrolledPod, request: EnrollRequest): void {
  const ips = toCanonicalIps(request.ips)
  if (ips.length > 0 && !isSameIps(ips, row.ips)) {
    row.ips = ips
    row.isProbed = false
  }
  row.isLeaving = false
  if (request.netnsPath === undefined) return
  row.netnsPath = request.netnsPath
  row.containerId = request.containerId
  row.outdated = request.outdatedIps === undefined ? undefined : toCanonicalIps(request.outdatedIps)
}
