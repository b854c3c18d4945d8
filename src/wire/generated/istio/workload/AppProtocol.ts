// Original file: proto/istio/workload/workload.proto

export const AppProtocol = {
  UNKNOWN: 'UNKNOWN',
  HTTP11: 'HTTP11',
  HTTP2: 'HTTP2',
  GRPC: 'GRPC',
  TCP: 'TCP',
  TLS: 'TLS',
} as const;

export type AppProtocol =
  | 'UNKNOWN'
  | 0
  | 'HTTP11'
  | 1
  | 'HTTP2'
  | 2
  | 'GRPC'
  | 3
  | 'TCP'
  | 4
  | 'TLS'
  | 5

export type AppProtocol__Output = typeof AppProtocol[keyof typeof AppProtocol]
