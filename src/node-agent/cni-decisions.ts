// SPDX-License-Identifier: Apache-2.0
// What the CNI server needs of the rest of the agent, and what it is made from. The server reads requests and writes answers; whether a pod belongs to
// the mesh and how it gets there is decided behind this interface.

import type { Registry } from 'prom-client'
import type { Clock } from '../base/clock.js'
import type { Logger } from '../base/log.js'
import type { PodIdentity } from './contracts.js'

/** A pod as the runtime names it. */
export interface RuntimePod {
  readonly namespace: string
  readonly name: string
  /** Undefined when the runtime, or a plugin of istio-cni, did not say it. */
  readonly uid: string | undefined
}

/**
 * What the agent's tables say of a pod at this moment. `reason` is for people: why it stays outside, which label or setting says so.
 * `unknown`: not (yet) there; `reason` says what is missing (the namespace, the pod, or that the name belongs to another uid).
 */
export type PodVerdict =
  | { readonly kind: 'eligible'; readonly pod: PodIdentity }
  | { readonly kind: 'ineligible'; readonly reason: string }
  | { readonly kind: 'unknown'; readonly reason: string }

/** One sandbox to be enrolled. */
export interface EnrolRequest {
  /** Canonical text, IPv4-mapped ones unmapped; empty when the runtime said none. These are the truth: the API has none yet. */
  readonly ips: readonly string[]
  /** The runtime's own path (of the host); undefined when an event named none, then the namespace is to be found. */
  readonly netnsPath: string | undefined
  /** Undefined for events of istio-cni's plugin. */
  readonly containerId: string | undefined
  /** Aborts when the plugin has gone away (its 5 s are over, the runtime gave up) or the server closes. */
  readonly signal: AbortSignal
}

/** Implemented by the composition root on top of the enrolment. */
export interface CniDecisions {
  /**
   * Looks, without waiting. With a uid the pod must be that very one; the mirror of a static pod has another uid of its own and carries the
   * runtime's in its annotation `kubernetes.io/config.hash`, and is that pod too. Phase and the redirection annotation do not matter.
   * Throws InvalidInput when it cannot be decided at all; that fails the request.
   */
  lookUp(pod: RuntimePod): PodVerdict
  /** Resolves when the pod is in the mesh. Rejects with the error that people shall read; whatever class, the sandbox does not start. */
  enroll(pod: PodIdentity, request: EnrolRequest): Promise<void>
  /** The runtime takes this sandbox down: lets go of the handle if it is held for that very namespace, else does nothing. */
  releaseNetns(netnsPath: string, containerId: string): Promise<void>
}

export interface CniServerOptions {
  /** Where plugins ask: `<run folder>/pluginevent.sock`. */
  readonly socketPath: string
  /** Where istio-cni's plugin sends its log: `<run folder>/log.sock`; undefined: not served. */
  readonly logSocketPath: string | undefined
  readonly decisions: CniDecisions
  /** Namespaces that are left alone, besides those named in the plugin's own configuration. */
  readonly excludeNamespaces: ReadonlySet<string>
  /** Namespace of the agent's own pods. */
  readonly podNamespace: string
  /** What names of the agent's own pods begin with, besides `istio-cni-node-`: the DaemonSet's name and a dash. */
  readonly agentPodPrefixes: readonly string[]
  readonly clock: Clock
  readonly log: Logger
  readonly registry: Registry
}

export interface CniServer {
  /** Makes the folder (0750) where it is missing, takes the place of a leftover socket, and answers. Rejects with Fatal. */
  listen(): Promise<void>
  /** Stops listening, gives requests in hand `graceMs`, then aborts them. Takes its sockets away. Idempotent. */
  close(graceMs?: number): Promise<void>
}
