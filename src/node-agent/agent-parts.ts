// SPDX-License-Identifier: Apache-2.0
// What the enrolment of a node is made from and what it gives to the rest of the program. node-agent.ts makes it; main and tests compose it.

import type { Registry } from 'prom-client'
import type { Clock } from '../base/clock.js'
import type { Logger } from '../base/log.js'
import type { Graph } from '../collection/types.js'
import type { Inputs } from '../kube/inputs.js'
import type { CniDecisions } from './cni-decisions.js'
import type {
  NetnsFinder,
  PodAnnotator,
  PodIdentity,
  PodRules,
  ProbeSet,
  SelectZdsPods,
  Ztunnels,
} from './contracts.js'
import type { EnablementSelector } from './eligibility.js'

export interface NodeAgentSettings {
  /** The first part of every key in the inputs. */
  readonly cluster: string
  /** Pods of other nodes are passed over. */
  readonly node: string
  /** Where the mesh ConfigMap and ztunnel live. */
  readonly systemNamespace: string
  /** Picks the mesh ConfigMap, as for the feed. */
  readonly revision: string
  /** Of parseEnablementSelectors. */
  readonly selectors: readonly EnablementSelector[]
  readonly excludedNamespaces: ReadonlySet<string>
  readonly ipv6: boolean
  readonly dnsCapture: boolean
  readonly probeAddress4: string
  readonly probeAddress6: string
}

/** Told of what is in the mesh; neither may throw. */
export interface EnrolmentListener {
  /** All steps are done, for the first time or once more. */
  onEnrolled(pod: PodIdentity): void
  /** It leaves or is gone; maybe it never was in. */
  onReleased(uid: string): void
}

export interface NodeAgentParts {
  /** Whoever owns it commits it, once more after createNodeAgent has made its tables in it. */
  readonly graph: Graph
  readonly inputs: Pick<Inputs, 'Namespace' | 'Pod' | 'ConfigMap'>
  readonly rules: PodRules
  readonly probeSet: ProbeSet
  /** May be made later than the agent is: nothing is called before start(). */
  readonly ztunnels: Ztunnels
  readonly finder: NetnsFinder
  readonly annotator: PodAnnotator
  readonly settings: NodeAgentSettings
  readonly clock: Clock
  readonly log: Logger
  readonly registry: Registry
  /** 0 up to 1, for jitter; Math.random when left out. */
  readonly random?: () => number
  readonly listener?: EnrolmentListener | undefined
}

export interface NodeAgent {
  /**
   * To be called once, when the feed has synced and its rows are committed. Finds the pods that are enrolled by what the API says, and resolves when
   * the snapshot can be offered to ztunnels, whatever fails on the way: open the ZDS door then. All else goes on until the signal aborts.
   */
  start(signal: AbortSignal): Promise<void>
  /** Resolves after the signal has aborted, the work in hand is over and every handle is closed. Pods stay enrolled. */
  readonly ended: Promise<void>
  /** For ztunnels: what a new connection is told. */
  readonly selectZdsPods: SelectZdsPods
  /** For the CNI server. Before start() every pod is unknown. */
  readonly decisions: CniDecisions
  /** What is missing until this node can enrol pods; empty when it is ready. Short phrases for the ready page. */
  pending(): readonly string[]
  /** Resolves when the start is over and no pod is being worked on; those that wait for their next try do not count. */
  idle(): Promise<void>
  /** Enrolled pods and how far each is, for debug pages. Plain JSON. */
  describe(): readonly EnrolledPodDescription[]
}

export interface EnrolledPodDescription {
  readonly uid: string
  readonly namespace: string
  readonly name: string
  readonly ips: readonly string[]
  /** Text of the namespace's identity; undefined while it is not found. */
  readonly netns: string | undefined
  /** All steps are done. */
  readonly enrolled: boolean
  /** What the annotation says as far as we know. */
  readonly annotation: string | undefined
}
