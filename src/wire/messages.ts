// SPDX-License-Identifier: Apache-2.0
// The hot messages of `istio.workload` as TypeScript shapes. Optional or empty = proto3 default and never written; presence matters where `undefined` is allowed on a message.

export const ADDRESS_TYPE = 'type.googleapis.com/istio.workload.Address'
export const WORKLOAD_TYPE = 'type.googleapis.com/istio.workload.Workload'
export const AUTHORIZATION_TYPE = 'type.googleapis.com/istio.security.Authorization'

export const IpFamilies = { AUTOMATIC: 0, IPV4_ONLY: 1, IPV6_ONLY: 2, DUAL: 3 } as const
export const NetworkMode = { STANDARD: 0, HOST_NETWORK: 1 } as const
export const Scope = { UNSPECIFIED_SCOPE: 0, REGION: 1, ZONE: 2, SUBZONE: 3, NODE: 4, CLUSTER: 5, NETWORK: 6 } as const
export const LoadBalancingMode = { UNSPECIFIED_MODE: 0, STRICT: 1, FAILOVER: 2, PASSTHROUGH: 3 } as const
export const HealthPolicy = { ONLY_HEALTHY: 0, ALLOW_ALL: 1 } as const
export const Visibility = { PUBLIC: 0, NAMESPACE: 1 } as const
export const WorkloadStatus = { HEALTHY: 0, UNHEALTHY: 1 } as const
export const WorkloadType = { DEPLOYMENT: 0, CRONJOB: 1, POD: 2, JOB: 3 } as const
export const AppProtocol = { UNKNOWN: 0, HTTP11: 1, HTTP2: 2, GRPC: 3, TCP: 4, TLS: 5 } as const
export const TunnelProtocol = { NONE: 0, HBONE: 1, LEGACY_ISTIO_MTLS: 2 } as const
export const ApplicationProtocol = { NONE: 0, PROXY: 1 } as const

export interface NetworkAddress {
  readonly network: string
  /** 4 or 16 bytes. */
  readonly address: Uint8Array
  /** Prefix length in bits; undefined = a host address; 0 is written. */
  readonly length?: number | undefined
}

export interface NamespacedHostname {
  readonly namespace: string
  readonly hostname: string
}

/** Exactly one of hostname and address, or neither. */
export interface GatewayAddress {
  readonly hostname?: NamespacedHostname | undefined
  readonly address?: NetworkAddress | undefined
  readonly hboneMtlsPort: number
}

export interface WeightedWaypoint {
  readonly destination: GatewayAddress | undefined
  readonly weight: number
}

export interface Port {
  readonly servicePort: number
  readonly targetPort: number
  readonly appProtocol: number
}

export interface LoadBalancing {
  readonly routingPreference: readonly number[]
  readonly mode: number
  readonly healthPolicy: number
}

export interface Locality {
  readonly region: string
  readonly zone: string
  readonly subzone: string
}

export interface ApplicationTunnel {
  readonly protocol: number
  readonly port: number
}

export interface ServiceMessage {
  readonly name: string
  readonly namespace: string
  readonly hostname: string
  readonly addresses: readonly NetworkAddress[]
  readonly ports: readonly Port[]
  readonly subjectAltNames: readonly string[]
  readonly waypoint: GatewayAddress | undefined
  readonly loadBalancing: LoadBalancing | undefined
  readonly ipFamilies: number
  readonly canonical: boolean
  readonly ingressUseWaypoint: boolean
  readonly weightedWaypoints: readonly WeightedWaypoint[]
  readonly visibility: number
}

export interface WorkloadMessage {
  readonly uid: string
  readonly name: string
  readonly namespace: string
  /** 4 or 16 bytes each. */
  readonly addresses: readonly Uint8Array[]
  readonly hostname: string
  readonly network: string
  readonly tunnelProtocol: number
  readonly trustDomain: string
  readonly serviceAccount: string
  readonly waypoint: GatewayAddress | undefined
  readonly networkGateway: GatewayAddress | undefined
  readonly node: string
  readonly canonicalName: string
  readonly canonicalRevision: string
  readonly workloadType: number
  readonly workloadName: string
  readonly nativeTunnel: boolean
  readonly applicationTunnel: ApplicationTunnel | undefined
  /** Key `namespace/hostname`; written in byte order of the keys, whatever order they have here. */
  readonly services: ReadonlyMap<string, readonly Port[]>
  readonly authorizationPolicies: readonly string[]
  readonly status: number
  readonly clusterId: string
  readonly locality: Locality | undefined
  readonly networkMode: number
  /** undefined = no capacity message; a number (0 too) = present. */
  readonly capacity: number | undefined
}
