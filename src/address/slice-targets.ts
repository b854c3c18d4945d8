// SPDX-License-Identifier: Apache-2.0
// Pods that an EndpointSlice names, and the Service it names them for: membership without a selector. Readiness, addresses and ports of the slice
// do not matter here; in a cluster of any size slices change all the time, and these rows must not.

import type { Graph, Read } from '../collection/types.js'
import type { Inputs } from '../kube/inputs.js'
import { objectKey, type EndpointSliceRecord, type PodRecord } from '../kube/records.js'
import type { Discovery } from './discovery.js'
import { isSameRow } from './equal.js'
import { labelKeys, labelOf } from './labels.js'
import { formatServiceHostname, formatServiceName } from './names.js'
import type { AddressOptions } from './options.js'

export interface SliceTargets {
  /** Names of the Services, published or not, whose slices name this very pod (its uid too). */
  servicesOf(read: Read, pod: PodRecord): readonly string[]
}

interface SlicePods {
  readonly key: string
  readonly cluster: string
  readonly service: string
  readonly targets: EndpointSliceRecord['endpoints'][number]['target'][]
}

interface SliceTarget {
  readonly key: string
  readonly pod: string
  readonly uid: string
  readonly service: string
}

export function createSliceTargets(
  graph: Graph,
  inputs: Inputs,
  discovery: Discovery,
  options: AddressOptions,
): SliceTargets {
  const slicePods = graph.derive(
    'pods of slices',
    inputs.EndpointSlice,
    (slice, read): SlicePods | undefined => {
      const { cluster, namespace, name, addressType } = slice
      const service = toServiceOfSlice(slice, options.domain)
      if (service === undefined || addressType === 'FQDN') return undefined
      const targets = slice.endpoints.map((endpoint) => endpoint.target).filter((target) => target?.kind === 'Pod')
      if (targets.length === 0 || !discovery.isSeen(read, slice)) return undefined
      return { key: objectKey(cluster, namespace, name), cluster, service, targets }
    },
    { key: (row) => row.key, equal: isSameRow },
  )
  const rows = graph.derive(
    'targets of slices',
    slicePods,
    ({ key, cluster, service, targets }): readonly SliceTarget[] => {
      const byPod = new Map<string, SliceTarget>()
      for (const target of targets) {
        if (target === undefined) continue
        const pod = objectKey(cluster, target.namespace, target.name)
        const row = { key: `${key} ${pod} ${target.uid}`, pod, uid: target.uid, service }
        byPod.set(row.key, row)
      }
      return [...byPod.values()]
    },
    { key: (row) => row.key, equal: (a, b) => a.service === b.service },
  )
  const byPod = rows.index('pod', (row) => [row.pod])
  return {
    servicesOf(read, { cluster, namespace, name, uid }) {
      const targets = read.many(byPod, objectKey(cluster, namespace, name))
      if (targets.length === 0) return noServices
      return targets.filter((target) => target.uid === uid).map((target) => target.service)
    },
  }
}

const noServices: readonly string[] = Object.freeze([])

/** `namespace/hostname` of the Service that a slice belongs to; undefined when it says none. */
export function toServiceOfSlice(slice: EndpointSliceRecord, domain: string): string | undefined {
  const name = labelOf(slice.labels, labelKeys.serviceName)
  return name === undefined
    ? undefined
    : formatServiceName(slice.namespace, formatServiceHostname(name, slice.namespace, domain))
}
