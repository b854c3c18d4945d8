// Original file: proto/istio/security/authorization.proto

export const Scope = {
  GLOBAL: 'GLOBAL',
  NAMESPACE: 'NAMESPACE',
  WORKLOAD_SELECTOR: 'WORKLOAD_SELECTOR',
} as const;

export type Scope =
  | 'GLOBAL'
  | 0
  | 'NAMESPACE'
  | 1
  | 'WORKLOAD_SELECTOR'
  | 2

export type Scope__Output = typeof Scope[keyof typeof Scope]
