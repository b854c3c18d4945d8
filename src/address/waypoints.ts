// SPDX-License-Identifier: Apache-2.0
// Gateways as waypoints: where they are, which traffic they take, who may attach. Every Gateway with a status address counts, of whatever class.
// Who refers to which one is waypoint-reference.ts.

import { isSameRow } from './equal.js'
import { parseIp } from '../base/ip.js'
import type { Collection, Graph, Read } from '../collection/types.js'
import type { Inputs } from '../kube/inputs.js'
import {
  clusterKey,
  objectKey,
  type GatewayRecord,
  type Labels,
  type LabelSelectorRecord,
  type ListenerRecord,
} from '../kube/records.js'
import { ApplicationProtocol, type ApplicationTunnel, type GatewayAddress } from '../wire/messages.js'
import type { Discovery } from './discovery.js'
import { annotationKeys, labelKeys, labelOf } from './labels.js'
import type { Networks } from './networks.js'
import { isSelected, isValidSelector } from '../kube/selectors.js'

/** Who may attach: `Same` is the namespace of the Gateway. A missing selector selects nobody. */
export interface AttachmentRule {
  readonly from: 'All' | 'Same' | 'Selector'
  readonly selector: LabelSelectorRecord | undefined
}

export interface Waypoint {
  readonly cluster: string
  readonly namespace: string
  readonly name: string
  /** `namespace/name`: how people and policies call it. */
  readonly reference: string
  /** Undefined when the status has addresses, but none that can be used: bound to, yet invisible on the wire. */
  readonly address: GatewayAddress | undefined
  /** `service`, `workload` and `all` have effect; anything else takes no traffic. */
  readonly traffic: string
  /** How traffic enters the waypoint's own pods, when it is said. */
  readonly inbound: ApplicationTunnel | undefined
  readonly attachment: AttachmentRule
}

export interface Waypoints {
  readonly rows: Collection<Waypoint>
  /** Undefined: there is none of that name, or it has no address yet. */
  find(read: Read, cluster: string, namespace: string, name: string): Waypoint | undefined
}

const hbonePort = 15008

export function createWaypoints(graph: Graph, inputs: Inputs, discovery: Discovery, networks: Networks): Waypoints {
  const rows = graph.derive(
    'waypoints',
    inputs.Gateway,
    (gateway, read): Waypoint | undefined => {
      if (gateway.addresses.length === 0 || !discovery.isSeen(read, gateway)) return undefined
      const { cluster, namespace, name } = gateway
      const ofClass = read.one(inputs.GatewayClass, clusterKey(cluster, gateway.className))
      const inbound = parseInboundBinding(
        labelOf(gateway.annotations, annotationKeys.inboundBinding) ??
          labelOf(ofClass?.annotations, annotationKeys.inboundBinding),
      )
      return {
        cluster,
        namespace,
        name,
        reference: `${namespace}/${name}`,
        address: selectAddress(gateway, networks.ofCluster(read, cluster)),
        traffic:
          labelOf(gateway.labels, labelKeys.waypointFor) ??
          labelOf(ofClass?.labels, labelKeys.waypointFor) ??
          'service',
        inbound,
        attachment: toAttachmentRule(selectListener(gateway.listeners, inbound)),
      }
    },
    { key: (row) => objectKey(row.cluster, row.namespace, row.name), equal: isSameRow },
  )
  return { rows, find: (read, cluster, namespace, name) => read.one(rows, objectKey(cluster, namespace, name)) }
}

/** True for `service` or `workload` when the waypoint takes that traffic. */
export function isTrafficTaken(waypoint: Waypoint, traffic: 'service' | 'workload'): boolean {
  return waypoint.traffic === traffic || waypoint.traffic === 'all'
}

/** May objects of a namespace with these labels attach? A namespace that does not exist has no labels. */
export function isAttachmentAllowed(waypoint: Waypoint, namespace: string, labels: Labels | undefined): boolean {
  const { from, selector } = waypoint.attachment
  switch (from) {
    case 'All':
      return true
    case 'Same':
      return waypoint.namespace === namespace
    case 'Selector':
      return selector !== undefined && isSelected(selector, labels)
  }
}

/** A host name before any IP address; entries that do not say what they are do not count. */
function selectAddress(gateway: GatewayRecord, network: string): GatewayAddress | undefined {
  const hostname = gateway.addresses.find(({ type }) => type === 'Hostname')?.value
  if (hostname !== undefined) return { hostname: { namespace: gateway.namespace, hostname }, hboneMtlsPort: hbonePort }
  for (const { type, value } of gateway.addresses) {
    const address = type === 'IPAddress' ? parseIp(value) : undefined
    if (address !== undefined) return { address: { network, address }, hboneMtlsPort: hbonePort }
  }
  return undefined
}

/** `NONE` or `PROXY`, with `/port` behind it or not; a port that is none is 0. Anything else is no binding. */
export function parseInboundBinding(text: string | undefined): ApplicationTunnel | undefined {
  if (text === undefined) return undefined
  const [word = '', portText, ...more] = text.split('/')
  if (more.length > 0 || (word !== 'NONE' && word !== 'PROXY')) return undefined
  const port = portText !== undefined && /^[0-9]+$/.test(portText) ? Number(portText) : 0
  return { protocol: ApplicationProtocol[word], port: port <= 0xffff_ffff ? port : 0 }
}

/** The listener whose allowedRoutes decide who attaches. */
function selectListener(
  listeners: readonly ListenerRecord[],
  inbound: ApplicationTunnel | undefined,
): ListenerRecord | undefined {
  const bound = listeners.find((listener) => {
    if (inbound === undefined) return false
    if (inbound.port !== 0) return listener.port === inbound.port
    return inbound.protocol === ApplicationProtocol.PROXY && listener.protocol === 'istio.io/PROXY'
  })
  return bound ?? listeners.find(({ protocol, port }) => protocol === 'HBONE' && port === hbonePort)
}

function toAttachmentRule(listener: ListenerRecord | undefined): AttachmentRule {
  const allowed = listener?.allowedNamespaces
  switch (allowed?.from) {
    case 'All':
      return { from: 'All', selector: undefined }
    case 'Selector': {
      const { selector } = allowed
      return { from: 'Selector', selector: selector !== undefined && isValidSelector(selector) ? selector : undefined }
    }
    default:
      return { from: 'Same', selector: undefined }
  }
}
