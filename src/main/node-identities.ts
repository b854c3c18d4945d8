// SPDX-License-Identifier: Apache-2.0
// Which service accounts run on which node, from the pods that are read anyway. For the certificate authority.

import type { NodeIdentities } from '../ca/impersonation.js'
import type { Inputs } from '../kube/inputs.js'
import { objectKey } from '../kube/records.js'

/** Pods as they are now, not as of the last commit: a proxy may ask within milliseconds. Pods that failed are not among the inputs. */
export function createNodeIdentities(inputs: Inputs, cluster: string): NodeIdentities {
  const byIdentity = inputs.Pod.index('node identity', ({ node, namespace, serviceAccount, phase }) =>
    node === '' || serviceAccount === '' || phase === 'Failed' ? none : [toTerm(node, namespace, serviceAccount)],
  )
  return {
    byPod(namespace, name) {
      const pod = inputs.Pod.get(objectKey(cluster, namespace, name))
      return pod === undefined || pod.phase === 'Failed' ? undefined : pod
    },
    hasIdentityOnNode: (node, namespace, serviceAccount) =>
      byIdentity.lookup(toTerm(node, namespace, serviceAccount)).length > 0,
  }
}

const none: readonly string[] = Object.freeze([])

function toTerm(node: string, namespace: string, serviceAccount: string): string {
  return `${node}/${namespace}/${serviceAccount}`
}
