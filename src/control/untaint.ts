// SPDX-License-Identifier: Apache-2.0
// Takes the taint from a node once its agent is ready, so that pods come only to nodes that can take their traffic. For the leader alone, and only
// where it is asked for. Never puts a taint on a node.

import type { Collection, Graph } from '../collection/types.js'
import { isSameRecord, type Inputs } from '../kube/inputs.js'
import { clusterKey, type NodeRecord, type PodRecord } from '../kube/records.js'
import { toList, toObject, type ObjectApi } from './object-api.js'
import type { WorkOutcome } from './work-queue.js'

export interface UntaintOptions {
  /** Key of the taint, whatever its effect. */
  readonly taint: string
  /** Where the pods of the agent are. */
  readonly namespace: string
}

export interface TaintedNode {
  readonly cluster: string
  readonly name: string
}

const agentLabel = { key: 'k8s-app', value: 'istio-cni-node' } as const

/** The nodes that have the taint and a ready agent. */
export function createReadyTaintedNodes(
  graph: Graph,
  inputs: Inputs,
  options: UntaintOptions,
): Collection<TaintedNode> {
  const agents = inputs.Pod.index('agent of node', (pod) =>
    isAgent(pod, options.namespace) ? [clusterKey(pod.cluster, pod.node)] : [],
  )
  return graph.derive<NodeRecord, TaintedNode>(
    'nodes to untaint',
    inputs.Node,
    ({ cluster, name, taints }, read): TaintedNode | undefined => {
      if (!taints.includes(options.taint)) return undefined
      const isReady = read.many(agents, clusterKey(cluster, name)).some((pod) => pod.ready && pod.phase !== 'Failed')
      return isReady ? { cluster, name } : undefined
    },
    { key: ({ cluster, name }) => clusterKey(cluster, name), equal: isSameRecord },
  )
}

function isAgent(pod: PodRecord, namespace: string): boolean {
  return pod.namespace === namespace && pod.labels?.[agentLabel.key] === agentLabel.value
}

/** Takes the taint from the node under a key of `nodes`, unless its taints change at the same time. */
export function createUntainter(
  objects: ObjectApi,
  nodes: Collection<TaintedNode>,
  { taint }: UntaintOptions,
): (key: string, signal: AbortSignal) => Promise<WorkOutcome> {
  return async (key, signal) => {
    const node = nodes.get(key)
    if (node === undefined) return 'done'
    const { path } = await objects.locate({ kind: 'Node', namespace: '', name: node.name }, signal)
    const found = await objects.get(path, signal)
    if (found.kind !== 'ok') return 'done'
    const taints = toList(toObject(found.object['spec'])['taints'])
    const left = taints.filter((item) => toObject(item)['key'] !== taint)
    if (left.length === taints.length) return 'done'
    const steps = [
      { op: 'test', path: '/spec/taints', value: taints },
      { op: 'replace', path: '/spec/taints', value: left },
    ] as const
    const reply = await objects.patch(path, steps, signal)
    if (reply.kind === 'missing') return 'done'
    return reply.kind === 'conflict' ? 'again' : 'written'
  }
}
