// Original file: proto/istio/workload/workload.proto

export const WorkloadStatus = {
  HEALTHY: 'HEALTHY',
  UNHEALTHY: 'UNHEALTHY',
} as const;

export type WorkloadStatus =
  | 'HEALTHY'
  | 0
  | 'UNHEALTHY'
  | 1

export type WorkloadStatus__Output = typeof WorkloadStatus[keyof typeof WorkloadStatus]
