// Original file: proto/istio/workload/workload.proto

import type { Port as _istio_workload_Port, Port__Output as _istio_workload_Port__Output } from '../../istio/workload/Port.js';

export interface PortList {
  'ports'?: (_istio_workload_Port)[];
}

export interface PortList__Output {
  'ports'?: (_istio_workload_Port__Output)[];
}
