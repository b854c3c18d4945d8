// SPDX-License-Identifier: Apache-2.0
// Reading labels and annotations, and the keys that mean something here. A key that is there with an empty value is there.

import { labelOf, type Labels } from '../kube/records.js'

export { labelOf }

export const labelKeys = {
  network: 'topology.istio.io/network',
  revision: 'istio.io/rev',
  useWaypoint: 'istio.io/use-waypoint',
  useWaypointNamespace: 'istio.io/use-waypoint-namespace',
  canary: 'istio.io/use-waypoint-canary',
  canaryNamespace: 'istio.io/use-waypoint-canary-namespace',
  ingressUseWaypoint: 'istio.io/ingress-use-waypoint',
  waypointFor: 'istio.io/waypoint-for',
  gatewayName: 'gateway.networking.k8s.io/gateway-name',
  managed: 'gateway.istio.io/managed',
  tunnel: 'networking.istio.io/tunnel',
  workloadName: 'service.istio.io/workload-name',
  autoAllocate: 'networking.istio.io/enable-autoallocate-ip',
  serviceName: 'kubernetes.io/service-name',
} as const

export const annotationKeys = {
  canaryWeight: 'istio.io/use-waypoint-canary-weight',
  inboundBinding: 'ambient.istio.io/waypoint-inbound-binding',
  gatewayServiceAccount: 'gateway.istio.io/service-account',
  redirection: 'ambient.istio.io/redirection',
  autoRegistrationGroup: 'istio.io/autoRegistrationGroup',
  trafficDistribution: 'networking.istio.io/traffic-distribution',
  dryRun: 'istio.io/dry-run',
} as const

/** The value of the first key that is there. */
export function firstLabelOf(labels: Labels | undefined, keys: readonly string[]): string | undefined {
  for (const key of keys) {
    const value = labelOf(labels, key)
    if (value !== undefined) return value
  }
  return undefined
}

export function isEmptyLabels(labels: Labels | undefined): boolean {
  if (labels === undefined) return true
  for (const _ in labels) return false
  return true
}
