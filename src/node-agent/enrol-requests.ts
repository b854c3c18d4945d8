// SPDX-License-Identifier: Apache-2.0
// What the enrolment is asked to do for a pod, and how a pod is named in messages. For whoever asks it: CNI server, pod watcher, sweep and start.

import type { Labels } from '../kube/records.js'
import type { PodIdentity, Redirection } from './contracts.js'
import type { Netns } from './netns/netns.js'

export interface EnrollRequest {
  readonly pod: PodIdentity
  /** Empty: those that are known already stay. */
  readonly ips: readonly string[]
  readonly annotations: Labels | undefined
  /** The uid that the node's processes carry, where it is another one (static pods). */
  readonly processUid?: string
  /** Of the runtime: this namespace and no other, opened anew. */
  readonly netnsPath?: string
  readonly containerId?: string
  /** Of the runtime's request: what the pod's object says of its addresses, which is older. */
  readonly outdatedIps?: readonly string[]
  /** Found by somebody else; a handle of the caller's that is closed here in any case. */
  readonly netns?: Netns
  /** Gives up waiting for ztunnel. */
  readonly signal?: AbortSignal
}

/**
 * `left`: the pod lives on, outside the mesh. `ended`: it has ended or will; its namespace is not entered. `gone`: the same, and its object too,
 * so nothing is written back.
 */
export type Farewell = 'left' | 'ended' | 'gone'

export interface ReleaseRequest {
  readonly pod: PodIdentity
  readonly how: Farewell
  readonly ips?: readonly string[]
  readonly processUid?: string
  /** It never had a namespace of its own. */
  readonly onHostNetwork?: boolean
}

/** A pod whose annotation says that it is enrolled. */
export interface RestoredPod {
  readonly request: EnrollRequest
  readonly redirection: Redirection
}

export function formatPod(pod: PodIdentity): string {
  return `${pod.namespace}/${pod.name}`
}
