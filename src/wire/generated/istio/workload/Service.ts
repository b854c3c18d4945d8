// Original file: proto/istio/workload/workload.proto

import type { NetworkAddress as _istio_workload_NetworkAddress, NetworkAddress__Output as _istio_workload_NetworkAddress__Output } from '../../istio/workload/NetworkAddress.js';
import type { Port as _istio_workload_Port, Port__Output as _istio_workload_Port__Output } from '../../istio/workload/Port.js';
import type { GatewayAddress as _istio_workload_GatewayAddress, GatewayAddress__Output as _istio_workload_GatewayAddress__Output } from '../../istio/workload/GatewayAddress.js';
import type { LoadBalancing as _istio_workload_LoadBalancing, LoadBalancing__Output as _istio_workload_LoadBalancing__Output } from '../../istio/workload/LoadBalancing.js';
import type { IPFamilies as _istio_workload_IPFamilies, IPFamilies__Output as _istio_workload_IPFamilies__Output } from '../../istio/workload/IPFamilies.js';
import type { Extension as _istio_workload_Extension, Extension__Output as _istio_workload_Extension__Output } from '../../istio/workload/Extension.js';
import type { WeightedWaypoint as _istio_workload_WeightedWaypoint, WeightedWaypoint__Output as _istio_workload_WeightedWaypoint__Output } from '../../istio/workload/WeightedWaypoint.js';

// Original file: proto/istio/workload/workload.proto

export const _istio_workload_Service_Visibility = {
  PUBLIC: 'PUBLIC',
  NAMESPACE: 'NAMESPACE',
} as const;

export type _istio_workload_Service_Visibility =
  | 'PUBLIC'
  | 0
  | 'NAMESPACE'
  | 1

export type _istio_workload_Service_Visibility__Output = typeof _istio_workload_Service_Visibility[keyof typeof _istio_workload_Service_Visibility]

export interface Service {
  'name'?: (string);
  'namespace'?: (string);
  'hostname'?: (string);
  'addresses'?: (_istio_workload_NetworkAddress)[];
  'ports'?: (_istio_workload_Port)[];
  'subject_alt_names'?: (string)[];
  'waypoint'?: (_istio_workload_GatewayAddress | null);
  'load_balancing'?: (_istio_workload_LoadBalancing | null);
  'ip_families'?: (_istio_workload_IPFamilies);
  'extensions'?: (_istio_workload_Extension)[];
  'canonical'?: (boolean);
  'ingress_use_waypoint'?: (boolean);
  'weighted_waypoints'?: (_istio_workload_WeightedWaypoint)[];
  'visibility'?: (_istio_workload_Service_Visibility);
}

export interface Service__Output {
  'name'?: (string);
  'namespace'?: (string);
  'hostname'?: (string);
  'addresses'?: (_istio_workload_NetworkAddress__Output)[];
  'ports'?: (_istio_workload_Port__Output)[];
  'subject_alt_names'?: (string)[];
  'waypoint'?: (_istio_workload_GatewayAddress__Output);
  'load_balancing'?: (_istio_workload_LoadBalancing__Output);
  'ip_families'?: (_istio_workload_IPFamilies__Output);
  'extensions'?: (_istio_workload_Extension__Output)[];
  'canonical'?: (boolean);
  'ingress_use_waypoint'?: (boolean);
  'weighted_waypoints'?: (_istio_workload_WeightedWaypoint__Output)[];
  'visibility'?: (_istio_workload_Service_Visibility__Output);
}
