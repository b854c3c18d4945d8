// SPDX-License-Identifier: Apache-2.0
// The sandboxes of pods as the runtime announces them and takes them down: which tries to enrol go on for which sandbox, and whose namespace has ended.
// Makes tries give way to what is newer; touches no pod.

import type { Clock } from '../base/clock.js'
import { Retryable } from '../base/errors.js'
import { isSameNetns, type Netns, type NetnsId } from './netns/netns.js'

/** So long a namespace that the runtime took down is not taken for the pod's, though a process may still be seen in it. */
const endedMs = 60_000

/** Who tries, in which sandbox; without a path it is nobody's request from the runtime. */
interface Asker {
  readonly netnsPath: string | undefined
  readonly containerId: string | undefined
  readonly signal: AbortSignal | undefined
}

interface Attempt {
  readonly netnsPath: string | undefined
  readonly containerId: string | undefined
  readonly controller: AbortController
}

export interface RunningTry {
  /** Aborts with the asker's, at the end of everything, and when something newer comes, with a Retryable as reason. */
  readonly signal: AbortSignal
  /** To be called once, however it went. */
  end(): void
}

export class Sandboxes {
  readonly #clock: Clock
  readonly #lifetime: AbortSignal
  /** Tries that run or wait, by pod. */
  readonly #tries = new Map<string, Set<Attempt>>()
  readonly #ended = new Map<string, NetnsId & { readonly atMs: number }>()

  constructor(clock: Clock, lifetime: AbortSignal) {
    this.#clock = clock
    this.#lifetime = lifetime
  }

  /** A newer sandbox: whoever waits for ztunnel on behalf of an older one gives way, and so does who tries by himself. */
  begin(uid: string, { netnsPath, containerId, signal }: Asker): RunningTry {
    if (netnsPath !== undefined) {
      this.#abort(uid, 'a newer sandbox of the pod was announced', (other) => other.netnsPath !== netnsPath)
    }
    const controller = new AbortController()
    const unlink = [link(controller, signal), link(controller, this.#lifetime)]
    const attempt: Attempt = { netnsPath, containerId, controller }
    const tries = this.#tries.get(uid) ?? new Set()
    this.#tries.set(uid, tries.add(attempt))
    return {
      signal: controller.signal,
      end: () => {
        for (const undo of unlink) undo()
        tries.delete(attempt)
        if (tries.size === 0) this.#tries.delete(uid)
      },
    }
  }

  /** The pod shall not be enrolled any more: its tries end. */
  leave(uid: string): void {
    this.#abort(uid, 'the pod leaves the mesh', () => true)
  }

  /** The runtime takes this sandbox down: tries on behalf of it end. The uids of their pods. */
  takeDown(netnsPath: string, containerId: string): readonly string[] {
    const isSame = (other: Attempt): boolean =>
      other.netnsPath !== undefined &&
      (other.netnsPath === netnsPath || (containerId !== '' && other.containerId === containerId))
    const uids = [...this.#tries].filter(([, tries]) => [...tries].some(isSame)).map(([uid]) => uid)
    for (const uid of uids) this.#abort(uid, 'the runtime takes the sandbox down', isSame)
    return uids
  }

  /** A process may still be seen in a namespace that the runtime has just taken down. */
  isEnded(uid: string, netns: Netns): boolean {
    const ended = this.#ended.get(uid)
    return ended !== undefined && isSameNetns(ended, netns) && this.isDown(uid)
  }

  /** The runtime has just taken the pod's sandbox down, and no other was announced. */
  isDown(uid: string): boolean {
    const ended = this.#ended.get(uid)
    return ended !== undefined && this.#clock.monotonic() - ended.atMs <= endedMs
  }

  noteEnded(uid: string, { inode, device }: NetnsId): void {
    this.#ended.set(uid, { inode, device, atMs: this.#clock.monotonic() })
  }

  forgetEnded(uid: string): void {
    this.#ended.delete(uid)
  }

  #abort(uid: string, why: string, which: (attempt: Attempt) => boolean): void {
    for (const attempt of this.#tries.get(uid) ?? []) {
      if (which(attempt)) attempt.controller.abort(new Retryable(why))
    }
  }
}

/** Aborts the controller with the signal; the result undoes the link. */
function link(controller: AbortController, signal: AbortSignal | undefined): () => void {
  if (signal === undefined) return () => undefined
  const onAbort = (): void => controller.abort(signal.reason)
  if (signal.aborted) onAbort()
  else signal.addEventListener('abort', onAbort, { once: true })
  return () => signal.removeEventListener('abort', onAbort)
}
