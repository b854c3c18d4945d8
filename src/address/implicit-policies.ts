// SPDX-License-Identifier: Apache-2.0
// The policies that let waypoints in without anybody writing one: made and listed by workloads when the setting is on, one for each waypoint that has pods.

import type { Collection, Graph, Read } from '../collection/types.js'
import type { Inputs } from '../kube/inputs.js'
import { objectKey } from '../kube/records.js'
import { AuthorizationAction, AuthorizationScope, type StringMatch } from '../wire/authorization-encoder.js'
import type { Resource } from '../xds/source.js'
import type { MemberService } from './hostnames.js'
import { labelKeys, labelOf } from './labels.js'
import type { Mesh } from './mesh.js'
import { isSameResource, toPolicyResource } from './resource.js'
import type { Waypoints } from './waypoints.js'

export interface ImplicitPolicies {
  /** Undefined: the setting is off. */
  readonly resources: Collection<Resource> | undefined
  /** Names for a workload that is in these services; `own` is the `namespace/name` of its own waypoint. */
  namesFor(read: Read, cluster: string, services: readonly MemberService[], own: string | undefined): readonly string[]
}

const nothing: readonly string[] = Object.freeze([])

/** Lists nothing, and costs nothing. */
export const noImplicitPolicies: ImplicitPolicies = { resources: undefined, namesFor: () => nothing }

interface AllowedWaypoint {
  readonly key: string
  readonly policy: string
}

const namePrefix = 'istio_allow_waypoint_'

/** Name of the waypoint (without namespace) behind such a policy's name; undefined for any other name. */
export function parseImplicitName(namespace: string, name: string): string | undefined {
  const prefix = `${namePrefix}${namespace}_`
  return name.startsWith(prefix) ? name.slice(prefix.length) : undefined
}

export function createImplicitPolicies(
  graph: Graph,
  inputs: Inputs,
  waypoints: Waypoints,
  mesh: Mesh,
): ImplicitPolicies {
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
      return { key, policy: `${namespace}/${namePrefix}${namespace}_${name}` }
    },
    { key: (row) => row.key, equal: (a, b) => a.policy === b.policy },
  )
  const resources = graph.derive(
    'implicit policies',
    waypoints.rows,
    ({ cluster, namespace, name }, read): Resource | undefined => {
      const pods = read.many(podsByGateway, objectKey(cluster, namespace, name))
      if (pods.length === 0) return undefined
      const { trustDomain } = mesh.identity(read)
      const accounts = pods.map((pod) => pod.serviceAccount).sort()
      return toPolicyResource({
        namespace,
        name: `${namePrefix}${namespace}_${name}`,
        scope: AuthorizationScope.WORKLOAD_SELECTOR,
        action: AuthorizationAction.ALLOW,
        groups: [
          [
            [
              {
                principals: accounts.map((account): StringMatch => ({
                  kind: 'exact',
                  text: `${trustDomain}/ns/${namespace}/sa/${account}`,
                })),
              },
            ],
          ],
        ],
        dryRun: false,
      })
    },
    { key: (row) => row.name, equal: isSameResource },
  )
  return {
    resources,
    namesFor(read, cluster, services, own) {
      const references = new Set<string>()
      for (const { waypoint } of services) if (waypoint !== undefined && waypoint !== own) references.add(waypoint)
      const inOrder = [...references].sort()
      if (own !== undefined) inOrder.push(own)
      return inOrder.flatMap((reference) => read.one(allowed, `${cluster}/${reference}`)?.policy ?? [])
    },
  }
}
