// Original file: proto/istio/workload/workload.proto

export const WorkloadType = {
  DEPLOYMENT: 'DEPLOYMENT',
  CRONJOB: 'CRONJOB',
  POD: 'POD',
  JOB: 'JOB',
} as const;

export type WorkloadType =
  | 'DEPLOYMENT'
  | 0
  | 'CRONJOB'
  | 1
  | 'POD'
  | 2
  | 'JOB'
  | 3

export type WorkloadType__Output = typeof WorkloadType[keyof typeof WorkloadType]
