// SPDX-License-Identifier: Apache-2.0
// Who is calling, once proven: what authentication finds out and what those who serve calls judge by. Holds no secret.

/** The pod-bound service account behind a Kubernetes token. */
export interface KubernetesCaller {
  readonly namespace: string
  readonly serviceAccount: string
  /** Absent when the token is not bound to a pod. */
  readonly podName?: string | undefined
  /** Absent when the token is not bound to a pod. */
  readonly podUid?: string | undefined
}

/** How a caller proved who it is. */
export type CallerSource = 'certificate' | 'kubernetes' | 'oidc' | 'local'

/** A caller that proved who it is. */
export interface Caller {
  /** What it may call itself, as in certificates: SPIFFE ids, or other names of a client certificate, verbatim. At least one. */
  readonly identities: readonly string[]
  /** Only with a Kubernetes token: certificates carry no pod. */
  readonly kubernetes?: KubernetesCaller | undefined
  readonly source: CallerSource
}

/** What a call brings along to prove who makes it; nobody has looked at it yet. */
export interface Credentials {
  /** `ip:port` of the caller, for logs. */
  readonly peer: string
  /** The connection is encrypted. */
  readonly secure: boolean
  /** URI names of the client's certificate, whose chain the connection has verified; empty without one. */
  readonly certificateUris: readonly string[]
  /** Header `authorization`. */
  readonly authorization: string | undefined
  /** Header `clusterid`. */
  readonly clusterId: string | undefined
}
