// SPDX-License-Identifier: Apache-2.0
// Gateways into other networks: Gateways of class istio-remote with a network label. One record an address; each record is also a workload of its own,
// and the door that workloads on its network are reached by.

import { isSameRow } from './equal.js'
import { parseIp } from '../base/ip.js'
import type { Collection, Graph, Read } from '../collection/types.js'
import type { Inputs } from '../kube/inputs.js'
import type { GatewayRecord } from '../kube/records.js'
import { NetworkMode, TunnelProtocol, WorkloadStatus, WorkloadType, type GatewayAddress } from '../wire/messages.js'
import type { Resource } from '../xds/source.js'
import type { Discovery } from './discovery.js'
import { annotationKeys, labelKeys, labelOf } from './labels.js'
import { formatTrustDomain, type Mesh } from './mesh.js'
import { formatNetworkGatewayUid } from './names.js'
import { isSameResource, toWorkloadResource } from './resource.js'
import { toEndpointAddress } from './workload-fields.js'

export interface NetworkGateway {
  /** `namespace/name/address` of the Gateway: the lowest is preferred. */
  readonly key: string
  readonly uid: string
  readonly network: string
  /** As written in the Gateway's status. */
  readonly address: string
  readonly port: number
  readonly namespace: string
  readonly name: string
  readonly serviceAccount: string
}

export interface NetworkGateways {
  readonly resources: Collection<Resource>
  /** How workloads on a network are reached from elsewhere; undefined when nobody said. Applied to the own network too. */
  select(read: Read, network: string): GatewayAddress | undefined
  /** The records behind one resource name, preferred first. */
  byUid(read: Read, uid: string): readonly NetworkGateway[]
}

export function createNetworkGateways(graph: Graph, inputs: Inputs, discovery: Discovery, mesh: Mesh): NetworkGateways {
  const gateways = graph.derive(
    'network gateways',
    inputs.Gateway,
    (gateway, read) => (discovery.isSeen(read, gateway) ? toNetworkGateways(gateway) : undefined),
    { key: (row) => row.key, equal: isSameRow },
  )
  const byNetwork = gateways.index('network', (row) => [row.network])
  const byUid = gateways.index('uid', (row) => [row.uid])
  const inOrder = (rows: readonly NetworkGateway[]): readonly NetworkGateway[] =>
    rows.length < 2 ? rows : [...rows].sort((a, b) => (a.key < b.key ? -1 : 1))
  // Two Gateways may describe the same door; it is one workload.
  const doors = graph.distinct('network gateway addresses', gateways, (row) => [row.uid, row.uid])
  const resources = graph.derive(
    'network gateway workloads',
    doors,
    (uid, read) => {
      const gateway = inOrder(read.many(byUid, uid))[0]
      return gateway && toResource(gateway, formatTrustDomain(mesh.identity(read).trustDomain))
    },
    { key: (resource) => resource.name, equal: isSameResource },
  )
  return {
    resources,
    select(read, network) {
      const gateway = inOrder(read.many(byNetwork, network).filter((row) => row.port !== 0))[0]
      return gateway && toGatewayAddress(gateway)
    },
    byUid: (read, uid) => inOrder(read.many(byUid, uid)),
  }
}

function toNetworkGateways(gateway: GatewayRecord): readonly NetworkGateway[] {
  const network = labelOf(gateway.labels, labelKeys.network) ?? ''
  if (network === '' || gateway.className !== 'istio-remote') return []
  const port = gateway.listeners.find((listener) => listener.protocol === 'HBONE')?.port
  if (port === undefined) return []
  const { namespace, name } = gateway
  const named = labelOf(gateway.annotations, annotationKeys.gatewayServiceAccount) ?? ''
  const serviceAccount = named === '' ? `${name}-istio-remote` : named
  const addresses = gateway.addresses
    .filter(({ type }) => type === 'IPAddress' || type === 'Hostname')
    .map(({ value }) => value)
  return [...new Set(addresses)].map((address) => ({
    key: `${namespace}/${name}/${address}`,
    uid: formatNetworkGatewayUid(network, address, port),
    network,
    address,
    port,
    namespace,
    name,
    serviceAccount,
  }))
}

function toGatewayAddress(gateway: NetworkGateway): GatewayAddress {
  const { network, address, port, namespace } = gateway
  const ip = parseIp(address)
  return ip === undefined
    ? { hostname: { namespace, hostname: address }, hboneMtlsPort: port }
    : { address: { network, address: ip }, hboneMtlsPort: port }
}

function toResource(gateway: NetworkGateway, trustDomain: string): Resource {
  return toWorkloadResource({
    uid: gateway.uid,
    name: gateway.uid,
    namespace: gateway.namespace,
    ...toEndpointAddress(gateway.address),
    network: gateway.network,
    tunnelProtocol: TunnelProtocol.NONE,
    trustDomain,
    serviceAccount: gateway.serviceAccount,
    waypoint: undefined,
    networkGateway: undefined,
    node: '',
    canonicalName: '',
    canonicalRevision: '',
    workloadType: WorkloadType.DEPLOYMENT,
    workloadName: '',
    nativeTunnel: false,
    applicationTunnel: undefined,
    services: new Map(),
    authorizationPolicies: [],
    status: WorkloadStatus.HEALTHY,
    clusterId: '',
    locality: undefined,
    networkMode: NetworkMode.STANDARD,
    capacity: undefined,
  })
}
