// SPDX-License-Identifier: Apache-2.0
// The regular look at what is: namespaces, rules, what ztunnel holds, the probe set, marks on pods. It marks what differs and has the watcher mend it; what
// belongs to nobody it takes away itself. Cheap where nothing changed. No failure of one part or pod keeps it from the others.

import { sleep } from '../base/clock.js'
import { formatError } from '../base/errors.js'
import type { PodIdentity } from './contracts.js'
import { formatPod } from './enrol-requests.js'
import type { EnrolledPod } from './enrolled-pods.js'
import { isSameNetns, type Netns } from './netns/netns.js'
import { selectNextStep } from './next-step.js'
import type { PodWish } from './pod-wishes.js'
import { ProbeSetLook } from './probe-set-look.js'
import { noteMended, type SweepParts } from './sweep-parts.js'

/** The longest time between the beginnings of two looks, in milliseconds. */
export const sweepMs = 60_000
/** The pause is between two thirds of that and five sixths: what is found is mended within the time. */
const longestPauseMs = (sweepMs * 5) / 6
const spread = 0.2
/** The first look comes soon: at the start there are pods whose namespace is not found. */
const firstPauseMs = 5_000
/** Pods looked at side by side. */
const breadth = 16

export class Sweep {
  readonly probeSet: ProbeSetLook
  readonly #parts: SweepParts

  constructor(parts: SweepParts) {
    this.#parts = parts
    this.probeSet = new ProbeSetLook(parts)
  }

  /** Looks until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, random } = this.#parts
    let pauseMs = firstPauseMs
    while (!signal.aborted) {
      try {
        await sleep(clock, pauseMs, signal)
      } catch {
        return // aborted
      }
      const startMs = clock.monotonic()
      await this.look(signal)
      pauseMs = Math.max(0, longestPauseMs * (1 - spread * random()) - (clock.monotonic() - startMs))
    }
  }

  /** One look. Never rejects. */
  async look(signal: AbortSignal): Promise<void> {
    const parts = [
      (): Promise<void> => this.probeSet.look(),
      (): Promise<void> => this.#lookAtNamespaces(),
      (): Promise<void> => this.#lookAtRules(),
      (): Promise<void> => this.#lookAtZtunnels(),
      (): Promise<void> => this.#lookAtRefused(),
    ]
    for (const part of parts) {
      if (signal.aborted) return
      try {
        await part()
      } catch (error) {
        this.#parts.log.warn(
          { error: formatError(error) },
          'a part of the regular check failed; it is done again next time',
        )
      }
    }
  }

  async #lookAtNamespaces(): Promise<void> {
    const { pods, wishes, enroller, watcher } = this.#parts
    const unsure: EnrolledPod[] = []
    await inBreadth([...pods.values()], async (row) => {
      if (!enroller.isBusy(row.pod.uid) && !row.isLeaving && !(await this.#isWhereItWas(row))) unsure.push(row)
    })
    const missing = [...wishes.pods.values()].filter((wish) => this.#isMissing(wish))
    const suspects = enroller.suspects.values()
    const look = async (
      pod: PodIdentity,
      ips: readonly string[],
      take: (netns: Netns) => void | Promise<void>,
    ): Promise<void> => {
      const wish = wishes.pods.get(pod.uid)
      const netns = await enroller.findNetns(wish?.processUid ?? pod.uid, ips)
      if (netns !== undefined) await take(netns)
    }
    await Promise.all([
      ...unsure.map((row) => look(row.pod, row.ips, (netns) => this.#takeFound(row, netns))),
      ...missing.map(({ pod, ips }) => look(pod, ips, (netns) => watcher.poke(pod.uid, netns))),
      ...suspects.map((suspect) =>
        look(suspect.pod, suspect.ips, async (netns) => {
          try {
            await enroller.suspects.judge(suspect, netns)
          } finally {
            netns.close()
          }
        }),
      ),
    ])
  }

  /** The runtime's own path still leads to the namespace that we hold. */
  async #isWhereItWas(row: EnrolledPod): Promise<boolean> {
    const { netns, netnsPath } = row
    if (netnsPath === undefined || netns === undefined) return false
    try {
      const opened = await this.#parts.finder.open(netnsPath)
      try {
        return isSameNetns(opened, netns)
      } finally {
        opened.close()
      }
    } catch {
      return false // not there any more, or something else: /proc knows
    }
  }

  /** Wanted, and not in the table: no namespace was found, or it was refused. */
  #isMissing(wish: PodWish): boolean {
    const { pods, ledger, enroller, defaults } = this.#parts
    const { uid } = wish.pod
    if (pods.get(uid) !== undefined || enroller.isBusy(uid)) return false
    return selectNextStep(wish, undefined, ledger.get(uid), defaults).verb === 'enroll'
  }

  #takeFound(row: EnrolledPod, netns: Netns): void {
    if (row.netns !== undefined && isSameNetns(row.netns, netns)) {
      netns.close()
      return
    }
    noteMended(this.#parts, 'namespace', row.pod)
    // Nothing is done in there yet; the watcher sees a step missing and takes the handle along.
    row.isRuled = false
    this.#parts.watcher.poke(row.pod.uid, netns)
  }

  async #lookAtRules(): Promise<void> {
    const { pods, enroller, rules, watcher } = this.#parts
    await inBreadth([...pods.values()], async (row) => {
      const { pod, netns, options } = row
      if (netns === undefined || options === undefined || !row.isRuled || row.isLeaving || enroller.isBusy(pod.uid))
        return
      const handle = netns.share()
      try {
        if ((await rules.check(handle, options)) === 'complete' || enroller.isBusy(pod.uid)) return
        noteMended(this.#parts, 'rules', pod)
        row.isRuled = false
        watcher.poke(pod.uid)
      } catch (error) {
        this.#parts.log.warn(
          { pod: formatPod(pod), error: formatError(error) },
          'the rules of a pod could not be looked at',
        )
      } finally {
        handle.close()
      }
    })
  }

  async #lookAtZtunnels(): Promise<void> {
    const { pods, ztunnels, enroller, watcher, log } = this.#parts
    if (ztunnels.ready === 0) return
    const held = ztunnels.held()
    for (const row of pods.values()) {
      const { uid } = row.pod
      const at = held.get(uid)
      if (row.netns === undefined || !row.isTold || row.isLeaving || enroller.isBusy(uid)) continue
      if (at !== undefined && isSameNetns(at, row.netns)) continue
      noteMended(this.#parts, 'ztunnel', row.pod)
      row.isTold = false
      watcher.poke(uid)
    }
    for (const uid of held.keys()) {
      if (pods.get(uid) !== undefined || enroller.isBusy(uid)) continue
      noteMended(this.#parts, 'ztunnel', undefined, { uid })
      try {
        await ztunnels.remove(uid)
      } catch (error) {
        log.warn({ uid, error: formatError(error) }, 'ztunnel could not be told to let go of a pod')
      }
    }
  }

  /** Whatever is not as it should be and waits for nothing gets another try: errors that are not retried, pods that left only half. */
  async #lookAtRefused(): Promise<void> {
    const { wishes, pods, ledger, defaults, enroller, watcher } = this.#parts
    for (const wish of wishes.pods.values()) {
      const { uid } = wish.pod
      const row = pods.get(uid)
      // Without a namespace there is nothing new to try: the scan just before has not found it.
      if (enroller.isBusy(uid) || (row === undefined ? this.#isMissing(wish) : row.netns === undefined)) continue
      if (selectNextStep(wish, row, ledger.get(uid), defaults).verb !== 'nothing') watcher.poke(uid)
    }
    for (const row of [...pods.values()]) if (wishes.pods.get(row.pod.uid) === undefined) await this.#dropOrphan(row)
  }

  /** A row whose pod is gone and that nobody works on. */
  async #dropOrphan({ pod }: EnrolledPod): Promise<void> {
    const { enroller, log } = this.#parts
    if (enroller.isBusy(pod.uid)) return
    try {
      await enroller.release({ pod, how: 'gone' })
    } catch (error) {
      log.warn({ pod: formatPod(pod), error: formatError(error) }, 'a pod that is gone could not be let go of')
    }
  }
}

/** Does `task` for each, a few at a time. */
async function inBreadth<T>(items: readonly T[], task: (item: T) => Promise<void>): Promise<void> {
  let next = 0
  const walk = async (): Promise<void> => {
    for (;;) {
      const item = items[next++]
      if (item === undefined) return
      await task(item)
    }
  }
  await Promise.all(Array.from({ length: Math.min(breadth, items.length) }, walk))
}
