// SPDX-License-Identifier: Apache-2.0
// The policies that let waypoints in without anybody writing one: listed by workloads when the setting is on, one for each waypoint that has pods.

import type { Graph, Read } from '../collection/types.js'
import type { Inputs } from '../kube/inputs.js'
import { objectKey } from '../kube/records.js'
import type { MemberService } from './hostnames.js'
import { labelKeys, labelOf } from './labels.js'
import type { Waypoints } from './waypoints.js'

export interface ImplicitPolicies {
  /** Names for a workload that is in these services; `own` is the `namespace/name` of its own waypoint. */
  namesFor(read: Read, cluster: string, services: readonly MemberService[], own: string | undefined): readonly string[]
}

const nothing: readonly string[] = Object.freeze([])

/** Lists nothing, and costs nothing. */
export const noImplicitPolicies: ImplicitPolicies = { namesFor: () => nothing }

interface AllowedWaypoint {
  readonly key: string
  readonly policy: string
}

export function createImplicitPolicies(graph: Graph, inputs: Inputs, waypoints: Waypoints): ImplicitPolicies {
  const podsByGateway = inputs.Pod.index('gateway', (pod) => {
    const gateway = labelOf(pod.labels, labelKeys.gatewayName) ?? ''
    return gateway === '' || pod.phase === 'Failed' ? [] : [objectKey(pod.cluster, pod.namespace, gateway)]
  })
  const allowed = graph.derive(
    'waypoints with pods',
    waypoints.rows,
    ({ cluster, namespace, name }, read): AllowedWaypoint | undefined => {
      const key = objectKey(cluster, namespace, name)
      if (read.many(podsByGateway, key).length === 0) return undefined
      return { key, policy: `${namespace}/istio_allow_waypoint_${namespace}_${name}` }
    },
    { key: (row) => row.key, equal: (a, b) => a.policy === b.policy },
  )
  return {
    namesFor(read, cluster, services, own) {
      const references = new Set<string>()
      for (const { waypoint } of services) if (waypoint !== undefined && waypoint !== own) references.add(waypoint)
      const inOrder = [...references].sort()
      if (own !== undefined) inOrder.push(own)
      return inOrder.flatMap((reference) => read.one(allowed, `${cluster}/${reference}`)?.policy ?? [])
    },
  }
}
