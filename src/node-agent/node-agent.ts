// SPDX-License-Identifier: Apache-2.0
// The enrolment of one node, put together from its parts: what should be, what is, who brings the two together, and the regular look. For main and tests.
// Opens nothing itself.

import { createEnrolDecisions } from './enrol-decisions.js'
import type { EnrolledPodDescription, NodeAgent, NodeAgentParts } from './agent-parts.js'
import { AnnotationLedger } from './annotation-ledger.js'
import { EnrolMetrics } from './enrol-metrics.js'
import { Enroller } from './enroll.js'
import { EnrolledPods } from './enrolled-pods.js'
import { sleep } from '../base/clock.js'
import { formatError } from '../base/errors.js'
import { objectKey } from '../kube/records.js'
import { tellLeftOutNamespaces } from './left-out-namespaces.js'
import { formatNetns } from './netns/netns.js'
import { isComplete } from './next-step.js'
import { PodWatcher, toEnrollRequest } from './pod-watcher.js'
import { createPodWishes, type PodWish } from './pod-wishes.js'
import { Sweep } from './sweep.js'

/** So long enrolment waits for the probe set at the start. */
const longestWaitMs = 5_000
/** A ztunnel that is not there by then is missed aloud. */
const ztunnelDueMs = 30_000

/** Makes the tables in the graph at once; nothing is read or done before start(). */
export function createNodeAgent(parts: NodeAgentParts): NodeAgent {
  const { graph, inputs, ztunnels, settings, clock, log, random = Math.random } = parts
  const defaults = settings
  const pods = new EnrolledPods()
  const ledger = new AnnotationLedger()
  const metrics = new EnrolMetrics(parts.registry, pods)
  const wishes = createPodWishes(graph, inputs, settings)
  tellLeftOutNamespaces(graph, wishes, settings.selectors, log)
  const enroller = new Enroller({
    ...parts,
    pods,
    ledger,
    defaults,
    metrics,
    isThere: ({ uid, namespace, name }) => inputs.Pod.get(objectKey(settings.cluster, namespace, name))?.uid === uid,
    onUnfinished: (uid) => watcher.retryLater(uid),
  })
  const watcher = new PodWatcher({ ...parts, wishes, pods, ledger, enroller, defaults, metrics, random })
  const sweep = new Sweep({ ...parts, pods, wishes, ledger, enroller, watcher, defaults, metrics, random })
  let isStarted = false
  let isOffered = false
  /** The start is over: what it put right beside the pods, too. */
  let begun: Promise<void> = Promise.resolve()
  let resolveEnded: () => void = () => undefined
  const ended = new Promise<void>((resolve) => (resolveEnded = resolve))

  async function start(signal: AbortSignal): Promise<void> {
    const all = [...wishes.pods.values()]
    await enroller.restore(
      all
        .filter(isInFirstSnapshot)
        .map((wish) => ({ request: toEnrollRequest(wish), redirection: wish.redirection ?? 'pending' })),
    )
    for (const wish of all) if (isStray(wish)) enroller.suspects.add({ ...wish, wasEnrolled: false })
    isStarted = true
    const due = clock.after(ztunnelDueMs, () => {
      if (ztunnels.connected > 0) return
      const hint = 'pods that run wait as pending, and pods that start are held back, until ztunnel runs on this node'
      log.warn({ hint }, 'no ztunnel is connected yet')
    })
    signal.addEventListener('abort', () => due.cancel(), { once: true })
    begun = new Promise((resolve) => void goOn(signal, resolve))
  }

  async function orWarn(task: () => Promise<void>): Promise<void> {
    try {
      await task()
    } catch (error) {
      log.warn({ error: formatError(error) }, 'the probe set could not be put right; it is tried again')
    }
  }

  async function goOn(signal: AbortSignal, onBegun: () => void): Promise<void> {
    // Without the set every pod would end as pending, so it comes first; but it keeps nobody waiting for long.
    const waited = new AbortController()
    const enough = sleep(clock, longestWaitMs, waited.signal).catch(() => undefined)
    const made = orWarn(() => sweep.probeSet.make())
    await Promise.race([made, enough])
    if (!signal.aborted) {
      await Promise.race([enroller.putRestoredAddresses(), enough])
      waited.abort()
      watcher.start()
      await orWarn(() => sweep.probeSet.look())
      onBegun()
      await sweep.run(signal)
    }
    onBegun()
    waited.abort()
    watcher.stop()
    await enroller.close()
    resolveEnded()
  }

  return {
    start,
    ended,
    async idle() {
      await begun
      await watcher.idle()
    },
    selectZdsPods() {
      watcher.noticeZtunnel()
      return pods.selectZdsPods()
    },
    decisions: createEnrolDecisions({ inputs, wishes, settings, enroller, isStarted: () => isStarted }),
    pending() {
      isOffered ||= ztunnels.ready > 0
      if (!isStarted) return ['the pods of this node are not known yet']
      const out: string[] = []
      if (!sweep.probeSet.isThere) out.push('the probe set could not be made')
      if (!isOffered && ztunnels.connected > 0) out.push('no ztunnel has its first snapshot yet')
      return out
    },
    describe: () =>
      [...pods.values()].map((row): EnrolledPodDescription => ({
        uid: row.pod.uid,
        namespace: row.pod.namespace,
        name: row.pod.name,
        ips: row.ips,
        netns: row.netns && formatNetns(row.netns),
        enrolled: isComplete(row, ledger.get(row.pod.uid)),
        annotation: ledger.get(row.pod.uid),
      })),
  }
}

/** A ztunnel that runs may hold it. Whether it belongs to the mesh still is asked right after. */
export function isInFirstSnapshot(wish: PodWish): boolean {
  if (wish.ended || wish.isZtunnel) return false
  return wish.redirection === 'enabled' || (wish.redirection === 'pending' && wish.verdict.eligible)
}

/** Nobody speaks of it, yet an agent that was killed may have left its rules in there. */
function isStray({ verdict, redirection, ended, onHostNetwork, ips }: PodWish): boolean {
  const mayBe = !verdict.eligible && verdict.why !== 'sidecar' && verdict.why !== 'unknown-namespace'
  return mayBe && redirection === undefined && !ended && !onHostNetwork && ips.length > 0
}
