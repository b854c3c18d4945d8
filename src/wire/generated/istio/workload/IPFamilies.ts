// Original file: proto/istio/workload/workload.proto

export const IPFamilies = {
  AUTOMATIC: 'AUTOMATIC',
  IPV4_ONLY: 'IPV4_ONLY',
  IPV6_ONLY: 'IPV6_ONLY',
  DUAL: 'DUAL',
} as const;

export type IPFamilies =
  | 'AUTOMATIC'
  | 0
  | 'IPV4_ONLY'
  | 1
  | 'IPV6_ONLY'
  | 2
  | 'DUAL'
  | 3

export type IPFamilies__Output = typeof IPFamilies[keyof typeof IPFamilies]
