// Original file: proto/istio/workload/workload.proto

export const TunnelProtocol = {
  NONE: 'NONE',
  HBONE: 'HBONE',
  LEGACY_ISTIO_MTLS: 'LEGACY_ISTIO_MTLS',
} as const;

export type TunnelProtocol =
  | 'NONE'
  | 0
  | 'HBONE'
  | 1
  | 'LEGACY_ISTIO_MTLS'
  | 2

export type TunnelProtocol__Output = typeof TunnelProtocol[keyof typeof TunnelProtocol]
