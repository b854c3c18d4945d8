// Original file: proto/istio/workload/workload.proto


// Original file: proto/istio/workload/workload.proto

export const _istio_workload_ApplicationTunnel_Protocol = {
  NONE: 'NONE',
  PROXY: 'PROXY',
} as const;

export type _istio_workload_ApplicationTunnel_Protocol =
  | 'NONE'
  | 0
  | 'PROXY'
  | 1

export type _istio_workload_ApplicationTunnel_Protocol__Output = typeof _istio_workload_ApplicationTunnel_Protocol[keyof typeof _istio_workload_ApplicationTunnel_Protocol]

export interface ApplicationTunnel {
  'protocol'?: (_istio_workload_ApplicationTunnel_Protocol);
  'port'?: (number);
}

export interface ApplicationTunnel__Output {
  'protocol'?: (_istio_workload_ApplicationTunnel_Protocol__Output);
  'port'?: (number);
}
