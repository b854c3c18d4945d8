// SPDX-License-Identifier: Apache-2.0
// Takes pods into the mesh and out of it: rules, ztunnel, probe set, annotation, in this order. For the CNI server, the pod watcher and the sweep, who
// may all ask for the same pod at once. Whether a pod belongs to the mesh is not its question, nor is trying again.

import { setMaxListeners } from 'node:events'
import { InvalidInput, Retryable, formatError } from '../base/errors.js'
import { sleep, type Clock } from '../base/clock.js'
import type { Logger } from '../base/log.js'
import type { Labels } from '../kube/records.js'
import type { EnrolmentListener } from './agent-parts.js'
import type { AnnotationLedger } from './annotation-ledger.js'
import type {
  NetnsFinder,
  PodAnnotator,
  PodIdentity,
  PodRuleOptions,
  PodRules,
  ProbeSet,
  Redirection,
  Ztunnels,
} from './contracts.js'
import type { EnrolMetrics } from './enrol-metrics.js'
import type { EnrolledPod, EnrolledPods } from './enrolled-pods.js'
import { Lanes } from './lanes.js'
import { NetnsLookup } from './netns-lookup.js'
import { formatNetns, isSameNetns, type Netns, type NetnsId } from './netns/netns.js'
import { isSameIps, toCanonicalIps } from './pod-ips.js'
import { parsePodOverrides, type RuleDefaults } from './rules/overrides.js'
import { Suspects } from './suspects.js'

export interface EnrollRequest {
  readonly pod: PodIdentity
  /** Empty: those that are known already stay. */
  readonly ips: readonly string[]
  readonly annotations: Labels | undefined
  /** The uid that the node's processes carry, where it is another one (static pods). */
  readonly processUid?: string
  /** Of the runtime: this namespace and no other, opened anew. */
  readonly netnsPath?: string
  readonly containerId?: string
  /** Of the runtime's request: what the pod's object says of its addresses, which is older. */
  readonly outdatedIps?: readonly string[]
  /** Found by somebody else; a handle of the caller's that is closed here in any case. */
  readonly netns?: Netns
  /** Gives up waiting for ztunnel. */
  readonly signal?: AbortSignal
}

/**
 * `left`: the pod lives on, outside the mesh. `ended`: it has ended or will; its namespace is not entered. `gone`: the same, and its object too,
 * so nothing is written back.
 */
export type Farewell = 'left' | 'ended' | 'gone'

export interface ReleaseRequest {
  readonly pod: PodIdentity
  readonly how: Farewell
  readonly ips?: readonly string[]
  readonly processUid?: string
  /** It never had a namespace of its own. */
  readonly onHostNetwork?: boolean
}

/** A pod whose annotation says that it is enrolled. */
export interface RestoredPod {
  readonly request: EnrollRequest
  readonly redirection: Redirection
}

export interface EnrollerParts {
  readonly pods: EnrolledPods
  readonly ledger: AnnotationLedger
  readonly rules: PodRules
  readonly probeSet: ProbeSet
  readonly ztunnels: Ztunnels
  readonly finder: NetnsFinder
  readonly annotator: PodAnnotator
  readonly defaults: RuleDefaults
  readonly metrics: EnrolMetrics
  readonly clock: Clock
  readonly log: Logger
  /** The pod is in the tables now, with this uid. */
  isThere(pod: PodIdentity): boolean
  /** A try ended before its end, by an error that may pass: somebody must try again. */
  onUnfinished(uid: string): void
  readonly listener?: EnrolmentListener | undefined
}

interface Sandbox {
  readonly netnsPath: string | undefined
  readonly containerId: string | undefined
  readonly controller: AbortController
}

/** So long a namespace that the runtime took down is not taken for the pod's, though a process may still be seen in it. */
const endedMs = 60_000
/** So long the first snapshot waits for a scan of /proc. */
const longestScanMs = 5_000

export class Enroller {
  readonly suspects: Suspects
  readonly #parts: EnrollerParts
  readonly #lanes = new Lanes()
  readonly #lookup: NetnsLookup
  /** Tries that run or wait, by pod. */
  readonly #tries = new Map<string, Set<Sandbox>>()
  readonly #ended = new Map<string, NetnsId & { readonly atMs: number }>()
  readonly #lifetime = new AbortController()

  constructor(parts: EnrollerParts) {
    this.#parts = parts
    // Every pod under way listens, and there may be hundreds.
    setMaxListeners(0, this.#lifetime.signal)
    this.#lookup = new NetnsLookup(parts.finder)
    this.suspects = new Suspects(parts)
  }

  /** Something is done or waits to be done for this pod. */
  isBusy(uid: string): boolean {
    return this.#lanes.isBusy(uid)
  }

  /**
   * Resolves when the pod is in the mesh: rules made, ztunnel has acknowledged, probe set and annotation written. What is done already is not done
   * again. Rejects with InvalidInput (nothing of it is left, trying the same again is useless) or Retryable (the pod is at least marked pending).
   */
  async enroll(request: EnrollRequest): Promise<void> {
    const { pod, signal, netns } = request
    // A newer sandbox: whoever waits for ztunnel on behalf of an older one gives way, and so does who tries by himself.
    const { netnsPath } = request
    if (netnsPath !== undefined) {
      const reason = 'a newer sandbox of the pod was announced'
      this.#abortTries(pod.uid, reason, (other) => other.netnsPath !== netnsPath)
    }
    const controller = new AbortController()
    const unlink = [link(controller, signal), link(controller, this.#lifetime.signal)]
    const sandbox: Sandbox = { netnsPath, containerId: request.containerId, controller }
    const tries = this.#tries.get(pod.uid) ?? new Set()
    this.#tries.set(pod.uid, tries.add(sandbox))
    try {
      await this.#lanes.run(pod.uid, () => this.#enroll(request, controller.signal), controller.signal)
      this.#parts.metrics.countAttempt('enrol', 'done')
    } catch (error) {
      const failure = toFailure(pod, error)
      const result = controller.signal.aborted ? 'aborted' : failure instanceof InvalidInput ? 'refused' : 'retried'
      this.#parts.metrics.countAttempt('enrol', result)
      if (failure instanceof Retryable && this.#parts.pods.get(pod.uid) !== undefined) this.#parts.onUnfinished(pod.uid)
      throw failure
    } finally {
      for (const undo of unlink) undo()
      netns?.close()
      tries.delete(sandbox)
      if (tries.size === 0) this.#tries.delete(pod.uid)
    }
  }

  /** Takes the pod out. Rejects with Retryable; what was done is not undone, and what is left is done next time. */
  async release(request: ReleaseRequest): Promise<void> {
    const { uid } = request.pod
    this.#abortTries(uid, 'the pod leaves the mesh')
    await this.#releaseInTurn(request)
  }

  /** The pod's addresses have changed: the probe set follows. Rejects with Retryable. */
  async syncAddresses(pod: PodIdentity, ips: readonly string[]): Promise<void> {
    await this.#lanes.run(pod.uid, async () => {
      const row = this.#parts.pods.get(pod.uid)
      if (row === undefined || row.isLeaving) return
      await this.#putAddresses(row, toCanonicalIps(ips))
    })
  }

  /** Writes the pod's addresses into the probe set anew, and nothing else of it stays there. Rejects with Retryable. */
  async refreshAddresses(uid: string): Promise<void> {
    await this.#lanes.run(uid, async () => {
      const row = this.#parts.pods.get(uid)
      if (row === undefined || row.isLeaving || !row.isProbed) return
      row.isProbed = false
      await this.#parts.probeSet.remove(uid)
      await this.#putAddresses(row, row.ips)
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
      for (const [uid, tries] of this.#tries) {
        for (const sandbox of tries) {
          const isSame = sandbox.netnsPath === netnsPath || (containerId !== '' && sandbox.containerId === containerId)
          if (sandbox.netnsPath === undefined || !isSame) continue
          sandbox.controller.abort(new Retryable('the runtime takes the sandbox down'))
          uids.add(uid)
        }
      }
      await Promise.all([...uids].map((uid) => this.#lanes.run(uid, () => this.#endSandbox(uid, isOurs))))
    } finally {
      opened?.close()
    }
  }

  /**
   * Pods that were enrolled before this process was: each gets a row at once and, where one scan finds it, its namespace. Never rejects, and waits
   * no longer for the scan than a ztunnel can be made to wait for its snapshot.
   */
  async restore(pods: readonly RestoredPod[]): Promise<void> {
    for (const { request, redirection } of pods) {
      const row = this.#parts.pods.ensure(request.pod)
      row.ips = toCanonicalIps(request.ips)
      // Its ztunnel has it, or learns of it by the next snapshot.
      row.isTold = redirection === 'enabled'
    }
    if (pods.length === 0) return
    const waited = new AbortController()
    const enough = sleep(this.#parts.clock, longestScanMs, waited.signal).catch(() => undefined)
    await Promise.race([this.#findRestored(pods), enough])
    waited.abort()
  }

  async #findRestored(pods: readonly RestoredPod[]): Promise<void> {
    const uidOf = ({ processUid, pod }: EnrollRequest): string => processUid ?? pod.uid
    try {
      const wanted = pods.map(({ request }) => ({ uid: uidOf(request), ips: toCanonicalIps(request.ips) }))
      const found = await this.#parts.finder.find(wanted)
      for (const { request } of pods) {
        const row = this.#parts.pods.get(request.pod.uid)
        const netns = found.get(uidOf(request))
        // Late, and somebody else was faster: what he found counts.
        if (netns === undefined || row === undefined || row.netns !== undefined) continue
        const { isTold } = row
        row.settle(netns.share())
        row.isTold = isTold
      }
      for (const netns of found.values()) netns.close()
    } catch (error) {
      this.#parts.log.warn(
        { pods: pods.map(({ request }) => formatPod(request.pod)), error: formatError(error) },
        'the namespaces of enrolled pods were not found; ztunnel is told to keep what it has',
      )
    }
  }

  /** Puts the addresses of restored pods into the probe set, found or not: their probes must not fail meanwhile. Never rejects. */
  async putRestoredAddresses(): Promise<void> {
    const { pods, log } = this.#parts
    const put = async (row: EnrolledPod): Promise<void> => {
      try {
        await this.#lanes.run(row.pod.uid, () => (row.isLeaving ? Promise.resolve() : this.#putAddresses(row, row.ips)))
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

  async #enroll(request: EnrollRequest, signal: AbortSignal): Promise<void> {
    const { rules, defaults, log, ledger } = this.#parts
    const { pod } = request
    if (!this.#parts.isThere(pod)) throw new InvalidInput('it is gone')
    const { options, warnings } = parsePodOverrides({ ...pod, annotations: request.annotations ?? {} }, defaults)
    for (const warning of warnings) log.warn({ pod: formatPod(pod), warning }, 'an annotation of a pod is not followed')
    const netns = await this.#resolve(request)
    let row: EnrolledPod
    try {
      row = await this.#rule(request, netns, options)
    } finally {
      netns.close()
    }
    takeRequest(row, request)
    this.suspects.delete(pod.uid)
    const told = row.netns
    try {
      if (!this.#isTold(row, request.netnsPath !== undefined) && told !== undefined) {
        row.isTold = false
        await this.#parts.ztunnels.add(pod, told, signal)
        row.isTold = true
      }
      await this.#putAddresses(row, row.ips)
    } catch (error) {
      if ((await this.#annotate(row.pod, 'pending')) === 'gone') return this.#letGo(pod)
      throw error
    }
    if (!this.#parts.isThere(pod)) return this.#letGo(pod)
    if (ledger.get(pod.uid) !== 'enabled') {
      if ((await this.#annotate(pod, 'enabled')) === 'gone') return this.#letGo(pod)
      log.info(
        { pod: formatPod(pod), ips: row.ips, netns: formatNetns(told ?? netns), rules: rules.backend },
        'enrolled',
      )
    }
    this.#parts.listener?.onEnrolled(pod)
  }

  /** An own handle. */
  async #resolve(request: EnrollRequest): Promise<Netns> {
    const { pod, netns, netnsPath } = request
    const known = this.#parts.pods.get(pod.uid)
    if (netns !== undefined) return this.#unlessEnded(pod, netns.share())
    if (netnsPath !== undefined) {
      const opened = await this.#parts.finder.open(netnsPath)
      this.#ended.delete(pod.uid)
      return opened
    }
    if (known?.netns !== undefined) return known.netns.share()
    const ips = toCanonicalIps(request.ips)
    const found = await this.#lookup.find({
      uid: request.processUid ?? pod.uid,
      ips: ips.length > 0 ? ips : (known?.ips ?? []),
    })
    if (found === undefined) {
      throw new InvalidInput(
        "none of its processes was found in a network namespace of its own that has its address (the host's is never taken)",
      )
    }
    return this.#unlessEnded(pod, found)
  }

  /** A process may still be seen in a namespace that the runtime has just taken down. */
  #unlessEnded(pod: PodIdentity, found: Netns): Netns {
    const ended = this.#ended.get(pod.uid)
    if (ended === undefined || !isSameNetns(ended, found)) return found
    if (this.#parts.clock.monotonic() - ended.atMs > endedMs) return found
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
    row.options = options
    row.isRuled = true
    return row
  }

  /** Nothing has to be said to ztunnel. Who asks for the runtime wants its acknowledgement; else without any ztunnel the next snapshot says it. */
  #isTold(row: EnrolledPod, strict: boolean): boolean {
    if (!row.isTold || row.netns === undefined) return false
    if (!strict && this.#parts.ztunnels.ready === 0) return true
    const held = this.#parts.ztunnels.held().get(row.pod.uid)
    return held !== undefined && isSameNetns(held, row.netns)
  }

  async #putAddresses(row: EnrolledPod, ips: readonly string[]): Promise<void> {
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

  async #annotate(pod: PodIdentity, value: Redirection | undefined): Promise<'written' | 'gone'> {
    const { ledger, annotator } = this.#parts
    if (ledger.get(pod.uid) === value && value !== undefined) return 'written'
    const outcome = await annotator.annotate(pod, value)
    if (outcome === 'written') ledger.write(pod.uid, value)
    return outcome
  }

  /** The pod was deleted while it was being enrolled. */
  async #letGo(pod: PodIdentity): Promise<never> {
    await this.#release({ pod, how: 'gone' })
    throw new InvalidInput('it was deleted while it was being enrolled')
  }

  async #releaseInTurn(request: ReleaseRequest): Promise<void> {
    try {
      await this.#lanes.run(request.pod.uid, () => this.#release(request))
      this.#parts.metrics.countAttempt('release', 'done')
    } catch (error) {
      this.#parts.metrics.countAttempt('release', 'retried')
      throw toFailure(request.pod, error)
    }
  }

  async #release(request: ReleaseRequest): Promise<void> {
    const { pods, ztunnels, probeSet, ledger, log } = this.#parts
    const { pod, how } = request
    const { uid } = pod
    // Whatever fails below, from here on nobody may count on it.
    this.#parts.listener?.onReleased(uid)
    const row = pods.get(uid)
    if (row !== undefined) {
      row.isProbed = false
      row.isLeaving ||= how !== 'left'
    }
    const steps = [(): Promise<void> => probeSet.remove(uid)]
    if (how === 'left') {
      // While the rules are there the proxy must be.
      steps.push(async () => {
        await this.#unrule(request, row)
        if (row !== undefined) {
          row.isLeaving = true
          row.isTold = false
        }
        await ztunnels.remove(uid, this.#lifetime.signal)
      })
    } else {
      steps.push(() => ztunnels.remove(uid, this.#lifetime.signal))
    }
    await inAnyCase(steps)
    if (how !== 'gone') {
      try {
        await this.#annotate(pod, undefined)
      } catch (error) {
        if (how === 'left') throw error
        log.debug({ pod: formatPod(pod), error: formatError(error) }, 'the annotation of a finished pod stays')
      }
    }
    pods.remove(uid)
    if (how === 'gone') {
      this.#ended.delete(uid)
      // The API server says so before our tables do, or it is wrong: then the rest is not forgotten.
      if (this.#parts.isThere(pod)) this.suspects.add({ pod, processUid: uid, ips: row?.ips ?? [], wasEnrolled: true })
      else {
        this.suspects.delete(uid)
        ledger.forget(uid)
      }
    }
    log[row === undefined ? 'debug' : 'info']({ pod: formatPod(pod), how }, 'released')
  }

  async #unrule(request: ReleaseRequest, row: EnrolledPod | undefined): Promise<void> {
    const { rules, log } = this.#parts
    const { pod, ips = [], processUid = pod.uid } = request
    const known = row?.netns?.share()
    const netns =
      known ?? (request.onHostNetwork === true ? undefined : await this.#findOrNothing(pod, processUid, ips))
    if (netns === undefined) {
      if (request.onHostNetwork !== true) this.suspects.add({ pod, processUid, ips, wasEnrolled: true })
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
      return await this.#lookup.find({ uid, ips })
    } catch (error) {
      this.#parts.log.warn(
        { pod: formatPod(pod), error: formatError(error) },
        'the namespace of a pod could not be looked for',
      )
      return undefined
    }
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

  async #endSandbox(uid: string, isOurs: (row: EnrolledPod) => boolean): Promise<void> {
    const row = this.#parts.pods.get(uid)
    if (row === undefined || !isOurs(row)) return
    const { pod, netns } = row
    if (netns !== undefined) {
      this.#ended.set(uid, { inode: netns.inode, device: netns.device, atMs: this.#parts.clock.monotonic() })
    }
    try {
      await this.#release({ pod, how: this.#parts.isThere(pod) ? 'ended' : 'gone' })
    } catch (error) {
      this.#parts.pods.remove(uid)
      this.#parts.log.warn(
        { pod: formatPod(pod), error: formatError(error) },
        'a sandbox was taken down; the rest of it is cleared up later',
      )
    }
  }

  #abortTries(uid: string, why: string, which: (sandbox: Sandbox) => boolean = () => true): void {
    for (const sandbox of this.#tries.get(uid) ?? []) {
      if (which(sandbox)) sandbox.controller.abort(new Retryable(why))
    }
  }
}

export function formatPod(pod: PodIdentity): string {
  return `${pod.namespace}/${pod.name}`
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

/** Does each though others fail, then rejects with the first failure. */
async function inAnyCase(steps: readonly (() => Promise<void>)[]): Promise<void> {
  const results = await Promise.allSettled(steps.map((step) => step()))
  for (const result of results) if (result.status === 'rejected') throw result.reason
}

/** Aborts the controller with the signal; the result undoes the link. */
function link(controller: AbortController, signal: AbortSignal | undefined): () => void {
  if (signal === undefined) return () => undefined
  const onAbort = (): void => controller.abort(signal.reason)
  if (signal.aborted) onAbort()
  else signal.addEventListener('abort', onAbort, { once: true })
  return () => signal.removeEventListener('abort', onAbort)
}

/** Every failure as one of the two classes, with the pod's name in front. */
function toFailure(pod: PodIdentity, error: unknown): InvalidInput | Retryable {
  const prefix = `pod ${formatPod(pod)}: `
  const text = formatError(error)
  const message = text.startsWith(prefix) ? text : `${prefix}${text}`
  return error instanceof InvalidInput ? new InvalidInput(message, error) : new Retryable(message, error)
}
