// SPDX-License-Identifier: Apache-2.0
// How clients of a service prefer its endpoints: by locality, by health. Pure.

import type { Labels, ServiceRecord } from '../kube/records.js'
import { HealthPolicy, LoadBalancingMode, Scope, type LoadBalancing } from '../wire/messages.js'
import { annotationKeys, labelOf } from './labels.js'

type Distribution = 'zone' | 'node' | 'any'

const zoneScopes = [Scope.NETWORK, Scope.REGION, Scope.ZONE] as const
const nodeScopes = [...zoneScopes, Scope.SUBZONE, Scope.NODE] as const

const specWords: Readonly<Record<string, Distribution>> = {
  PreferSameZone: 'zone',
  PreferClose: 'zone',
  PreferSameNode: 'node',
}
const annotationWords: Readonly<Record<string, Distribution>> = {
  preferclose: 'zone',
  prefersamezone: 'zone',
  prefersamenode: 'node',
}

/** Of a Kubernetes Service; `inherited` are the annotations of its namespace. Undefined when there is nothing to say. */
export function toServiceLoadBalancing(
  service: ServiceRecord,
  inherited: Labels | undefined,
): LoadBalancing | undefined {
  const spec = Object.hasOwn(specWords, service.trafficDistribution)
    ? specWords[service.trafficDistribution]
    : undefined
  const routing =
    service.internalTrafficPolicy === 'Local'
      ? { routingPreference: [Scope.NODE], mode: LoadBalancingMode.STRICT }
      : toRouting(spec ?? selectDistribution(service.annotations, inherited))
  if (!service.publishNotReadyAddresses) return routing && { ...routing, healthPolicy: HealthPolicy.ONLY_HEALTHY }
  const unspecified = { routingPreference: [], mode: LoadBalancingMode.UNSPECIFIED_MODE }
  return { ...(routing ?? unspecified), healthPolicy: HealthPolicy.ALLOW_ALL }
}

/** Of a ServiceEntry; without resolution, connections go where they were going. */
export function toEntryLoadBalancing(
  resolution: string,
  annotations: Labels | undefined,
  inherited: Labels | undefined,
): LoadBalancing | undefined {
  if (resolution === 'NONE')
    return { routingPreference: [], mode: LoadBalancingMode.PASSTHROUGH, healthPolicy: HealthPolicy.ALLOW_ALL }
  const routing = toRouting(selectDistribution(annotations, inherited))
  return routing && { ...routing, healthPolicy: HealthPolicy.ONLY_HEALTHY }
}

/** The object's annotation before its namespace's. A word that is not known means no preference, and ends the search. */
function selectDistribution(own: Labels | undefined, inherited: Labels | undefined): Distribution {
  for (const annotations of [own, inherited]) {
    const word = (labelOf(annotations, annotationKeys.trafficDistribution) ?? '').toLowerCase()
    if (word !== '') return (Object.hasOwn(annotationWords, word) ? annotationWords[word] : undefined) ?? 'any'
  }
  return 'any'
}

function toRouting(distribution: Distribution): Pick<LoadBalancing, 'routingPreference' | 'mode'> | undefined {
  if (distribution === 'any') return undefined
  return { routingPreference: distribution === 'zone' ? zoneScopes : nodeScopes, mode: LoadBalancingMode.FAILOVER }
}
