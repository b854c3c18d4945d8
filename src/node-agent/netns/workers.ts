// SPDX-License-Identifier: Apache-2.0
// The worker threads that do everything inside namespaces, as the main thread sees them: `run(job, {netns, args})`. Started when there is work, replaced
// when they die. The main thread itself never enters a namespace.

import { closeSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import { Retryable, formatError } from '../../base/errors.js'
import type { Logger } from '../../base/log.js'
import type { JobKey } from './job.js'
import { type JobRequest, type WorkerMessage, fromErrorParts } from './job-messages.js'
import type { Netns } from './netns.js'

/** Runs jobs in threads. */
export interface NetnsWorkers {
  /**
   * Runs a job of the worker's entry. The namespace is kept open until the job has ended; the caller's handle stays the caller's.
   * Rejects with the job's error, of its class (InvalidInput, Retryable, Fatal, SystemCallError; else an Error with the `code` it had); with Retryable
   * when the thread dies or after close().
   */
  run<A, R>(job: JobKey<A, R>, order: JobOrder<A>): Promise<R>
  /** Takes no more jobs, waits for those at work, ends the threads. Idempotent. */
  close(): Promise<void>
}

/** What a job is given. */
export interface JobOrder<A> {
  readonly netns?: Netns | undefined
  readonly args: A
  /** The job runs programs and waits for them in its thread: it gets a thread that is free, or a new one, as long as there may be more. */
  readonly occupies?: boolean
}

export interface NetnsWorkersOptions {
  readonly log: Logger
  /** Threads at most. Only jobs that occupy theirs are given more than one: for all others the wait for the kernel is off-thread, and one is cheapest. */
  readonly count?: number
  /** The thread's program, if not the product's. */
  readonly entry?: URL
}

interface Task {
  readonly job: string
  readonly args: unknown
  readonly netns: Netns | undefined
  readonly occupies: boolean
  readonly resolve: (result: unknown) => void
  readonly reject: (error: Error) => void
}

interface Thread {
  readonly worker: Worker
  readonly tasks: Map<number, Task>
  /** Its descriptor of its own namespace, which would outlive it. */
  home: number | undefined
}

const defaultCount = 2
// More would only wait in the kernel and in libuv's pool, each with a socket of its own.
const mostAtWorkPerThread = 64
// From the built file and from its source alike.
const builtEntry = new URL('../../../dist/node-agent/worker.js', import.meta.url)

export function createNetnsWorkers(options: NetnsWorkersOptions): NetnsWorkers {
  return new Workers(options)
}

class Workers implements NetnsWorkers {
  readonly #log: Logger
  readonly #count: number
  readonly #entry: URL
  readonly #threads = new Set<Thread>()
  readonly #waiting: Task[] = []
  #lastId = 0
  #closed: Promise<void> | undefined
  #onIdle: (() => void) | undefined

  constructor({ log, count = defaultCount, entry = builtEntry }: NetnsWorkersOptions) {
    this.#log = log
    this.#count = count
    this.#entry = entry
  }

  run<A, R>(job: JobKey<A, R>, order: JobOrder<A>): Promise<R> {
    if (this.#closed !== undefined) return Promise.reject(new Retryable('the workers of namespaces are being ended'))
    return new Promise<R>((resolve, reject) => {
      const { args, occupies = false } = order
      const netns = order.netns?.share()
      this.#waiting.push({ job, args, netns, occupies, resolve: resolve as (result: unknown) => void, reject })
      this.#dispatch()
    })
  }

  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    if (!this.#isIdle()) {
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve
      })
    }
    await Promise.all([...this.#threads].map(({ worker }) => worker.terminate()))
  }

  #isIdle(): boolean {
    return this.#waiting.length === 0 && [...this.#threads].every(({ tasks }) => tasks.size === 0)
  }

  #dispatch(): void {
    for (let task = this.#waiting[0]; task !== undefined; task = this.#waiting[0]) {
      const thread = this.#selectThread(task)
      if (thread === undefined) return
      this.#waiting.shift()
      this.#start(thread, task)
    }
  }

  /** One that the task need not wait for, else a new one, else the one with the least to do that can take more. */
  #selectThread({ occupies }: Task): Thread | undefined {
    const byLoad = [...this.#threads].sort((a, b) => a.tasks.size - b.tasks.size)
    const free = byLoad.find((thread) => (occupies ? thread.tasks.size === 0 : !isOccupied(thread) && hasRoom(thread)))
    if (free !== undefined) return free
    // Waiting tasks that occupy nothing wait for room and for no second thread.
    if (this.#threads.size < this.#count && (occupies || byLoad.every(isOccupied))) return this.#startThread()
    return byLoad.find(hasRoom)
  }

  #start(thread: Thread, task: Task): void {
    const id = (this.#lastId += 1)
    thread.tasks.set(id, task)
    thread.worker.ref()
    try {
      const request: JobRequest = { id, job: task.job, fd: task.netns?.fd, args: task.args }
      thread.worker.postMessage(request)
    } catch (error) {
      this.#end(thread, id)?.reject(error instanceof Error ? error : new Error(formatError(error)))
    }
  }

  /** Takes a task off its thread and lets go of its namespace. An idle thread does not keep the process alive. */
  #end(thread: Thread, id: number): Task | undefined {
    const task = thread.tasks.get(id)
    if (task === undefined) return undefined
    thread.tasks.delete(id)
    task.netns?.close()
    if (thread.tasks.size === 0) thread.worker.unref()
    if (this.#isIdle()) this.#onIdle?.()
    return task
  }

  #startThread(): Thread {
    // Descriptors pass between threads by number: Node must not close, at a thread's end, what it believes to be that thread's.
    const worker = new Worker(this.#entry, { execArgv: [], trackUnmanagedFds: false })
    const thread: Thread = { worker, tasks: new Map(), home: undefined }
    this.#threads.add(thread)
    worker.on('message', (message: WorkerMessage) => this.#receive(thread, message))
    worker.on('error', (error) => this.#lose(thread, formatError(error)))
    worker.on('exit', (code) => {
      if (thread.home !== undefined) closeSync(thread.home)
      this.#lose(thread, `ended with code ${code}`)
    })
    return thread
  }

  #receive(thread: Thread, message: WorkerMessage): void {
    if (message.kind === 'log') {
      this.#log[message.level](message.fields, message.message)
      return
    }
    if (message.kind === 'home') {
      thread.home = message.fd
      return
    }
    const task = this.#end(thread, message.id)
    if (message.kind === 'result') task?.resolve(message.result)
    else task?.reject(fromErrorParts(message.error))
    this.#dispatch()
  }

  #lose(thread: Thread, reason: string): void {
    if (!this.#threads.delete(thread)) return
    if (this.#closed !== undefined && thread.tasks.size === 0) return
    this.#log.error(
      { reason, jobs: [...thread.tasks.values()].map(({ job }) => job) },
      'a worker of namespaces died; its jobs fail and it is replaced',
    )
    for (const id of [...thread.tasks.keys()]) {
      this.#end(thread, id)?.reject(new Retryable(`the worker of namespaces died: ${reason}`))
    }
    this.#dispatch()
  }
}

function isOccupied({ tasks }: Thread): boolean {
  return [...tasks.values()].some(({ occupies }) => occupies)
}

function hasRoom({ tasks }: Thread): boolean {
  return tasks.size < mostAtWorkPerThread
}
