// Original file: proto/istio/security/authorization.proto

export const Action = {
  ALLOW: 'ALLOW',
  DENY: 'DENY',
} as const;

export type Action =
  | 'ALLOW'
  | 0
  | 'DENY'
  | 1

export type Action__Output = typeof Action[keyof typeof Action]
