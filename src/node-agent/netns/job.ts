// SPDX-License-Identifier: Apache-2.0
// What a job in a worker thread sees, and how jobs are named. For jobs (netns/, rules/) and for those who run them; types alone.

import type { Logger } from '../../base/log.js'

/**
 * The name of a job, with the types of its arguments and its result:
 * `export const applyJob = 'rules/apply' as JobKey<ApplyArgs, ApplyResult>`. Both go through the structured clone (no functions, no classes).
 */
export type JobKey<A, R> = string & { readonly __args?: (args: A) => void; readonly __result?: R }

/**
 * What runs in the worker, by name, as the worker's entry lists it. A job may be async; while it waits the thread works on other jobs, so no state is
 * kept in the thread across an await.
 */
export type JobMap = Readonly<Record<string, (place: WorkerPlace, args: never) => unknown>>

/** Where one job works: its thread and the namespace that it was given. */
export interface WorkerPlace {
  /** Descriptor of the job's namespace, open until the job has ended; undefined when it was given none. */
  readonly fd: number | undefined
  /** Goes where the main thread's logger goes. */
  readonly log: Logger
  /**
   * Runs `fn` with the thread inside the job's namespace and comes home; gives back what it returns. `fn` is synchronous: a promise is an error. May be
   * nested. Sockets made inside stay bound to the namespace, and programs that are started inside (spawnSync, with a timeout) run there.
   * Throws SystemCallError when the namespace cannot be entered. If coming home fails the process aborts.
   */
  inside<T>(fn: () => T): T
  /** The same in another namespace, of which the job has a descriptor of its own. Not while inside one. */
  insideOf<T>(fd: number, fn: () => T): T
  /**
   * From now on the thread sees mounts of its own: what is mounted on the node still appears, what is mounted here stays here. For the whole thread and
   * for good; later calls do nothing. Throws SystemCallError.
   */
  ownMounts(): void
  /** From now on `/proc` of this thread (and of programs it starts) is a fresh, writable one, in mounts of its own. As above. */
  ownProc(): void
}

/** Inside the job's namespace, or at home when it was given none. */
export function insidePlace<T>(place: WorkerPlace, fn: () => T): T {
  return place.fd === undefined ? fn() : place.inside(fn)
}
