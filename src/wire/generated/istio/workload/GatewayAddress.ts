// Original file: proto/istio/workload/workload.proto

import type { NamespacedHostname as _istio_workload_NamespacedHostname, NamespacedHostname__Output as _istio_workload_NamespacedHostname__Output } from '../../istio/workload/NamespacedHostname.js';
import type { NetworkAddress as _istio_workload_NetworkAddress, NetworkAddress__Output as _istio_workload_NetworkAddress__Output } from '../../istio/workload/NetworkAddress.js';

export interface GatewayAddress {
  'hostname'?: (_istio_workload_NamespacedHostname | null);
  'address'?: (_istio_workload_NetworkAddress | null);
  'hbone_mtls_port'?: (number);
  'destination'?: "hostname"|"address";
}

export interface GatewayAddress__Output {
  'hostname'?: (_istio_workload_NamespacedHostname__Output);
  'address'?: (_istio_workload_NetworkAddress__Output);
  'hbone_mtls_port'?: (number);
  'destination'?: "hostname"|"address";
}
