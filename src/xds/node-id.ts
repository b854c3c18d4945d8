// SPDX-License-Identifier: Apache-2.0
// Who a client says it is, from the node of its first message. Refuses what other control planes of this kind refuse; checks no identity.

import { ProtocolError } from '../base/errors.js'
import { parseIp } from '../base/ip.js'
import { shortenText } from '../base/short-text.js'
import type { NodeMessage } from '../wire/node-decoder.js'

const INVALID_ARGUMENT = 3
/** Ids are kept and logged; names of pods and namespaces are far shorter. */
const longestId = 1_024
const proxyTypes: ReadonlySet<string> = new Set(['sidecar', 'router', 'waypoint', 'ztunnel', 'agentgateway'])

/** What is kept of a client's node. */
export interface ClientNode {
  readonly id: string
  readonly proxyType: string
  /** `pod.namespace`, the third part of the id. */
  readonly proxy: string
  readonly namespace: string
  readonly clusterId: string
  /** Its Kubernetes node; empty when it did not say. */
  readonly nodeName: string
  readonly version: string
  readonly metadata: Readonly<Record<string, unknown>>
  readonly locality: Readonly<Record<string, string>>
}

/** Reads `type~ip~name~domain` and the metadata beside it. Throws ProtocolError (INVALID_ARGUMENT) when the node is absent or bad. */
export function parseNode(node: NodeMessage | undefined): ClientNode {
  if (node === undefined || node.id === '') {
    throw new ProtocolError(
      'missing node information: the first request of a stream must carry a node',
      INVALID_ARGUMENT,
    )
  }
  if (node.id.length > longestId) {
    throw new ProtocolError(
      `node id ${quote(node.id)} has ${node.id.length} characters; at most ${longestId} are taken`,
      INVALID_ARGUMENT,
    )
  }
  const [proxyType = '', ip = '', proxy = '', domain, ...rest] = node.id.split('~')
  if (domain === undefined || rest.length > 0) {
    throw new ProtocolError(`node id ${quote(node.id)} is not of the form type~ip~name~domain`, INVALID_ARGUMENT)
  }
  if (!proxyTypes.has(proxyType)) {
    throw new ProtocolError(`node id ${quote(node.id)}: unknown proxy type ${quote(proxyType)}`, INVALID_ARGUMENT)
  }
  const { metadata } = node
  if (!hasAddress(text(metadata['INSTANCE_IPS'])) && parseIp(ip) === undefined) {
    throw new ProtocolError(`node id ${quote(node.id)}: no valid IP address`, INVALID_ARGUMENT)
  }
  return {
    id: node.id,
    proxyType,
    proxy,
    namespace: text(metadata['NAMESPACE']) || (domain.split('.')[0] ?? ''),
    clusterId: text(metadata['CLUSTER_ID']),
    nodeName: text(metadata['NODE_NAME']),
    version: text(metadata['ISTIO_VERSION']),
    metadata,
    locality: selectLocality(node.locality),
  }
}

function hasAddress(list: string): boolean {
  return list.split(',').some((item) => parseIp(item.trim()) !== undefined)
}

function selectLocality(locality: NodeMessage['locality']): Record<string, string> {
  const named = { region: locality.region, zone: locality.zone, subzone: locality.subZone }
  return Object.fromEntries(Object.entries(named).filter(([, value]) => value !== ''))
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

/** For messages: short, and without anything that could break a log line or a header. */
function quote(value: string): string {
  return JSON.stringify(shortenText(value, 200))
}
