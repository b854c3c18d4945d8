// Original file: proto/istio/workload/workload.proto

import type { Workload as _istio_workload_Workload, Workload__Output as _istio_workload_Workload__Output } from '../../istio/workload/Workload.js';
import type { Service as _istio_workload_Service, Service__Output as _istio_workload_Service__Output } from '../../istio/workload/Service.js';

export interface Address {
  'workload'?: (_istio_workload_Workload | null);
  'service'?: (_istio_workload_Service | null);
  'type'?: "workload"|"service";
}

export interface Address__Output {
  'workload'?: (_istio_workload_Workload__Output);
  'service'?: (_istio_workload_Service__Output);
  'type'?: "workload"|"service";
}
