// SPDX-License-Identifier: Apache-2.0
// What the CNI server asks, answered from the tables and the enrolment.

import type { Inputs } from '../kube/inputs.js'
import { clusterKey, labelOf, objectKey } from '../kube/records.js'
import { InvalidInput } from '../base/errors.js'
import type { NodeAgentSettings } from './agent-parts.js'
import type { CniDecisions, PodVerdict, RuntimePod } from './cni-decisions.js'
import { annotationKeys, formatOutside, toVerdict, type NamespaceView } from './eligibility.js'
import type { EnrollRequest } from './enrol-requests.js'
import type { Enroller } from './enroll.js'
import { isZtunnel, type PodWishes } from './pod-wishes.js'

export interface EnrolDecisionsParts {
  readonly inputs: Pick<Inputs, 'Pod'>
  readonly wishes: PodWishes
  readonly settings: NodeAgentSettings
  readonly enroller: Enroller
  readonly isStarted: () => boolean
}

export function createEnrolDecisions({
  inputs,
  wishes,
  settings,
  enroller,
  isStarted,
}: EnrolDecisionsParts): CniDecisions {
  const { cluster, selectors } = settings
  const podAt = (namespace: string, name: string) => inputs.Pod.get(objectKey(cluster, namespace, name))
  return {
    lookUp({ namespace, name, uid }: RuntimePod): PodVerdict {
      if (!isStarted()) return { kind: 'unknown', reason: 'the agent does not know the pods of this node yet' }
      const pod = podAt(namespace, name)
      if (pod === undefined) return { kind: 'unknown', reason: `pod ${namespace}/${name} is not known (yet)` }
      const processUid = labelOf(pod.annotations, annotationKeys.configHash)
      if (uid !== undefined && uid !== pod.uid && uid !== processUid) {
        return { kind: 'unknown', reason: `pod ${namespace}/${name} is known with another uid, ${pod.uid}` }
      }
      if (isZtunnel(pod, settings))
        return { kind: 'ineligible', reason: `pod ${namespace}/${name}: it is ztunnel itself` }
      // The pod's own row may be newer than the last commit: it is judged as it is now.
      const view: NamespaceView | undefined = wishes.namespaces.get(clusterKey(cluster, namespace))
      const verdict = toVerdict(pod, view, selectors)
      if (verdict.eligible) {
        return { kind: 'eligible', pod: { uid: pod.uid, namespace, name, serviceAccount: pod.serviceAccount } }
      }
      const { why } = verdict
      return {
        kind: why === 'unknown-namespace' ? 'unknown' : 'ineligible',
        reason: `pod ${namespace}/${name}: ${formatOutside(why)}`,
      }
    },
    async enroll(pod, { ips, netnsPath, containerId, signal }) {
      const record = podAt(pod.namespace, pod.name)
      if (record?.uid !== pod.uid) throw new InvalidInput(`pod ${pod.namespace}/${pod.name}: it is gone`)
      const request: EnrollRequest = {
        pod,
        ips,
        annotations: record.annotations,
        processUid: labelOf(record.annotations, annotationKeys.configHash) ?? pod.uid,
        signal,
        outdatedIps: record.ips,
      }
      await enroller.enroll({
        ...request,
        ...(netnsPath === undefined ? {} : { netnsPath }),
        ...(containerId === undefined ? {} : { containerId }),
      })
    },
    releaseNetns: (netnsPath, containerId) => enroller.releaseNetns(netnsPath, containerId),
  }
}
