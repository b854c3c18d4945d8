// Original file: proto/istio/workload/workload.proto

import type { AppProtocol as _istio_workload_AppProtocol, AppProtocol__Output as _istio_workload_AppProtocol__Output } from '../../istio/workload/AppProtocol.js';

export interface Port {
  'service_port'?: (number);
  'target_port'?: (number);
  'app_protocol'?: (_istio_workload_AppProtocol);
}

export interface Port__Output {
  'service_port'?: (number);
  'target_port'?: (number);
  'app_protocol'?: (_istio_workload_AppProtocol__Output);
}
