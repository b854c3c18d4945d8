// SPDX-License-Identifier: Apache-2.0
// How resources are named and by which other keys they are found. Text only: knows nothing of what exists.

import { formatIp } from '../base/ip.js'
import type { NetworkAddress } from '../wire/messages.js'

/** Where an object is: what the uid of each workload is built from. */
export interface ObjectPlace {
  readonly cluster: string
  readonly namespace: string
  readonly name: string
}

/** The group of a Pod is the empty one, hence two slashes. */
export function formatPodUid(pod: ObjectPlace): string {
  return `${pod.cluster}//Pod/${pod.namespace}/${pod.name}`
}

export function formatWorkloadEntryUid(entry: ObjectPlace): string {
  return `${entry.cluster}/networking.istio.io/WorkloadEntry/${entry.namespace}/${entry.name}`
}

/** `address` is the endpoint's as written, or the host for an endpoint that the host name stands for. */
export function formatServiceEntryUid(entry: ObjectPlace, address: string): string {
  return `${entry.cluster}/networking.istio.io/ServiceEntry/${entry.namespace}/${entry.name}/${address}`
}

/** `address` is the endpoint's first one as written. */
export function formatSliceUid(slice: ObjectPlace, address: string): string {
  return `${slice.cluster}/discovery.k8s.io/EndpointSlice/${slice.namespace}/${slice.name}/${address}`
}

/** Network gateways belong to no cluster. `address` is as written in the Gateway's status. */
export function formatNetworkGatewayUid(network: string, address: string, port: number): string {
  return `NetworkGateway/${network}/${address}/${port}`
}

/** Name of a service resource, and its key in a workload's `services`. */
export function formatServiceName(namespace: string, hostname: string): string {
  return `${namespace}/${hostname}`
}

/** Host name of a Kubernetes Service. */
export function formatServiceHostname(name: string, namespace: string, domain: string): string {
  return `${name}.${namespace}.svc.${domain}`
}

/** `network/ip`, the IP canonical. */
export function formatAlias(network: string, ip: Uint8Array): string {
  return `${network}/${formatIp(ip)}`
}

/** `network/ip`, with `/length` behind it when the address is a range. */
export function formatRangeAlias(address: NetworkAddress): string {
  const host = formatAlias(address.network, address.address)
  return address.length === undefined ? host : `${host}/${address.length}`
}

/** True for the name of a service: a workload's uid has more parts. */
export function isServiceName(name: string): boolean {
  const slash = name.indexOf('/')
  return slash >= 0 && !name.includes('/', slash + 1)
}
