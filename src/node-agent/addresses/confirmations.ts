// SPDX-License-Identifier: Apache-2.0
// Whether the control plane really serves as HBONE what was enrolled on this node: a pod that is captured here and unknown there has lost its network.
// Says so once a pod, in the log and in metrics; mends nothing.

import { Counter, Gauge, type Registry } from 'prom-client'
import type { Clock, Timer } from '../../base/clock.js'
import type { Logger } from '../../base/log.js'
import { TunnelProtocol } from '../../wire/messages.js'
import type { PodIdentity } from '../contracts.js'
import type { Book } from './book.js'

export interface ConfirmationOptions {
  readonly book: Book
  readonly clock: Clock
  readonly log: Logger
  readonly registry: Registry
  readonly clusterId: string
  /** How long a pod may take until it is served before somebody is told. */
  readonly patienceMs: number
}

/** What is known of a pod that was enrolled. */
export interface Confirmation {
  readonly isServed: boolean
  /** What the control plane says of it, in words. */
  readonly says: string
}

interface Expected {
  readonly pod: PodIdentity
  isServed: boolean
  isOverdue: boolean
  timer: Timer | undefined
}

export class Confirmations {
  readonly #options: ConfirmationOptions
  readonly #byUid = new Map<string, Expected>()
  /** Name of the workload to the pods expected under it: of two with one name the earlier may not be gone yet. */
  readonly #byName = new Map<string, Set<Expected>>()
  readonly #results: Counter<'result'>

  constructor(options: ConfirmationOptions) {
    this.#options = options
    const { registry, book } = options
    const unconfirmed = (): number => [...this.#byUid.values()].filter(({ isServed }) => !isServed).length
    new Gauge({
      name: 'addressd_node_unconfirmed_pods',
      help: 'Enrolled pods that the control plane does not serve as HBONE, as far as is known',
      registers: [registry],
      collect() {
        this.set(unconfirmed())
      },
    })
    this.#results = new Counter({
      name: 'addressd_node_pod_confirmations_total',
      help: 'Enrolled pods found to be served as HBONE, and those that were not in time',
      labelNames: ['result'],
      registers: [registry],
    })
    for (const result of ['served', 'overdue']) this.#results.inc({ result }, 0)
    book.onOwn((name) => this.#look(this.#byName.get(name)))
  }

  /** This pod was enrolled. Expecting it again changes nothing. */
  expect(pod: PodIdentity): void {
    if (this.#byUid.has(pod.uid)) return
    const expected: Expected = { pod, isServed: false, isOverdue: false, timer: undefined }
    this.#byUid.set(pod.uid, expected)
    const name = this.#toName(pod)
    const sameName = this.#byName.get(name)
    if (sameName === undefined) this.#byName.set(name, new Set([expected]))
    else sameName.add(expected)
    this.#arm(expected)
    this.#look([expected])
  }

  /** This pod left the mesh or the node. */
  forget(uid: string): void {
    const expected = this.#byUid.get(uid)
    if (expected === undefined) return
    expected.timer?.cancel()
    this.#byUid.delete(uid)
    const name = this.#toName(expected.pod)
    const sameName = this.#byName.get(name)
    if (sameName?.delete(expected) === true && sameName.size === 0) this.#byName.delete(name)
  }

  /** What the control plane says of a pod, expected or not; of the past while it is away. */
  confirm(pod: Pick<PodIdentity, 'namespace' | 'name'>): Confirmation {
    const { book } = this.#options
    const held = book.held.get(this.#toName(pod))
    if (held?.decoded.kind !== 'workload') {
      if (book.lastSeenMs === undefined) return { isServed: false, says: 'nothing: it was never reached' }
      if (!book.isGood) return { isServed: false, says: `nothing: it is away since ${formatTime(book.lastSeenMs)}` }
      return { isServed: false, says: 'it knows no such workload on this node' }
    }
    const { workload } = held.decoded
    if (!book.held.isOwn(held)) return { isServed: false, says: `it is on node ${workload.node}` }
    if (workload.tunnelProtocol !== TunnelProtocol.HBONE) return { isServed: false, says: 'it is served as plain TCP' }
    return { isServed: true, says: 'it is served as HBONE' }
  }

  /** Ends all waiting. */
  close(): void {
    for (const { timer } of this.#byUid.values()) timer?.cancel()
  }

  #toName({ namespace, name }: Pick<PodIdentity, 'namespace' | 'name'>): string {
    return `${this.#options.clusterId}//Pod/${namespace}/${name}`
  }

  #arm(expected: Expected): void {
    const { clock, patienceMs } = this.#options
    expected.timer?.cancel()
    expected.timer = clock.after(patienceMs, () => this.#complain(expected))
  }

  #look(some: Iterable<Expected> | undefined): void {
    for (const expected of some ?? []) {
      const { isServed } = this.confirm(expected.pod)
      if (isServed === expected.isServed) continue
      expected.isServed = isServed
      if (!isServed) {
        this.#arm(expected)
        continue
      }
      expected.timer?.cancel()
      this.#results.inc({ result: 'served' })
      if (expected.isOverdue) this.#options.log.info(this.#toFields(expected), 'pod is served as HBONE now')
      expected.isOverdue = false
    }
  }

  #complain(expected: Expected): void {
    const { says } = this.confirm(expected.pod)
    expected.isOverdue = true
    this.#results.inc({ result: 'overdue' })
    const fields = { ...this.#toFields(expected), says, afterSeconds: this.#options.patienceMs / 1000 }
    this.#options.log.warn(fields, 'pod is captured here but not served as HBONE by the control plane')
  }

  #toFields({ pod }: Expected): Record<string, unknown> {
    return { pod: `${pod.namespace}/${pod.name}`, uid: pod.uid }
  }
}

function formatTime(ms: number): string {
  return new Date(ms).toISOString()
}
