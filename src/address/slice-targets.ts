// SPDX-License-Identifier: Apache-2.0
// Pods that belong to a Service by its EndpointSlices: those that a slice names, and those whose address it names without a word about the pod.
// Readiness, addresses and ports of named pods do not matter here; in a cluster of any size slices change all the time, and these rows must not.

import type { Graph, Read } from '../collection/types.js'
import type { Inputs } from '../kube/inputs.js'
import { objectKey, type EndpointSliceRecord, type PodRecord } from '../kube/records.js'
import type { AddressOwners } from './address-owners.js'
import type { Discovery } from './discovery.js'
import { isSameRow } from './equal.js'
import { labelKeys, labelOf } from './labels.js'
import { formatServiceHostname, formatServiceName } from './names.js'
import type { AddressOptions } from './options.js'

export interface SliceTargets {
  /** By Service, published or not: slices that name this very pod (its uid too) first, then those that name its address only. */
  targetsOf(read: Read, pod: PodRecord): readonly SliceTarget[]
}

type SlicePorts = EndpointSliceRecord['ports']
type Target = NonNullable<EndpointSliceRecord['endpoints'][number]['target']>

interface SlicePods {
  readonly key: string
  readonly cluster: string
  readonly service: string
  readonly targets: readonly Target[]
  /** Pods in the mesh that have an address of the slice. */
  readonly adopters: readonly { readonly pod: string; readonly uid: string }[]
  /** Only where they count: for adopters. */
  readonly ports: SlicePorts | undefined
}

export interface SliceTarget {
  readonly key: string
  readonly pod: string
  readonly uid: string
  readonly service: string
  /** Undefined where the slice names the pod itself: then the Service's own ports count. */
  readonly ports: SlicePorts | undefined
}

export function createSliceTargets(
  graph: Graph,
  inputs: Inputs,
  reads: { readonly discovery: Discovery; readonly owners: AddressOwners; readonly options: AddressOptions },
): SliceTargets {
  const { discovery, owners, options } = reads
  const slicePods = graph.derive(
    'pods of slices',
    inputs.EndpointSlice,
    (slice, read): SlicePods | undefined => {
      const { cluster, namespace, name, addressType } = slice
      const service = toServiceOfSlice(slice, options.domain)
      if (service === undefined || addressType === 'FQDN') return undefined
      const targets = slice.endpoints.flatMap(({ target }) => (target?.kind === 'Pod' ? [target] : []))
      const unnamed = slice.endpoints.filter((endpoint) => endpoint.target?.kind !== 'Pod')
      if ((targets.length === 0 && unnamed.length === 0) || !discovery.isSeen(read, slice)) return undefined
      const adopters = unnamed.flatMap((endpoint) => {
        const pod = owners.adopterOf(read, cluster, endpoint.addresses)
        return pod === undefined ? [] : [{ pod: objectKey(cluster, pod.namespace, pod.name), uid: pod.uid }]
      })
      const key = objectKey(cluster, namespace, name)
      return { key, cluster, service, targets, adopters, ports: adopters.length === 0 ? undefined : slice.ports }
    },
    { key: (row) => row.key, equal: isSamePods },
  )
  const rows = graph.derive(
    'targets of slices',
    slicePods,
    ({ key, cluster, service, targets, adopters, ports }): readonly SliceTarget[] => {
      const byPod = new Map<string, SliceTarget>()
      for (const { pod, uid } of adopters) byPod.set(pod, { key: `${key} ${pod} ${uid}`, pod, uid, service, ports })
      for (const target of targets) {
        const pod = objectKey(cluster, target.namespace, target.name)
        const row = { key: `${key} ${pod} ${target.uid}`, pod, uid: target.uid, service, ports: undefined }
        // A slice that also names the pod's address in another endpoint names the pod.
        if (byPod.get(pod)?.uid === target.uid) byPod.delete(pod)
        byPod.set(row.key, row)
      }
      return [...byPod.values()]
    },
    { key: (row) => row.key, equal: (a, b) => a.service === b.service && isSameRow(a.ports, b.ports) },
  )
  const byPod = rows.index('pod', (row) => [row.pod])
  return {
    targetsOf(read, { cluster, namespace, name, uid }) {
      const targets = read.many(byPod, objectKey(cluster, namespace, name))
      if (targets.length === 0) return noTargets
      const own = new Map<string, SliceTarget>()
      for (const target of targets) {
        if (target.uid !== uid) continue
        const before = own.get(target.service)
        if (before === undefined || isBetter(target, before)) own.set(target.service, target)
      }
      return [...own.values()]
    },
  }
}

/** Runs at every change of every slice, for as many pods as it has: by hand. */
function isSamePods(a: SlicePods, b: SlicePods): boolean {
  if (a.service !== b.service || a.targets.length !== b.targets.length) return false
  const isSame = a.targets.every((target, place) => {
    const other = b.targets[place]
    return other?.uid === target.uid && other.name === target.name && other.namespace === target.namespace
  })
  return isSame && isSameRow(a.adopters, b.adopters) && isSameRow(a.ports, b.ports)
}

const noTargets: readonly SliceTarget[] = Object.freeze([])

function isBetter(a: SliceTarget, b: SliceTarget): boolean {
  if ((a.ports === undefined) !== (b.ports === undefined)) return a.ports === undefined
  return a.key < b.key
}

/** `namespace/hostname` of the Service that a slice belongs to; undefined when it says none. */
export function toServiceOfSlice(slice: EndpointSliceRecord, domain: string): string | undefined {
  const name = labelOf(slice.labels, labelKeys.serviceName)
  return name === undefined
    ? undefined
    : formatServiceName(slice.namespace, formatServiceHostname(name, slice.namespace, domain))
}
