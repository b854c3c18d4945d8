// SPDX-License-Identifier: Apache-2.0
// Pods as workloads: the table that has fifty thousand rows. Reads what it shares with its like from profiles.ts and decides only what is its own.

import { parseIp } from '../base/ip.js'
import type { Collection, Graph, Read } from '../collection/types.js'
import type { Inputs } from '../kube/inputs.js'
import { clusterKey, type PodRecord } from '../kube/records.js'
import { NetworkMode, WorkloadStatus, WorkloadType, type Port } from '../wire/messages.js'
import type { Resource } from '../xds/source.js'
import type { AddressOwners } from './address-owners.js'
import type { Hostnames, MemberService } from './hostnames.js'
import type { ImplicitPolicies } from './implicit-policies.js'
import { labelKeys, labelOf } from './labels.js'
import { formatPodUid } from './names.js'
import { resolvePodPorts, resolveSlicePorts } from './ports.js'
import type { LabelSet, Profile, Profiles } from './profiles.js'
import { isSameResource, toWorkloadResource } from './resource.js'
import type { SliceTarget, SliceTargets } from './slice-targets.js'
import { toCanonical, toLocality, toTunnel } from './workload-fields.js'

interface Reads {
  readonly profiles: Profiles
  readonly hostnames: Hostnames
  readonly owners: AddressOwners
  readonly sliceTargets: SliceTargets
  readonly implicit: ImplicitPolicies
}

/** Rows are filed under the key of the pod's own row, see toPodRowKey: so the engine keeps no second name for each. */
export function createPodResources(graph: Graph, inputs: Inputs, reads: Reads): Collection<Resource> {
  return graph.derive('pod workloads', inputs.Pod, (pod, read) => toPodResource(pod, read, inputs, reads), {
    key: (resource) => toPodRowKey(resource.name) ?? resource.name,
    equal: isSameResource,
  })
}

const podKind = '//Pod/'

/** Key of the row of the pod with this uid; undefined when it is no pod's. */
export function toPodRowKey(uid: string): string | undefined {
  const at = uid.indexOf(podKind)
  return at < 0 ? undefined : `${uid.slice(0, at)}/${uid.slice(at + podKind.length)}`
}

/** Of which profile a pod is. */
export function toPodLabelSet(pod: PodRecord): LabelSet {
  return { kind: 'Pod', cluster: pod.cluster, namespace: pod.namespace, labels: pod.labels }
}

/** Undefined: the pod has ended, or has no address, or one that is none. */
export function parsePodAddresses(pod: PodRecord): readonly Uint8Array[] | undefined {
  if (pod.phase === 'Failed' || pod.phase === 'Succeeded' || pod.ips.length === 0) return undefined
  const out: Uint8Array[] = []
  for (const text of pod.ips) {
    const ip = parseIp(text)
    if (ip === undefined) return undefined
    out.push(ip)
  }
  return out
}

function toPodResource(pod: PodRecord, read: Read, inputs: Inputs, reads: Reads): Resource | undefined {
  const parsed = parsePodAddresses(pod)
  if (parsed === undefined) return undefined
  const addresses = reads.owners.withoutGivenAway(read, pod, parsed)
  if (addresses.length === 0) return undefined
  const profile = reads.profiles.find(read, toPodLabelSet(pod))
  if (profile === undefined) return undefined
  const targets = reads.sliceTargets.targetsOf(read, pod)
  const services = selectPodServices(pod, read, profile, { targets, hostnames: reads.hostnames })
  const ports = new Map<string, readonly Port[]>()
  for (const service of services) ports.set(service.name, toPorts(service, pod, profile, targets))
  const implicit = reads.implicit.namesFor(read, pod.cluster, services, profile.waypointReference)
  const workloadName = toWorkloadName(pod)
  const isShared = services === profile.services
  return toWorkloadResource(
    {
      uid: formatPodUid(pod),
      name: pod.name,
      namespace: pod.namespace,
      addresses,
      hostname: '',
      network: profile.network,
      ...toTunnel(pod.labels, pod.annotations),
      trustDomain: profile.trustDomain,
      serviceAccount: pod.serviceAccount,
      waypoint: profile.waypoint,
      networkGateway: profile.networkGateway,
      node: pod.node,
      ...toCanonical(pod.labels, workloadName),
      workloadType: WorkloadType.POD,
      workloadName,
      applicationTunnel: profile.applicationTunnel,
      services: ports,
      authorizationPolicies: implicit.length === 0 ? profile.policies : [...profile.policies, ...implicit],
      status: pod.ready && !pod.deleting ? WorkloadStatus.HEALTHY : WorkloadStatus.UNHEALTHY,
      clusterId: pod.cluster,
      locality: pod.node === '' ? undefined : toLocality(read.one(inputs.Node, clusterKey(pod.cluster, pod.node))),
      networkMode: pod.hostNetwork ? NetworkMode.HOST_NETWORK : NetworkMode.STANDARD,
      capacity: undefined,
    },
    isShared ? profile.parents : services.map((service) => service.name),
  )
}

/** Those whose selector holds, and Kubernetes Services whose slices mean the pod. The profile's own list when there are none of these. */
function selectPodServices(
  pod: PodRecord,
  read: Read,
  profile: Profile,
  { targets, hostnames }: { readonly targets: readonly SliceTarget[]; readonly hostnames: Hostnames },
): readonly MemberService[] {
  const attached = targets.flatMap((target) => {
    if (profile.parents.includes(target.service)) return []
    const service = hostnames.find(read, pod.cluster, target.service)
    return service?.source === 'Service' ? [service] : []
  })
  return attached.length === 0 ? profile.services : [...profile.services, ...attached]
}

/** Where only the pod's address is in a slice, the slice says which ports it serves. */
function toPorts(
  service: MemberService,
  pod: PodRecord,
  profile: Profile,
  targets: readonly SliceTarget[],
): readonly Port[] {
  const slicePorts = profile.parents.includes(service.name)
    ? undefined
    : targets.find((target) => target.service === service.name)?.ports
  return slicePorts === undefined
    ? resolvePodPorts(service.source, service.ports, pod.ports)
    : resolveSlicePorts(service.ports, slicePorts)
}

const jobRun = /^(.*)-[0-9]{8,10}$/

/** The name of what made the pod, as far as it can be told; the pod's own otherwise. */
export function toWorkloadName(pod: PodRecord): string {
  const said = labelOf(pod.labels, labelKeys.workloadName)
  if (said !== undefined) return said
  if (!pod.generated || pod.owner === undefined) return pod.name
  const name = toOwnerName(pod.owner, pod)
  return name === '' ? pod.name : name
}

function toOwnerName({ kind, name }: { readonly kind: string; readonly name: string }, pod: PodRecord): string {
  switch (kind) {
    case 'ReplicaSet':
      for (const key of ['pod-template-hash', 'rollouts-pod-template-hash']) {
        const hash = labelOf(pod.labels, key) ?? ''
        if (hash !== '' && name.endsWith(hash)) return removeSuffix(name, `-${hash}`)
      }
      return name
    case 'ReplicationController': {
      const config = labelOf(pod.labels, 'deploymentconfig') ?? ''
      return config === '' ? name : config
    }
    case 'Job':
      return jobRun.exec(name)?.[1] ?? name
    default:
      return name
  }
}

function removeSuffix(text: string, suffix: string): string {
  return text.endsWith(suffix) ? text.slice(0, -suffix.length) : text
}
