// SPDX-License-Identifier: Apache-2.0
// What enrolment needs of the parts around it: rules, ztunnels, the probe set, /proc, the API server. Each part is made elsewhere and only meets here;
// tests put fakes in their place.

import type { Netns } from './netns/netns.js'

/** A pod as ztunnel is told of it. */
export interface PodIdentity {
  readonly uid: string
  readonly namespace: string
  readonly name: string
  readonly serviceAccount: string
}

/** What the rules of one pod depend on: the agent's settings and the pod's annotations, checked. */
export interface PodRuleOptions {
  readonly ipv6: boolean
  readonly dnsCapture: boolean
  /** Inbound plaintext is not captured (`ambient.istio.io/bypass-inbound-capture`). */
  readonly bypassInbound: boolean
  /** Names of 1-15 letters, digits, `.`, `_`, `-`; in the order of the annotation. */
  readonly virtualInterfaces: readonly string[]
  /** Inbound TCP ports that are not captured. */
  readonly excludedInboundPorts: readonly number[]
  /** Prefixes, as canonical text, that outbound TCP goes to uncaptured. */
  readonly excludedOutboundCidrs: readonly string[]
  /** Source addresses of kubelet's probes, canonical text. */
  readonly probeAddress4: string
  readonly probeAddress6: string
}

/**
 * `absent`: no rule of ours at all. `different`: some, but not exactly these. `unfinished`: what is there is exactly a part of these, as somebody
 * leaves it who is killed while he makes them or takes them out.
 */
export type RuleState = 'complete' | 'different' | 'unfinished' | 'absent'

export type RuleBackendName = 'nftables' | 'iptables-nft' | 'iptables-legacy'

/** The rules inside a pod. All of it idempotent; rules of others are never touched; nothing is ever left half made. */
export interface PodRules {
  readonly backend: RuleBackendName
  /**
   * Makes the rules exactly these, takes out what istio-cni, an earlier release or another backend of ours left, and keeps open connections alive.
   * Rejects with InvalidInput when the kernel or a tool refuses them, with Retryable when trying again may help; then nothing of this call is left.
   */
  apply(netns: Netns, options: PodRuleOptions): Promise<void>
  /** Cheap when nothing changed since this process last applied or looked (by the generation of the namespace). */
  check(netns: Netns, options: PodRuleOptions): Promise<RuleState>
  /** Takes out everything of ours, of istio-cni and of earlier releases, IP rules and routes too. Missing parts are fine. */
  remove(netns: Netns): Promise<void>
}

/** The host's set of pod addresses whose probes are exempt, and the rule that uses it. */
export interface ProbeSet {
  /** Makes set and rule, or mends them; entries that are there stay. */
  ensure(): Promise<void>
  /** This address belongs to this pod now, whoever had it before. */
  put(ip: string, uid: string): Promise<void>
  /** Drops every entry of the pod, and none that has another uid. */
  remove(uid: string): Promise<void>
  /** Canonical address to uid. */
  list(): Promise<ReadonlyMap<string, string>>
  /** Takes out set and rule. For the end of the agent on this node. */
  destroy(): Promise<void>
}

/** What a ztunnel holds or shall hold; without `netns` it is told to keep what it has. */
export interface ZdsPod {
  readonly pod: PodIdentity
  readonly netns: Netns | undefined
}

/** The connected ztunnels. */
export interface Ztunnels {
  /** Connections that said hello. */
  readonly connected: number
  /** Connections whose snapshot was sent to its end. */
  readonly ready: number
  /**
   * Tells the newest one; resolves at its acknowledgement. Rejects with Retryable when none is connected, it says no, does not answer in time or goes
   * away. `netns` is shared by the callee for as long as it needs it. Aborting gives up waiting.
   */
  add(pod: PodIdentity, netns: Netns, signal?: AbortSignal): Promise<void>
  /** Tells all; resolves when all acknowledged (a no counts as one). Without connections it resolves. Rejects with Retryable. */
  remove(uid: string, signal?: AbortSignal): Promise<void>
  /** What the newest one whose snapshot is at its end acknowledged and still holds, as far as we know: uid to namespace. */
  held(): ReadonlyMap<string, Netns | undefined>
}

/** What is wanted at this moment, for the snapshot of a new connection and for one that is promoted. Handles are borrowed: share() to keep them. */
export type SelectZdsPods = () => readonly ZdsPod[]

/** A pod that a scan of /proc shall find. */
export interface WantedPod {
  readonly uid: string
  readonly ips: readonly string[]
}

/** Finds namespaces of running pods through /proc. */
export interface NetnsFinder {
  /** Opens a path as the runtime names it (host path). Rejects with InvalidInput: no namespace, or the host's own; Retryable when it is not there. */
  open(path: string): Promise<Netns>
  /** One scan for all of them: uid to an open handle (the caller closes). Those not found are left out; `seen` takes the uids of pods that have processes. */
  find(pods: readonly WantedPod[], seen?: Set<string>): Promise<ReadonlyMap<string, Netns>>
}

export const redirectionAnnotation = 'ambient.istio.io/redirection'
export type Redirection = 'pending' | 'enabled'

/** Writes the pod's annotation. */
export interface PodAnnotator {
  /** `undefined` takes it away. `gone`: the pod is not there (any more). Rejects with Retryable. */
  annotate(pod: PodIdentity, value: Redirection | undefined, signal?: AbortSignal): Promise<'written' | 'gone'>
}
