// Original file: proto/istio/workload/workload.proto

import type { GatewayAddress as _istio_workload_GatewayAddress, GatewayAddress__Output as _istio_workload_GatewayAddress__Output } from '../../istio/workload/GatewayAddress.js';

export interface WeightedWaypoint {
  'destination'?: (_istio_workload_GatewayAddress | null);
  'weight'?: (number);
}

export interface WeightedWaypoint__Output {
  'destination'?: (_istio_workload_GatewayAddress__Output);
  'weight'?: (number);
}
