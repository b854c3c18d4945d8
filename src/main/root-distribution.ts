// SPDX-License-Identifier: Apache-2.0
// The leader's work of giving out roots: which namespaces there are, and which of our maps somebody touched. What is written is decided by src/ca.

import { Registry } from 'prom-client'
import { peek } from '../address/explain.js'
import type { Clock } from '../base/clock.js'
import type { Logger } from '../base/log.js'
import { Distribution, type DistributionOptions } from '../ca/distribution.js'
import type { Source } from '../collection/types.js'
import type { LeaderTask } from '../control/controllers.js'
import type { KubeApi } from '../kube/api.js'
import { createKubeMetrics } from '../kube/kube-metrics.js'
import type { ConfigMapRecord } from '../kube/records.js'
import { Reflector } from '../kube/reflector.js'
import type { ServedGraph } from './served-graph.js'

export interface RootDistributionOptions {
  readonly distribution: DistributionOptions
  readonly served: ServedGraph
  readonly api: KubeApi
  readonly cluster: string
  readonly clock: Clock
  readonly log: Logger
  readonly random: () => number
}

/** To be made before the first commit. */
export function createRootDistribution(options: RootDistributionOptions): LeaderTask {
  const { served, cluster } = options
  const { discovery } = served.address.domain
  const distribution = new Distribution(options.distribution)
  const judge = (namespace: string): void => {
    const isThere = served.inputs.Namespace.get(`${cluster}/${namespace}`) !== undefined
    if (isThere && discovery.isSeen(peek, { cluster, namespace })) distribution.addNamespace(namespace)
    else distribution.removeNamespace(namespace)
  }
  const judgeAll = (): void => {
    for (const { name } of served.inputs.Namespace.values()) judge(name)
  }
  served.graph.onCommit(served.inputs.Namespace, (changes) => {
    for (const { old, now } of changes) judge((now ?? old)?.name ?? '')
  })
  // Discovery selectors may let other namespaces in.
  served.graph.onCommit(served.address.domain.mesh.rows, judgeAll)
  return {
    name: 'roots',
    async run(signal) {
      judgeAll()
      distribution.start(signal)
      await Promise.all(distribution.names.map((name) => watchMaps(name, distribution, options).run(signal)))
    },
  }
}

/** Tells the distribution of every map of this name that somebody made, changed or deleted. */
function watchMaps(name: string, distribution: Distribution, options: RootDistributionOptions): Reflector<'ConfigMap'> {
  const { api, cluster, clock, log, random } = options
  const selection = { api, kind: 'ConfigMap' as const, cluster, fieldSelector: `metadata.name=${name}` }
  const source = new TouchedMaps((map) => distribution.mapChanged(map.namespace, map.name))
  // Figures about these reads would mix with those of what is served.
  const metrics = createKubeMetrics(new Registry())
  return new Reflector({ selection, source, clock, log, metrics, random })
}

/** Keeps which maps there are, and tells of each touch, also where nothing differs that a record holds. */
class TouchedMaps implements Source<ConfigMapRecord> {
  readonly name = 'maps of roots'
  readonly #maps = new Map<string, ConfigMapRecord>()
  readonly #touched: (map: ConfigMapRecord) => void

  constructor(touched: (map: ConfigMapRecord) => void) {
    this.#touched = touched
  }

  get size(): number {
    return this.#maps.size
  }
  get(key: string): ConfigMapRecord | undefined {
    return this.#maps.get(key)
  }
  keys(): Iterable<string> {
    return this.#maps.keys()
  }
  values(): Iterable<ConfigMapRecord> {
    return this.#maps.values()
  }
  index(): never {
    throw new Error('nobody looks these maps up')
  }
  set(key: string, map: ConfigMapRecord): void {
    this.#maps.set(key, map)
    this.#touched(map)
  }
  delete(key: string): void {
    const map = this.#maps.get(key)
    this.#maps.delete(key)
    if (map !== undefined) this.#touched(map)
  }
  replace(rows: ReadonlyMap<string, ConfigMapRecord>): void {
    const gone = [...this.#maps].filter(([key]) => !rows.has(key))
    this.#maps.clear()
    for (const [key, map] of rows) this.set(key, map)
    for (const [, map] of gone) this.#touched(map)
  }
}
