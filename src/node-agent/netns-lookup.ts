// SPDX-License-Identifier: Apache-2.0
// Looks for namespaces of pods through /proc for whoever asks, many at a time: who asks while a scan runs shares the next one. For enrolment and sweep.

import type { NetnsFinder, WantedPod } from './contracts.js'
import type { Netns } from './netns/netns.js'

interface Asked {
  readonly pod: WantedPod
  readonly seen: Set<string> | undefined
  readonly resolve: (netns: Netns | undefined) => void
  readonly reject: (error: unknown) => void
}

export class NetnsLookup {
  readonly #finder: Pick<NetnsFinder, 'find'>
  #waiting: Asked[] = []
  #isRunning = false

  constructor(finder: Pick<NetnsFinder, 'find'>) {
    this.#finder = finder
  }

  /**
   * An open handle of its own for the caller; undefined when none was found, and then `seen` has the pod's uid if it has processes. Rejects as the scan
   * does.
   */
  find(pod: WantedPod, seen?: Set<string>): Promise<Netns | undefined> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ pod, seen, resolve, reject })
      if (!this.#isRunning) void this.#run()
    })
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    while (this.#waiting.length > 0) {
      const asked = this.#waiting
      this.#waiting = []
      await this.#scan(asked)
    }
    this.#isRunning = false
  }

  async #scan(asked: readonly Asked[]): Promise<void> {
    try {
      const wanted = new Map(asked.map(({ pod }) => [pod.uid, pod]))
      const all = new Set<string>()
      const found = await this.#finder.find([...wanted.values()], all)
      for (const { pod, seen } of asked) if (all.has(pod.uid)) seen?.add(pod.uid)
      for (const { pod, resolve } of asked) resolve(found.get(pod.uid)?.share())
      for (const netns of found.values()) netns.close()
    } catch (error) {
      for (const { reject } of asked) reject(error)
    }
  }
}
