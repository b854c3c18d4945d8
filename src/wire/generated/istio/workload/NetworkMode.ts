// Original file: proto/istio/workload/workload.proto

export const NetworkMode = {
  STANDARD: 'STANDARD',
  HOST_NETWORK: 'HOST_NETWORK',
} as const;

export type NetworkMode =
  | 'STANDARD'
  | 0
  | 'HOST_NETWORK'
  | 1

export type NetworkMode__Output = typeof NetworkMode[keyof typeof NetworkMode]
