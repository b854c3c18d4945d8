// SPDX-License-Identifier: Apache-2.0
// Fills the inputs from an API server: one reflector a kind. For main. Decides what of each kind is asked for.

import { setMaxListeners } from 'node:events'
import type { Registry } from 'prom-client'
import type { Clock } from '../base/clock.js'
import type { Logger } from '../base/log.js'
import type { KubeApi } from './api.js'
import type { Feed } from './feed.js'
import { kinds, type Inputs } from './inputs.js'
import { createKubeMetrics, type KubeMetrics } from './kube-metrics.js'
import { formatMeshConfigName } from './mesh-config.js'
import type { Kind } from './records.js'
import { Outage } from './outage.js'
import { Reflector } from './reflector.js'

export { kubeLimits } from './limits.js'

export interface KubeFeedOptions {
  readonly api: KubeApi
  readonly inputs: Inputs
  /** Id of the cluster, the first part of every key. */
  readonly cluster: string
  /** Where the mesh ConfigMap lives. */
  readonly systemNamespace: string
  /** Picks the mesh ConfigMap: `istio`, or `istio-<revision>`. */
  readonly revision: string
  readonly clock: Clock
  readonly log: Logger
  readonly registry: Registry
  /** The kinds that are read; all of them when left out. */
  readonly kinds?: readonly Kind[]
  /** Only the pods of this node, finished ones too; all but the failed ones when left out. */
  readonly node?: string
  /** 0 up to 1, for jitter; Math.random when left out. */
  readonly random?: () => number
}

/** A feed that says how far it has read. */
export interface KubeFeed extends Feed {
  /** The resourceVersion up to which a kind is in the inputs; empty when it was never listed. */
  seen(kind: Kind): string
}

/** Nothing is asked before run(). */
export function createKubeFeed(options: KubeFeedOptions): KubeFeed {
  const metrics = createKubeMetrics(options.registry)
  const shared = { metrics, outage: new Outage() }
  const reflectors = new Map((options.kinds ?? kinds).map((kind) => [kind, createReflector(kind, options, shared)]))
  const all = [...reflectors.values()]
  return {
    synced: Promise.all(all.map((r) => r.synced)).then(() => undefined),
    pending: () => all.filter((r) => !r.isSynced).map((r) => r.kind),
    seen: (kind) => reflectors.get(kind)?.seen ?? '',
    async run(signal) {
      const controller = new AbortController()
      setMaxListeners(0, controller.signal) // every reflector listens
      const onAbort = (): void => controller.abort(signal.reason)
      if (signal.aborted) onAbort()
      signal.addEventListener('abort', onAbort, { once: true })
      try {
        await Promise.all(all.map((r) => r.run(controller.signal)))
      } finally {
        signal.removeEventListener('abort', onAbort)
        controller.abort()
      }
    },
  }
}

interface Shared {
  readonly metrics: KubeMetrics
  readonly outage: Outage
}

function createReflector(kind: Kind, options: KubeFeedOptions, shared: Shared): Reflector<Kind> {
  const { api, cluster, clock, log, random = Math.random } = options
  return makeReflector(kind)

  function makeReflector<K extends Kind>(of: K): Reflector<K> {
    const selection = { api, kind: of, cluster, ...selectPart(of, options) }
    return new Reflector({ selection, source: options.inputs[of], clock, log, random, ...shared })
  }
}

function selectPart(kind: Kind, options: KubeFeedOptions): { namespace?: string; fieldSelector?: string } {
  // Failed pods have given up their address: the server need not send them [F3]. Whoever looks after one node must see them fail.
  if (kind === 'Pod') {
    const { node } = options
    return { fieldSelector: node === undefined ? 'status.phase!=Failed' : `spec.nodeName=${node}` }
  }
  if (kind === 'ConfigMap') {
    const name = formatMeshConfigName(options.revision)
    return { namespace: options.systemNamespace, fieldSelector: `metadata.name=${name}` }
  }
  return {}
}
