// SPDX-License-Identifier: Apache-2.0
// The agent as a client of the control plane: what addresses are, kept for when it is away, and whether the pods enrolled here are served as such.
// For the composition root. Enrols nothing and depends on nobody's answer: without a control plane the agent works on.

import type { Registry } from 'prom-client'
import type { AdminRoute } from '../base/admin-http.js'
import type { Clock } from '../base/clock.js'
import type { Logger } from '../base/log.js'
import type { WhatIsAnswer } from '../wire/inspect.js'
import type { WorkloadMessage } from '../wire/messages.js'
import { parseQuestion } from '../wire/question.js'
import { createNodeAnswer, type Answered } from './addresses/answer.js'
import { Book, type Received } from './addresses/book.js'
import { Confirmations, type Confirmation } from './addresses/confirmations.js'
import { selectKeys, type Place } from './addresses/finder.js'
import { keepOpen } from './addresses/keeper.js'
import type { ClientNode } from './addresses/messages.js'
import { addMetrics } from './addresses/metrics.js'
import { createWhatIsRoutes } from './addresses/routes.js'
import type { StreamOptions } from './addresses/stream.js'
import { parseTarget } from './addresses/target.js'
import type { PodIdentity } from './contracts.js'

export type { Answered } from './addresses/answer.js'

export interface AddressesOptions {
  /** `host:port` of the control plane. */
  readonly target: string
  /** No TLS and no token; for a control plane on this machine alone. */
  readonly isPlaintext: boolean
  /** Read again at every connection. Undefined: no token is shown. */
  readonly tokenFile?: string | undefined
  /** Read again at every connection. Undefined: the roots of the system. */
  readonly rootFile?: string | undefined
  readonly nodeName: string
  /** Namespace of the agent, which its token must be of. */
  readonly namespace: string
  /** Name of the agent's pod; default: made from that of the node. */
  readonly podName?: string | undefined
  /** Address of the agent's pod; default 127.0.0.1, which says nothing. */
  readonly podIp?: string | undefined
  readonly clusterId: string
  readonly network: string
  /** Default cluster.local. */
  readonly clusterDomain?: string | undefined
  readonly clock: Clock
  readonly log: Logger
  readonly registry: Registry
  /** Bound of what is kept beside the node's own workloads. Default 10000. */
  readonly cacheEntries?: number | undefined
  /** An answer that nobody looks at for so long is let go of. Default ten minutes. */
  readonly foundMs?: number | undefined
  /** "Nobody has it" holds so long. Default 5 s: not every control plane tells when somebody comes to have it. */
  readonly nobodyMs?: number | undefined
  /** Default 5 s. */
  readonly answerMs?: number | undefined
  /** How long an enrolled pod may take until it is served. Default 30 s. */
  readonly patienceMs?: number | undefined
  /** Between 0 and 1: spreads reconnections. */
  readonly random?: (() => number) | undefined
}

/** `undefined`: the workload is gone from this node. */
export type WorkloadListener = (uid: string, workload: WorkloadMessage | undefined) => void

export interface AddressBook {
  /** An answer of the control plane's has come on the stream that is open. */
  readonly connected: boolean
  /** When it was last known to be there, wall time in ms: now while it is; undefined when it never was. */
  readonly lastSeen: number | undefined
  /** What came over the wire since the start: after a reconnection nothing that did not change. */
  readonly received: Readonly<Received>
  /** What is kept: this node's own workloads, those that were looked up, keys that somebody has and keys that nobody has. */
  readonly sizes: { readonly own: number; readonly others: number; readonly found: number; readonly nobody: number }
  /** Rejects with InvalidInput for what is no question, with Retryable when too many wait, with the signal's reason. */
  lookup(question: string, signal?: AbortSignal): Promise<Answered>
  /** This pod was enrolled: it has to be served as HBONE before long. Idempotent. */
  expect(pod: PodIdentity): void
  /** This pod is none of ours any more. */
  forget(uid: string): void
  /** What the control plane says of a pod. */
  confirmHbone(pod: Pick<PodIdentity, 'namespace' | 'name'>): Confirmation
  /** Told of every workload of this node that comes, changes or goes. */
  onWorkload(listener: WorkloadListener): void
}

export interface Addresses {
  readonly book: AddressBook
  /** For the local socket. */
  readonly routes: readonly AdminRoute[]
  /** Keeps a stream open until the signal aborts; then resolves. */
  run(signal: AbortSignal): Promise<void>
}

const expiryMs = 1_000
const openMs = 15_000

/** Throws InvalidInput when the address is none, or is not to be asked in plaintext. Opens nothing before `run`. */
export function createAddresses(options: AddressesOptions): Addresses {
  const { clock, log, registry, nodeName, clusterId } = options
  const target = parseTarget(options.target, options.isPlaintext)
  const book = new Book({
    clock,
    nodeName,
    mostEntries: options.cacheEntries ?? 10_000,
    foundMs: options.foundMs ?? 600_000,
    nobodyMs: options.nobodyMs ?? 5_000,
    answerMs: options.answerMs ?? 5_000,
  })
  const patienceMs = options.patienceMs ?? 30_000
  const confirmations = new Confirmations({ book, clock, log, registry, clusterId, patienceMs })
  const place: Place = { clusterId, network: options.network, domain: options.clusterDomain ?? 'cluster.local' }
  const lookups = addMetrics(registry, book)
  const stream: StreamOptions = {
    target,
    tokenFile: options.tokenFile,
    rootFile: options.rootFile,
    clusterId,
    clock,
    openMs,
  }
  let trouble = ''

  const lookup = async (text: string, signal?: AbortSignal): Promise<Answered> => {
    const question = parseQuestion(text)
    const keys = selectKeys(question, book.held, place)
    const read = (): WhatIsAnswer => createNodeAnswer(text, question, keys, book.held)
    const looked = await book.look(
      keys.map(({ key }) => key),
      read,
      signal,
    )
    lookups.inc({ standing: looked.standing })
    return { standing: looked.standing, answer: looked.value, ageMs: book.ageMs, lastSeenMs: book.lastSeenMs }
  }

  return {
    book: {
      get connected() {
        return book.isGood
      },
      get lastSeen() {
        return book.lastSeenMs
      },
      received: book.received,
      get sizes() {
        const { held, asked } = book
        const own = held.ownSize
        return { own, others: held.size - own, found: asked.size - asked.nobodySize, nobody: asked.nobodySize }
      },
      lookup,
      expect: (pod) => confirmations.expect(pod),
      forget: (uid) => confirmations.forget(uid),
      confirmHbone: (pod) => confirmations.confirm(pod),
      onWorkload(listener) {
        book.onOwn((name, held) => {
          listener(name, held?.decoded.kind === 'workload' ? held.decoded.workload : undefined)
        })
      },
    },
    routes: createWhatIsRoutes(lookup, () => trouble),
    async run(signal) {
      const where = { target: target.authority, tls: !target.isPlaintext }
      book.onStanding(() => {
        if (book.isGood) trouble = ''
        if (book.isGood) log.info({ ...where, own: book.held.ownSize }, 'control plane answers')
      })
      const stopExpiry = expireRegularly(clock, book)
      let toldMs = -Infinity
      try {
        await keepOpen(
          { stream, book, node: toNode(options), clock, signal, random: options.random },
          (reason, pauseMs) => {
            trouble = reason
            const nowMs = clock.monotonic()
            const isDue = nowMs - toldMs >= awayRepeatMs
            if (isDue) toldMs = nowMs
            log[isDue ? 'warn' : 'debug']({ ...where, reason, pauseMs: Math.round(pauseMs) }, 'control plane is away')
          },
        )
      } finally {
        stopExpiry()
        confirmations.close()
      }
    },
  }
}

/** That the control plane is away is a warning once in this time, in milliseconds. */
const awayRepeatMs = 60_000

function expireRegularly(clock: Clock, book: Book): () => void {
  const arm = (): ReturnType<Clock['after']> =>
    clock.after(expiryMs, () => {
      book.expire()
      timer = arm()
    })
  let timer = arm()
  return () => timer.cancel()
}

// A proxy of the kind that such control planes know: only then do the workloads of its node come unasked.
function toNode(options: AddressesOptions): ClientNode {
  const { nodeName, namespace, clusterId, podName = `addressd-node-${nodeName}`, podIp = '127.0.0.1' } = options
  return {
    id: `ztunnel~${podIp}~${podName}.${namespace}~${namespace}.svc.cluster.local`,
    metadata: {
      NAME: podName,
      NAMESPACE: namespace,
      INSTANCE_IPS: podIp,
      NODE_NAME: nodeName,
      CLUSTER_ID: clusterId,
    },
  }
}
