// Original file: proto/istio/workload/workload.proto


// Original file: proto/istio/workload/workload.proto

export const _istio_workload_LoadBalancing_HealthPolicy = {
  ONLY_HEALTHY: 'ONLY_HEALTHY',
  ALLOW_ALL: 'ALLOW_ALL',
} as const;

export type _istio_workload_LoadBalancing_HealthPolicy =
  | 'ONLY_HEALTHY'
  | 0
  | 'ALLOW_ALL'
  | 1

export type _istio_workload_LoadBalancing_HealthPolicy__Output = typeof _istio_workload_LoadBalancing_HealthPolicy[keyof typeof _istio_workload_LoadBalancing_HealthPolicy]

// Original file: proto/istio/workload/workload.proto

export const _istio_workload_LoadBalancing_Mode = {
  UNSPECIFIED_MODE: 'UNSPECIFIED_MODE',
  STRICT: 'STRICT',
  FAILOVER: 'FAILOVER',
  PASSTHROUGH: 'PASSTHROUGH',
} as const;

export type _istio_workload_LoadBalancing_Mode =
  | 'UNSPECIFIED_MODE'
  | 0
  | 'STRICT'
  | 1
  | 'FAILOVER'
  | 2
  | 'PASSTHROUGH'
  | 3

export type _istio_workload_LoadBalancing_Mode__Output = typeof _istio_workload_LoadBalancing_Mode[keyof typeof _istio_workload_LoadBalancing_Mode]

// Original file: proto/istio/workload/workload.proto

export const _istio_workload_LoadBalancing_Scope = {
  UNSPECIFIED_SCOPE: 'UNSPECIFIED_SCOPE',
  REGION: 'REGION',
  ZONE: 'ZONE',
  SUBZONE: 'SUBZONE',
  NODE: 'NODE',
  CLUSTER: 'CLUSTER',
  NETWORK: 'NETWORK',
} as const;

export type _istio_workload_LoadBalancing_Scope =
  | 'UNSPECIFIED_SCOPE'
  | 0
  | 'REGION'
  | 1
  | 'ZONE'
  | 2
  | 'SUBZONE'
  | 3
  | 'NODE'
  | 4
  | 'CLUSTER'
  | 5
  | 'NETWORK'
  | 6

export type _istio_workload_LoadBalancing_Scope__Output = typeof _istio_workload_LoadBalancing_Scope[keyof typeof _istio_workload_LoadBalancing_Scope]

export interface LoadBalancing {
  'routing_preference'?: (_istio_workload_LoadBalancing_Scope)[];
  'mode'?: (_istio_workload_LoadBalancing_Mode);
  'health_policy'?: (_istio_workload_LoadBalancing_HealthPolicy);
}

export interface LoadBalancing__Output {
  'routing_preference'?: (_istio_workload_LoadBalancing_Scope__Output)[];
  'mode'?: (_istio_workload_LoadBalancing_Mode__Output);
  'health_policy'?: (_istio_workload_LoadBalancing_HealthPolicy__Output);
}
