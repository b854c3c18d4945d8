// SPDX-License-Identifier: Apache-2.0
// Brings every pod of the node to where it should be: compares wish and fact at each change, and calls the enrolment's two verbs until they agree. One
// loop a pod, so that nobody waits for anybody else; what was asked meanwhile is looked at afterwards, whatever the order and speed of the events.

import { createBackoff, type Backoff } from '../base/backoff.js'
import type { Clock, Timer } from '../base/clock.js'
import { InvalidInput, formatError } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import type { Change, Graph } from '../collection/types.js'
import type { AnnotationLedger } from './annotation-ledger.js'
import { tellAnnotationProblems } from './annotation-problems.js'
import type { EnrolMetrics, EventType } from './enrol-metrics.js'
import { formatPod, type EnrollRequest } from './enrol-requests.js'
import type { Enroller } from './enroll.js'
import type { EnrolledPods } from './enrolled-pods.js'
import type { Netns } from './netns/netns.js'
import { selectAnnotationProblems, selectIps, selectLastStep, selectNextStep, type NextStep } from './next-step.js'
import type { PodWish, PodWishes } from './pod-wishes.js'
import type { RuleDefaults } from './rules/overrides.js'

/** In milliseconds. */
export const watcherLimits = {
  /** First and longest pause between two tries for one pod. */
  backoffMinMs: 5,
  backoffMaxMs: 5_000,
  /** A pod that appears with an address is left to the plugin for so long. */
  pluginGraceMs: 500,
  /** After a ztunnel asked for its snapshot, those that wait for one try again. */
  ztunnelGraceMs: 20,
} as const

export interface PodWatcherParts {
  readonly graph: Graph
  readonly wishes: PodWishes
  readonly pods: EnrolledPods
  readonly ledger: AnnotationLedger
  readonly enroller: Enroller
  readonly defaults: RuleDefaults
  readonly metrics: EnrolMetrics
  readonly clock: Clock
  readonly log: Logger
  readonly random: () => number
}

/** One pod on its way. */
interface Course {
  readonly backoff: Backoff
  /** The last wish that was seen; stays when the object is gone, until the pod is released. */
  last: PodWish
  isRunning: boolean
  isDirty: boolean
  timer: Timer | undefined
  /** The kind of the change that started it, for the metric. */
  type: EventType
  /** Of the try that runs. */
  controller: AbortController | undefined
  step: NextStep['verb']
  /** A namespace that somebody found for it; owned. */
  found: Netns | undefined
  /** The last failure that was told. */
  told: string
}

export class PodWatcher {
  readonly #parts: PodWatcherParts
  readonly #courses = new Map<string, Course>()
  readonly #idle: (() => void)[] = []
  #running = 0
  #isStarted = false
  #isStopped = false
  #arrival: Timer | undefined

  constructor(parts: PodWatcherParts) {
    this.#parts = parts
    parts.graph.onCommit(parts.wishes.pods, (changes) => {
      for (const change of changes) this.#take(change)
    })
  }

  /** From now on acts: on every pod that is there, and on every change. */
  start(): void {
    this.#isStarted = true
    for (const wish of this.#parts.wishes.pods.values()) this.poke(wish.pod.uid)
  }

  /** Looks at a pod anew, now, whatever pause it is in. `found` is taken over. */
  poke(uid: string, found?: Netns): void {
    const course = this.#course(uid)
    if (course === undefined || this.#isStopped) {
      found?.close()
      return
    }
    if (found !== undefined) {
      course.found?.close()
      course.found = found
    }
    this.#go(uid, course)
  }

  /** A try of somebody else's ended early: tries again after a pause. */
  retryLater(uid: string): void {
    const course = this.#course(uid)
    if (course === undefined || course.isRunning || course.timer !== undefined || this.#isStopped) return
    this.#goLater(uid, course, course.backoff.next())
  }

  /** A ztunnel is there again: nobody waits out his pause. */
  noticeZtunnel(): void {
    if (this.#arrival !== undefined || this.#isStopped) return
    this.#arrival = this.#parts.clock.after(watcherLimits.ztunnelGraceMs, () => {
      this.#arrival = undefined
      for (const [uid, course] of this.#courses) {
        if (course.timer === undefined) continue
        course.backoff.reset()
        this.#go(uid, course)
      }
    })
  }

  /** Resolves when nothing runs; pods that wait for their next try do not count. */
  idle(): Promise<void> {
    if (this.#running === 0) return Promise.resolve()
    return new Promise((resolve) => this.#idle.push(resolve))
  }

  /** Nothing more is begun. What runs is the enrolment's to end. */
  stop(): void {
    this.#isStopped = true
    this.#arrival?.cancel()
    for (const [uid, course] of this.#courses) this.#clear(uid, course)
  }

  #take({ key: uid, old, now }: Change<PodWish>): void {
    const { ledger, metrics } = this.#parts
    if (now !== undefined) ledger.observe(uid, now.redirection, old && { value: old.redirection })
    if (!this.#isStarted || this.#isStopped) return
    const type = old === undefined ? 'add' : now === undefined ? 'delete' : 'update'
    const course = this.#course(uid) ?? this.#open(uid, old)
    if (course === undefined) return
    course.type = type
    course.last = now ?? course.last
    if (course.isRunning) metrics.countEvent(type) // else the look counts
    const { verb } = this.#select(uid, course)
    if (course.step === 'enroll' && verb !== 'enroll')
      course.controller?.abort(new InvalidInput('it is no longer wanted'))
    // New pods come through the plugin.
    if (type === 'add' && verb === 'enroll') this.#goLater(uid, course, watcherLimits.pluginGraceMs)
    else this.#go(uid, course)
  }

  #course(uid: string): Course | undefined {
    return this.#courses.get(uid) ?? this.#open(uid, this.#parts.wishes.pods.get(uid))
  }

  #open(uid: string, wish: PodWish | undefined): Course | undefined {
    if (wish === undefined) return undefined
    const { backoffMinMs: initialMs, backoffMaxMs: maxMs } = watcherLimits
    const course: Course = {
      backoff: createBackoff({ initialMs, maxMs, random: this.#parts.random }),
      last: wish,
      isRunning: false,
      isDirty: false,
      timer: undefined,
      type: 'update',
      controller: undefined,
      step: 'nothing',
      found: undefined,
      told: '',
    }
    this.#courses.set(uid, course)
    return course
  }

  #goLater(uid: string, course: Course, delayMs: number): void {
    course.timer?.cancel()
    course.timer = this.#parts.clock.after(delayMs, () => this.#go(uid, course))
  }

  #go(uid: string, course: Course): void {
    course.timer?.cancel()
    course.timer = undefined
    course.isDirty = true
    if (course.isRunning || this.#isStopped) return
    course.isRunning = true
    this.#running++
    void this.#run(uid, course).finally(() => {
      this.#running--
      if (this.#running === 0) for (const resolve of this.#idle.splice(0)) resolve()
    })
  }

  async #run(uid: string, course: Course): Promise<void> {
    while (course.isDirty && !this.#isStopped) {
      course.isDirty = false
      this.#parts.metrics.countEvent(course.type)
      try {
        await this.#act(uid, course)
        course.backoff.reset()
        course.told = ''
      } catch (error) {
        this.#fail(uid, course, error)
      }
    }
    course.isRunning = false
    if (course.timer === undefined) this.#close(uid, course)
  }

  async #act(uid: string, course: Course): Promise<void> {
    const { enroller, wishes, pods } = this.#parts
    const step = this.#select(uid, course)
    course.step = step.verb
    const { pod, ips, processUid, onHostNetwork } = course.last
    this.#tellAnnotations(uid)
    try {
      if (step.verb === 'enroll') await this.#enroll(course)
      else if (step.verb === 'sync-addresses') await enroller.syncAddresses(pod, selectIps(course.last, pods.get(uid)))
      else if (step.verb === 'release') await enroller.release({ pod, how: step.how, ips, processUid, onHostNetwork })
    } finally {
      course.step = 'nothing'
    }
    // It may not have been the last step: an address that changed meanwhile, or annotations together with an address.
    const after = step.verb === 'enroll' ? 'sync-addresses' : step.verb === 'sync-addresses' ? 'enroll' : undefined
    if (after !== undefined && wishes.pods.get(uid) !== undefined)
      course.isDirty ||= this.#select(uid, course).verb === after
  }

  /** What is not followed leaves the rules as they are, which nobody would see otherwise. */
  #tellAnnotations(uid: string): void {
    const { wishes, pods, defaults, log } = this.#parts
    const wish = wishes.pods.get(uid)
    const row = pods.get(uid)
    if (wish === undefined || row?.options === undefined || row.isLeaving) return
    tellAnnotationProblems(row, selectAnnotationProblems(wish, defaults), log)
  }

  async #enroll(course: Course): Promise<void> {
    const controller = new AbortController()
    const { found, last } = course
    course.controller = controller
    course.found = undefined
    try {
      await this.#parts.enroller.enroll({
        ...toEnrollRequest(last),
        ips: selectIps(last, this.#parts.pods.get(last.pod.uid)),
        signal: controller.signal,
        ...(found === undefined ? {} : { netns: found }),
      })
    } finally {
      course.controller = undefined
    }
  }

  #select(uid: string, { last }: Course): NextStep {
    const { wishes, pods, ledger, enroller, defaults } = this.#parts
    const wish = wishes.pods.get(uid)
    const redirection = ledger.get(uid)
    if (wish !== undefined) return selectNextStep(wish, pods.get(uid), redirection, defaults)
    return selectLastStep(last, pods.get(uid) !== undefined || enroller.isBusy(uid), redirection)
  }

  #fail(uid: string, course: Course, error: unknown): void {
    const { enroller, log } = this.#parts
    if (course.isDirty || this.#isStopped) return // superseded
    const isRefused = error instanceof InvalidInput
    const text = formatError(error)
    // Between the end of its sandbox and the word of the API server that it has ended, every pod has nowhere to be enrolled.
    const isExpected = isRefused && enroller.isDown(uid)
    const isNews = !isExpected && text !== course.told
    if (!isExpected) course.told = text
    const pauseMs = isRefused ? undefined : course.backoff.next()
    const fields = {
      pod: formatPod(course.last.pod),
      wanted: formatWanted(this.#select(uid, course)),
      error: text,
      ...(pauseMs === undefined ? {} : { pauseMs: Math.round(pauseMs), hint }),
    }
    const message = isRefused
      ? 'a pod cannot be enrolled; it is looked at again later'
      : 'a pod is not where it should be; trying again'
    if (isNews) log.warn(fields, message)
    else log.debug(fields, message)
    if (pauseMs !== undefined) this.#goLater(uid, course, pauseMs)
  }

  /** Forgets a pod that is gone and released. */
  #close(uid: string, course: Course): void {
    if (this.#parts.wishes.pods.get(uid) !== undefined || this.#courses.get(uid) !== course) return
    this.#clear(uid, course)
    this.#courses.delete(uid)
    this.#parts.ledger.forget(uid)
  }

  #clear(_uid: string, course: Course): void {
    course.timer?.cancel()
    course.timer = undefined
    course.found?.close()
    course.found = undefined
  }
}

const hint =
  'mend what the error names, such as a ztunnel that is not there; addressd-node rules check says how the rules are'

function formatWanted({ verb }: NextStep): string {
  if (verb === 'enroll') return 'in the mesh'
  if (verb === 'release') return 'out of the mesh'
  return verb === 'sync-addresses' ? 'its addresses in the probe set' : 'as it is'
}

/** What the tables say of a pod, as a request without a sandbox. */
export function toEnrollRequest({ pod, ips, annotations, processUid }: PodWish): EnrollRequest {
  return { pod, ips, annotations, processUid }
}
