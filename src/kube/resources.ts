// SPDX-License-Identifier: Apache-2.0
// Where each kind lives in the API: group, versions, plural, scope, and the annotations and conditions worth keeping. For the reflectors, the projections
// and the file source. Facts only.

import type { Kind } from './records.js'

export interface ResourceType {
  readonly kind: Kind
  /** Empty for the core group. */
  readonly group: string
  /** In the order in which they are asked for. */
  readonly versions: readonly string[]
  readonly plural: string
  readonly namespaced: boolean
  /** Defined by a CRD that may be absent. */
  readonly custom: boolean
  /** Annotations that some rule reads. */
  readonly annotations: readonly string[]
  /** Types of the conditions that are written back, in ascending order. */
  readonly conditions: readonly string[]
}

const waypointBound = 'istio.io/WaypointBound'

const redirection = 'ambient.istio.io/redirection'
const canaryWeight = 'istio.io/use-waypoint-canary-weight'
const distribution = 'networking.istio.io/traffic-distribution'
const binding = 'ambient.istio.io/waypoint-inbound-binding'

/** Read by the node agent alone, but for the first. */
const podAnnotations = [
  redirection,
  'sidecar.istio.io/status',
  'ambient.istio.io/bypass-inbound-capture',
  'ambient.istio.io/dns-capture',
  'istio.io/reroute-virtual-interfaces',
  'addressd.io/exclude-inbound-ports',
  'addressd.io/exclude-outbound-cidrs',
  'kubernetes.io/config.hash',
]

const gatewayApi = { group: 'gateway.networking.k8s.io', versions: ['v1', 'v1beta1'], custom: true } as const
const networking = { group: 'networking.istio.io', versions: ['v1', 'v1beta1', 'v1alpha3'], custom: true } as const
const security = { group: 'security.istio.io', versions: ['v1', 'v1beta1'], custom: true } as const
const core = { group: '', versions: ['v1'], custom: false } as const
const discovery = { group: 'discovery.k8s.io', versions: ['v1'], custom: false } as const

function named(kind: Kind, plural: string, namespaced: boolean, annotations: readonly string[] = []) {
  return { kind, plural, namespaced, annotations, conditions: noConditions }
}

const noConditions: readonly string[] = []

export const resourceTypes: { readonly [K in Kind]: ResourceType } = {
  Namespace: { ...core, ...named('Namespace', 'namespaces', false, [canaryWeight, distribution]) },
  Node: { ...core, ...named('Node', 'nodes', false) },
  ConfigMap: { ...core, ...named('ConfigMap', 'configmaps', true) },
  Service: {
    ...core,
    ...named('Service', 'services', true, [canaryWeight, distribution]),
    conditions: [waypointBound],
  },
  Pod: { ...core, ...named('Pod', 'pods', true, podAnnotations) },
  EndpointSlice: { ...discovery, ...named('EndpointSlice', 'endpointslices', true) },
  GatewayClass: { ...gatewayApi, ...named('GatewayClass', 'gatewayclasses', false, [binding]) },
  Gateway: {
    ...gatewayApi,
    ...named('Gateway', 'gateways', true, [binding, 'gateway.istio.io/service-account']),
  },
  ServiceEntry: {
    ...networking,
    ...named('ServiceEntry', 'serviceentries', true, [
      redirection,
      canaryWeight,
      distribution,
      'istio.io/connect-strategy',
    ]),
    conditions: ['istio.io/VisibilityApplied', waypointBound, 'istio.io/WaypointMissing'],
  },
  WorkloadEntry: {
    ...networking,
    ...named('WorkloadEntry', 'workloadentries', true, [redirection, 'istio.io/autoRegistrationGroup']),
    conditions: [waypointBound],
  },
  AuthorizationPolicy: {
    ...security,
    ...named('AuthorizationPolicy', 'authorizationpolicies', true, ['istio.io/dry-run']),
    conditions: ['WaypointAccepted', 'ZtunnelAccepted'],
  },
  PeerAuthentication: { ...security, ...named('PeerAuthentication', 'peerauthentications', true) },
}

/** The kind that an object's apiVersion and kind name, any version of its group; undefined when it is none of ours. */
export function parseKind(apiVersion: string, kind: string): Kind | undefined {
  if (!Object.hasOwn(resourceTypes, kind)) return undefined
  const type = resourceTypes[kind as Kind]
  const slash = apiVersion.indexOf('/')
  return (slash < 0 ? '' : apiVersion.slice(0, slash)) === type.group ? type.kind : undefined
}

/** Path of a kind's collection, or of one object, in the API server. An empty namespace means all of them. */
export function formatResourcePath(
  type: ResourceType,
  version: string,
  at: { readonly namespace?: string; readonly name?: string } = {},
): string {
  const root = type.group === '' ? `/api/${version}` : `/apis/${type.group}/${version}`
  const space = type.namespaced && at.namespace ? `/namespaces/${encodeURIComponent(at.namespace)}` : ''
  const name = at.name ? `/${encodeURIComponent(at.name)}` : ''
  return `${root}${space}/${type.plural}${name}`
}
