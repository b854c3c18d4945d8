// SPDX-License-Identifier: Apache-2.0
// Ports: the protocol that a port speaks, and which port of a workload a service's port leads to. Pure.

import type { EndpointSliceRecord, NamedPort, ServiceEntryPortRecord, ServicePortRecord } from '../kube/records.js'
import { AppProtocol, type Port } from '../wire/messages.js'

/** A service's port as its members see it. */
export interface MemberPort {
  readonly servicePort: number
  /** 0: a name that each member resolves for itself. */
  readonly targetPort: number
  readonly name: string
  /** Name of the target port; empty when it is a number. */
  readonly targetName: string
}

/** Whose ports these are: they resolve differently. */
export type PortSource = 'Service' | 'ServiceEntry'

const protocols: Readonly<Record<string, number>> = {
  http: AppProtocol.HTTP11,
  http2: AppProtocol.HTTP2,
  grpc: AppProtocol.GRPC,
  tcp: AppProtocol.TCP,
  tls: AppProtocol.TLS,
  https: AppProtocol.TLS,
  udp: AppProtocol.UNKNOWN,
  mongo: AppProtocol.UNKNOWN,
  redis: AppProtocol.UNKNOWN,
  mysql: AppProtocol.UNKNOWN,
  http_proxy: AppProtocol.UNKNOWN,
}

const kubernetesProtocols: Readonly<Record<string, number>> = {
  'kubernetes.io/h2c': AppProtocol.HTTP2,
  'kubernetes.io/ws': AppProtocol.HTTP11,
  'kubernetes.io/wss': AppProtocol.TLS,
}

/** Ports on which the server speaks first or nothing is to be guessed. */
const tcpPorts: readonly number[] = [25, 53, 3306, 27017]

function protocolOf(table: Readonly<Record<string, number>>, word: string): number | undefined {
  return Object.hasOwn(table, word) ? table[word] : undefined
}

/** Protocol of a Kubernetes Service's port: by appProtocol or else by the first word of its name, or by a well-known number. */
export function toServiceProtocol(port: ServicePortRecord): number {
  if (port.protocol === 'UDP') return AppProtocol.UNKNOWN
  const exact = port.appProtocol === undefined ? undefined : protocolOf(kubernetesProtocols, port.appProtocol)
  if (exact !== undefined) return exact
  const token = (port.appProtocol ?? port.name).toLowerCase()
  if (token.startsWith('grpc-web')) return AppProtocol.UNKNOWN
  const dash = token.indexOf('-')
  const known = protocolOf(protocols, dash < 0 ? token : token.slice(0, dash))
  return known ?? (tcpPorts.includes(port.port) ? AppProtocol.TCP : AppProtocol.UNKNOWN)
}

/** Protocol of a ServiceEntry's port: the whole word counts, and nothing is guessed. */
export function toEntryProtocol(protocol: string): number {
  return protocolOf(protocols, protocol.toLowerCase()) ?? AppProtocol.UNKNOWN
}

/** The ports of a Kubernetes Service as its resource shows them. */
export function toServicePorts(ports: readonly ServicePortRecord[]): readonly Port[] {
  return ports.map((port) => ({
    servicePort: port.port,
    targetPort: typeof port.targetPort === 'number' ? port.targetPort : 0,
    appProtocol: toServiceProtocol(port),
  }))
}

/** The ports of a ServiceEntry as its resources show them. */
export function toEntryPorts(ports: readonly ServiceEntryPortRecord[]): readonly Port[] {
  return ports.map((port) => ({
    servicePort: port.number,
    targetPort: port.targetPort === 0 ? port.number : port.targetPort,
    appProtocol: toEntryProtocol(port.protocol),
  }))
}

/** Names are looked up by number: of two lines with one number (TCP and UDP) the later one names both. */
export function toMemberPorts(
  ports: readonly Port[],
  names: readonly { readonly number: number; readonly name: string; readonly targetName: string }[],
): readonly MemberPort[] {
  const byNumber = new Map(names.map((entry) => [entry.number, entry]))
  return ports.map(({ servicePort, targetPort }) => {
    const { name = '', targetName = '' } = byNumber.get(servicePort) ?? {}
    return { servicePort, targetPort, name, targetName }
  })
}

/** Ports of a pod: named targets are named container ports; a ServiceEntry's port name finds a container port of that name before anything else. */
export function resolvePodPorts(
  source: PortSource,
  ports: readonly MemberPort[],
  containerPorts: readonly NamedPort[],
): readonly Port[] {
  const find = (name: string): number | undefined => containerPorts.find((port) => port.name === name)?.port
  return resolvePorts(ports, (port) => {
    if (source === 'Service') return port.targetName === '' ? port.targetPort : find(port.targetName)
    return find(port.name) ?? toEntryTarget(port)
  })
}

/** Ports of a WorkloadEntry or of an endpoint of a ServiceEntry, which maps port names to numbers itself. */
export function resolveEntryPorts(
  source: PortSource,
  ports: readonly MemberPort[],
  entryPorts: Readonly<Record<string, number>>,
): readonly Port[] {
  const find = (name: string): number | undefined => (Object.hasOwn(entryPorts, name) ? entryPorts[name] : undefined)
  return resolvePorts(ports, (port) => {
    if (source === 'ServiceEntry') return find(port.name) ?? toEntryTarget(port)
    return port.targetName === '' ? (find(port.name) ?? port.targetPort) : find(port.targetName)
  })
}

/** Ports of an endpoint of a slice: the slice's own, matched to the service's by name. */
export function resolveSlicePorts(
  ports: readonly MemberPort[],
  slicePorts: EndpointSliceRecord['ports'],
): readonly Port[] {
  return slicePorts.flatMap(({ name, port: targetPort, protocol }) => {
    if (name === undefined || targetPort === undefined || protocol !== 'TCP') return []
    const servicePort = ports.find((port) => port.name === name)?.servicePort
    return servicePort === undefined ? [] : [{ servicePort, targetPort, appProtocol: AppProtocol.UNKNOWN }]
  })
}

function toEntryTarget(port: MemberPort): number {
  return port.targetPort === 0 ? port.servicePort : port.targetPort
}

/** A port that leads nowhere is left out; the protocol is the service's affair. */
function resolvePorts(ports: readonly MemberPort[], target: (port: MemberPort) => number | undefined): readonly Port[] {
  const out: Port[] = []
  for (const port of ports) {
    const targetPort = target(port)
    if (targetPort !== undefined)
      out.push({ servicePort: port.servicePort, targetPort, appProtocol: AppProtocol.UNKNOWN })
  }
  return out
}

/** Port names of a Service, for toMemberPorts. */
export function toServicePortNames(
  ports: readonly ServicePortRecord[],
): readonly { readonly number: number; readonly name: string; readonly targetName: string }[] {
  return ports.map(({ port, name, targetPort }) => ({
    number: port,
    name,
    targetName: typeof targetPort === 'string' ? targetPort : '',
  }))
}
