// Original file: proto/istio/workload/workload.proto

import type { TunnelProtocol as _istio_workload_TunnelProtocol, TunnelProtocol__Output as _istio_workload_TunnelProtocol__Output } from '../../istio/workload/TunnelProtocol.js';
import type { GatewayAddress as _istio_workload_GatewayAddress, GatewayAddress__Output as _istio_workload_GatewayAddress__Output } from '../../istio/workload/GatewayAddress.js';
import type { WorkloadType as _istio_workload_WorkloadType, WorkloadType__Output as _istio_workload_WorkloadType__Output } from '../../istio/workload/WorkloadType.js';
import type { WorkloadStatus as _istio_workload_WorkloadStatus, WorkloadStatus__Output as _istio_workload_WorkloadStatus__Output } from '../../istio/workload/WorkloadStatus.js';
import type { PortList as _istio_workload_PortList, PortList__Output as _istio_workload_PortList__Output } from '../../istio/workload/PortList.js';
import type { ApplicationTunnel as _istio_workload_ApplicationTunnel, ApplicationTunnel__Output as _istio_workload_ApplicationTunnel__Output } from '../../istio/workload/ApplicationTunnel.js';
import type { Locality as _istio_workload_Locality, Locality__Output as _istio_workload_Locality__Output } from '../../istio/workload/Locality.js';
import type { NetworkMode as _istio_workload_NetworkMode, NetworkMode__Output as _istio_workload_NetworkMode__Output } from '../../istio/workload/NetworkMode.js';
import type { Extension as _istio_workload_Extension, Extension__Output as _istio_workload_Extension__Output } from '../../istio/workload/Extension.js';
import type { UInt32Value as _google_protobuf_UInt32Value, UInt32Value__Output as _google_protobuf_UInt32Value__Output } from '../../google/protobuf/UInt32Value.js';

export interface Workload {
  'name'?: (string);
  'namespace'?: (string);
  'addresses'?: (Buffer | Uint8Array | string)[];
  'network'?: (string);
  'tunnel_protocol'?: (_istio_workload_TunnelProtocol);
  'trust_domain'?: (string);
  'service_account'?: (string);
  'waypoint'?: (_istio_workload_GatewayAddress | null);
  'node'?: (string);
  'canonical_name'?: (string);
  'canonical_revision'?: (string);
  'workload_type'?: (_istio_workload_WorkloadType);
  'workload_name'?: (string);
  'native_tunnel'?: (boolean);
  'authorization_policies'?: (string)[];
  'status'?: (_istio_workload_WorkloadStatus);
  'cluster_id'?: (string);
  'network_gateway'?: (_istio_workload_GatewayAddress | null);
  'uid'?: (string);
  'hostname'?: (string);
  'services'?: ({[key: string]: _istio_workload_PortList});
  'application_tunnel'?: (_istio_workload_ApplicationTunnel | null);
  'locality'?: (_istio_workload_Locality | null);
  'network_mode'?: (_istio_workload_NetworkMode);
  'extensions'?: (_istio_workload_Extension)[];
  'capacity'?: (_google_protobuf_UInt32Value | null);
}

export interface Workload__Output {
  'name'?: (string);
  'namespace'?: (string);
  'addresses'?: (Buffer)[];
  'network'?: (string);
  'tunnel_protocol'?: (_istio_workload_TunnelProtocol__Output);
  'trust_domain'?: (string);
  'service_account'?: (string);
  'waypoint'?: (_istio_workload_GatewayAddress__Output);
  'node'?: (string);
  'canonical_name'?: (string);
  'canonical_revision'?: (string);
  'workload_type'?: (_istio_workload_WorkloadType__Output);
  'workload_name'?: (string);
  'native_tunnel'?: (boolean);
  'authorization_policies'?: (string)[];
  'status'?: (_istio_workload_WorkloadStatus__Output);
  'cluster_id'?: (string);
  'network_gateway'?: (_istio_workload_GatewayAddress__Output);
  'uid'?: (string);
  'hostname'?: (string);
  'services'?: ({[key: string]: _istio_workload_PortList__Output});
  'application_tunnel'?: (_istio_workload_ApplicationTunnel__Output);
  'locality'?: (_istio_workload_Locality__Output);
  'network_mode'?: (_istio_workload_NetworkMode__Output);
  'extensions'?: (_istio_workload_Extension__Output)[];
  'capacity'?: (_google_protobuf_UInt32Value__Output);
}
