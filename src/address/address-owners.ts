// SPDX-License-Identifier: Apache-2.0
// Which pod an address belongs to when several objects claim it. A pod that is going away yields to one that is not, and a bare endpoint of a
// slice yields to a pod of the mesh: nobody is served a stale owner, or one without identity. Pods on the host network own no address.

import { formatIp, toCanonicalIp } from '../base/ip.js'
import type { Read } from '../collection/types.js'
import type { Inputs } from '../kube/inputs.js'
import type { PodRecord } from '../kube/records.js'
import { TunnelProtocol } from '../wire/messages.js'
import type { Discovery } from './discovery.js'
import { toTunnel } from './workload-fields.js'

export interface AddressOwners {
  /** The pod's addresses without those that another pod has taken over while this one is being deleted. */
  withoutGivenAway(read: Read, pod: PodRecord, addresses: readonly Uint8Array[]): readonly Uint8Array[]
  /** The pod of the mesh that has every one of these addresses; undefined when there is none. */
  adopterOf(read: Read, cluster: string, addresses: readonly string[]): PodRecord | undefined
}

export function createAddressOwners(inputs: Inputs, discovery: Discovery): AddressOwners {
  const byAddress = inputs.Pod.index('address', toOwnedTexts)
  const ownersOf = (read: Read, cluster: string, ip: string): readonly PodRecord[] =>
    read.many(byAddress, ip).filter((pod) => pod.cluster === cluster)
  return {
    withoutGivenAway(read, pod, addresses) {
      if (!pod.deleting || pod.hostNetwork) return addresses
      return addresses.filter(
        (address) => !ownersOf(read, pod.cluster, formatIp(address)).some((other) => !other.deleting),
      )
    },
    adopterOf(read, cluster, addresses) {
      const [first, ...others] = addresses.map(toCanonicalIp)
      if (first === undefined) return undefined
      const able = ownersOf(read, cluster, first).filter(
        (pod) =>
          toTunnel(pod.labels, pod.annotations).tunnelProtocol === TunnelProtocol.HBONE &&
          discovery.isSeen(read, pod) &&
          others.every((text) => text !== undefined && toOwnedTexts(pod).includes(text)),
      )
      return able.reduce<PodRecord | undefined>(
        (best, pod) => (best === undefined || isBetter(pod, best) ? pod : best),
        undefined,
      )
    },
  }
}

function isBetter(a: PodRecord, b: PodRecord): boolean {
  if (a.deleting !== b.deleting) return b.deleting
  return `${a.namespace}/${a.name}` < `${b.namespace}/${b.name}`
}

const none: readonly string[] = Object.freeze([])

/** Canonical texts of the addresses that a pod would be published with. The texts of the record where they are canonical: nothing is held twice. */
function toOwnedTexts(pod: PodRecord): readonly string[] {
  if (pod.hostNetwork || pod.phase === 'Failed' || pod.phase === 'Succeeded') return none
  const texts = pod.ips.map(toCanonicalIp)
  return texts.includes(undefined) ? none : (texts as string[])
}
