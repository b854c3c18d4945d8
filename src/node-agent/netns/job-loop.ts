// SPDX-License-Identifier: Apache-2.0
// The worker thread's side: takes requests, runs jobs, answers. Jobs run as they come; those that wait overlap. Enters namespaces, and is the only part
// of the product that does.

import { openSync } from 'node:fs'
import type { MessagePort } from 'node:worker_threads'
import type { Logger } from '../../base/log.js'
import type { JobMap, WorkerPlace } from './job.js'
import { type JobRequest, type LogLevel, type WorkerMessage, toErrorParts } from './job-messages.js'
import { cloneNewMount, mount, mountFlags, setNetns, unshare } from './sys.js'

/** What belongs to the thread and not to one job. */
class Thread {
  readonly home = openSync('/proc/thread-self/ns/net', 'r')
  #insideFd: number | undefined
  #hasOwnMounts = false
  #hasOwnProc = false

  inside<T>(fd: number, fn: () => T): T {
    if (this.#insideFd === fd) return fn()
    if (this.#insideFd !== undefined) throw new Error('the thread is inside another namespace')
    setNetns(fd)
    this.#insideFd = fd
    try {
      const result = fn()
      if (result instanceof Promise) throw new Error('work inside a namespace must not wait')
      return result
    } finally {
      this.#insideFd = undefined
      this.#goHome()
    }
  }

  // A thread that cannot leave a pod's namespace would do the next pod's work in it: nothing is safer than no process.
  #goHome(): void {
    try {
      setNetns(this.home)
    } catch {
      process.abort()
    }
  }

  ownMounts(): void {
    if (this.#hasOwnMounts) return
    unshare(cloneNewMount)
    this.#hasOwnMounts = true
    mount(null, '/', null, mountFlags.recursive | mountFlags.slave)
  }

  ownProc(): void {
    if (this.#hasOwnProc) return
    this.ownMounts()
    mount('proc', '/proc', 'proc', mountFlags.noSuid | mountFlags.noDev | mountFlags.noExec)
    this.#hasOwnProc = true
  }
}

/** Serves `jobs` on `port` until the thread is ended. */
export function serveJobs(port: MessagePort, jobs: JobMap): void {
  const thread = new Thread()
  const post = (message: WorkerMessage): void => port.postMessage(message)
  post({ kind: 'home', fd: thread.home })
  const log = toLogger(post, {})
  port.on('message', (request: JobRequest) => {
    void answer(request)
  })

  async function answer(request: JobRequest): Promise<void> {
    try {
      post({ kind: 'result', id: request.id, result: await work(request) })
    } catch (error) {
      post({ kind: 'failure', id: request.id, error: toErrorParts(error) })
    }
  }

  function work({ job, fd, args }: JobRequest): unknown {
    const run = Object.hasOwn(jobs, job) ? jobs[job] : undefined
    if (run === undefined) throw new Error(`no job is called ${job}`)
    const place: WorkerPlace = {
      fd,
      log,
      inside(fn) {
        if (fd === undefined) throw new Error(`the job ${job} was given no namespace`)
        return thread.inside(fd, fn)
      },
      insideOf: (other, fn) => thread.inside(other, fn),
      ownMounts: () => thread.ownMounts(),
      ownProc: () => thread.ownProc(),
    }
    return run(place, args as never)
  }
}

function toLogger(post: (message: WorkerMessage) => void, base: Readonly<Record<string, unknown>>): Logger {
  const at =
    (level: LogLevel): Logger['info'] =>
    (fields, message) =>
      post({ kind: 'log', level, fields: { ...base, ...fields }, message })
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: (fields) => toLogger(post, { ...base, ...fields }),
  }
}
