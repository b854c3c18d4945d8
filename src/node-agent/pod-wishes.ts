// SPDX-License-Identifier: Apache-2.0
// What should be of each pod of this node, as a table that follows pods, namespaces and the mesh's discovery selectors. For the watcher. Knows nothing of
// what is.

import type { Collection, Graph } from '../collection/types.js'
import { isSameRecord, type Inputs } from '../kube/inputs.js'
import { formatMeshConfigName, parseMeshConfig } from '../kube/mesh-config.js'
import {
  clusterKey,
  labelOf,
  objectKey,
  type Labels,
  type LabelSelectorRecord,
  type PodRecord,
} from '../kube/records.js'
import { checkSelector } from '../kube/selectors.js'
import type { NodeAgentSettings } from './agent-parts.js'
import { redirectionAnnotation, type PodIdentity, type Redirection } from './contracts.js'
import { annotationKeys, isDiscovered, toVerdict, type NamespaceView, type Verdict } from './eligibility.js'
import { toCanonicalIps } from './pod-ips.js'

/** One pod of this node. */
export interface PodWish {
  readonly pod: PodIdentity
  /** The uid that the node's processes carry. */
  readonly processUid: string
  readonly verdict: Verdict
  /** Succeeded or failed: its processes are gone for good. */
  readonly ended: boolean
  /** Told to terminate. */
  readonly deleting: boolean
  readonly onHostNetwork: boolean
  readonly ips: readonly string[]
  readonly redirection: Redirection | undefined
  readonly annotations: Labels | undefined
  /** ztunnel's own. */
  readonly isZtunnel: boolean
}

export interface PodWishes {
  /** By uid. */
  readonly pods: Collection<PodWish>
  /** By clusterKey. */
  readonly namespaces: Collection<NamespaceView>
}

const meshKey = 'mesh'
const isSame = <T>(a: T, b: T): boolean => isSameRecord(a, b)

export function createPodWishes(
  graph: Graph,
  inputs: Pick<Inputs, 'Namespace' | 'Pod' | 'ConfigMap'>,
  settings: NodeAgentSettings,
): PodWishes {
  const { cluster, node, selectors, excludedNamespaces } = settings
  const discovery = createDiscoverySelectors(graph, inputs, settings)
  const namespaces = graph.derive(
    'namespaces of the node agent',
    inputs.Namespace,
    ({ name, labels }, read): NamespaceView => ({
      name,
      labels,
      excluded: excludedNamespaces.has(name),
      discovered: isDiscovered(labels, read.one(discovery, meshKey)?.anyOf ?? []),
    }),
    { key: ({ name }) => clusterKey(cluster, name), equal: isSame },
  )
  const pods = graph.derive(
    'pods of this node',
    inputs.Pod,
    (pod, read): PodWish | undefined => {
      if (pod.node !== node || pod.uid === '') return undefined
      const namespace = read.one(namespaces, clusterKey(pod.cluster, pod.namespace))
      return toPodWish(pod, toVerdict(pod, namespace, selectors), settings)
    },
    { key: ({ pod }) => pod.uid, equal: isSame },
  )
  return { pods, namespaces }
}

function createDiscoverySelectors(
  graph: Graph,
  inputs: Pick<Inputs, 'ConfigMap'>,
  { cluster, systemNamespace, revision }: NodeAgentSettings,
): Collection<{ readonly anyOf: readonly LabelSelectorRecord[] }> {
  const mapKey = objectKey(cluster, systemNamespace, formatMeshConfigName(revision))
  // Always there: without a ConfigMap "no selectors" is a reading like any other, and can be the last good one.
  const anchor = graph.source<string>('mesh of the node agent', Object.is)
  anchor.set(meshKey, meshKey)
  // Throwing keeps the selectors that were in force.
  return graph.derive(
    'discovery selectors of the node agent',
    anchor,
    (_, read) => {
      const text = read.one(inputs.ConfigMap, mapKey)?.mesh
      const anyOf = text === undefined ? [] : parseMeshConfig(text).discoverySelectors
      for (const selector of anyOf) checkSelector(selector)
      return { anyOf }
    },
    { key: () => meshKey, equal: isSame },
  )
}

function toPodWish(pod: PodRecord, verdict: Verdict, settings: NodeAgentSettings): PodWish {
  const { namespace, name, uid, serviceAccount, annotations, phase } = pod
  return {
    pod: { uid, namespace, name, serviceAccount },
    processUid: labelOf(annotations, annotationKeys.configHash) ?? uid,
    verdict,
    ended: phase === 'Succeeded' || phase === 'Failed',
    deleting: pod.deleting,
    onHostNetwork: pod.hostNetwork,
    ips: toCanonicalIps(pod.ips),
    redirection: toRedirection(labelOf(annotations, redirectionAnnotation)),
    annotations,
    isZtunnel: isZtunnel(pod, settings),
  }
}

/** A pod of ztunnel itself. */
export function isZtunnel(pod: PodRecord, { systemNamespace }: Pick<NodeAgentSettings, 'systemNamespace'>): boolean {
  return pod.namespace === systemNamespace && labelOf(pod.labels, 'app') === 'ztunnel'
}

/** Any other value says nothing. */
function toRedirection(text: string | undefined): Redirection | undefined {
  return text === 'enabled' || text === 'pending' ? text : undefined
}
