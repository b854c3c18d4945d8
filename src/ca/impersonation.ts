// SPDX-License-Identifier: Apache-2.0
// May a node's proxy have a certificate for a workload? Only for one that runs on its own node. Pure checks over what the cluster looks like now.

import type { Caller } from '../base/caller.js'
import { parseSpiffeId } from '../base/spiffe.js'

/** A pod that may ask for others. */
export interface NodePod {
  readonly uid: string
  readonly serviceAccount: string
  /** Empty while it is not scheduled. */
  readonly node: string
}

/** Pods of the cluster, those that failed left out. */
export interface NodeIdentities {
  byPod(namespace: string, name: string): NodePod | undefined
  /** Whether a pod of this service account is on the node. */
  hasIdentityOnNode(node: string, namespace: string, serviceAccount: string): boolean
}

export interface ImpersonationRules {
  /** `namespace/account` of node proxies. Empty: nobody may impersonate. */
  readonly trustedAccounts: ReadonlySet<string>
  /** Ours and its aliases. Read at each call. */
  readonly trustDomains: () => readonly string[]
  /** Undefined: no cluster is known. */
  readonly nodes: NodeIdentities | undefined
}

export interface Refusal {
  readonly reason: string
  /** What we know of pods may be behind; a moment later the answer may differ. */
  readonly mayPass: boolean
}

/** Undefined: granted. The reason is for the log alone. */
export function checkImpersonation(caller: Caller, identity: string, rules: ImpersonationRules): Refusal | undefined {
  const refuse = (reason: string): Refusal => ({ reason, mayPass: false })
  const notYet = (reason: string): Refusal => ({ reason, mayPass: true })
  const { trustedAccounts, nodes } = rules
  if (trustedAccounts.size === 0 || nodes === undefined) {
    return refuse('nobody may impersonate: CA_TRUSTED_NODE_ACCOUNTS is empty, or there is no cluster')
  }
  const { kubernetes } = caller
  if (kubernetes === undefined) return refuse('the caller has no Kubernetes token')
  const { namespace, serviceAccount, podName = '', podUid = '' } = kubernetes
  if (!trustedAccounts.has(`${namespace}/${serviceAccount}`)) {
    return refuse(`service account ${namespace}/${serviceAccount} is not among CA_TRUSTED_NODE_ACCOUNTS`)
  }
  const wanted = parseSpiffeId(identity)
  if (wanted === undefined) return refuse('the identity is no SPIFFE id of a service account')
  if (!rules.trustDomains().some((domain) => domain.replaceAll('@', '.') === wanted.trustDomain)) {
    return refuse(`trust domain ${wanted.trustDomain} is neither ours nor an alias of it`)
  }
  if (podName === '' || podUid === '') return refuse('the token of the caller is not bound to a pod')
  const pod = nodes.byPod(namespace, podName)
  if (pod === undefined) return notYet(`pod ${namespace}/${podName} is not known`)
  if (pod.uid !== podUid) return notYet(`pod ${namespace}/${podName} has another UID than the token`)
  if (pod.serviceAccount !== serviceAccount) return refuse(`pod ${namespace}/${podName} has another service account`)
  if (pod.node === '') return notYet(`pod ${namespace}/${podName} is on no node`)
  if (nodes.hasIdentityOnNode(pod.node, wanted.namespace, wanted.serviceAccount)) return undefined
  return notYet(`no pod of ${wanted.namespace}/${wanted.serviceAccount} is on node ${pod.node}`)
}
