// SPDX-License-Identifier: Apache-2.0
// Addresses of the bench's mesh from Kubernetes objects, the plain way: walk over everything. For the yardstick; knows only what the mesh of
// the bench has, and there gives the same messages as the product.

import type { Json, MeshKind } from './mesh.js'

export interface PlainAddress {
  readonly name: string
  readonly aliases: readonly string[]
  /** An `istio.workload.Address` as proto-loader takes it. */
  readonly message: Json
}

const cluster = 'Kubernetes'

const toBytes = (ip: string): Buffer => Buffer.from(ip.split('.').map(Number))

/** `objects` gives all objects of a kind. */
export function deriveAddresses(objects: (kind: MeshKind) => ReadonlyMap<string, Json>): PlainAddress[] {
  const nodes = new Map<string, Json>()
  for (const { metadata } of objects('Node').values()) nodes.set(metadata.name, metadata.labels ?? {})
  const services = new Map<string, Json[]>()
  const addresses: PlainAddress[] = []
  for (const service of objects('Service').values()) {
    const { namespace } = service.metadata
    const known = services.get(namespace)
    if (known === undefined) services.set(namespace, [service])
    else known.push(service)
    addresses.push(toService(service))
  }
  for (const pod of objects('Pod').values()) {
    const candidates = services.get(pod.metadata.namespace) ?? []
    const selecting = candidates.filter((service) => isSelected(pod, service.spec.selector ?? {}))
    addresses.push(toWorkload(pod, selecting, nodes))
  }
  return addresses
}

const hostnameOf = ({ metadata }: Json): string => `${metadata.name}.${metadata.namespace}.svc.cluster.local`

function isSelected(pod: Json, selector: Json): boolean {
  const labels = pod.metadata.labels ?? {}
  const wanted = Object.entries(selector)
  return wanted.length > 0 && wanted.every(([key, value]) => labels[key] === value)
}

function toService(service: Json): PlainAddress {
  const { metadata, spec } = service
  const hostname = hostnameOf(service)
  const protocols: Json = { http: 'HTTP11', grpc: 'GRPC' }
  return {
    name: `${metadata.namespace}/${hostname}`,
    aliases: [`/${spec.clusterIP}`],
    message: {
      service: {
        name: metadata.name,
        namespace: metadata.namespace,
        hostname,
        addresses: [{ address: toBytes(spec.clusterIP) }],
        ports: spec.ports.map((port: Json) => ({
          service_port: port.port,
          ...(typeof port.targetPort === 'number' ? { target_port: port.targetPort } : {}),
          app_protocol: protocols[port.name],
        })),
        ip_families: 'IPV4_ONLY',
        canonical: true,
      },
    },
  }
}

function toWorkload(pod: Json, selecting: readonly Json[], nodes: ReadonlyMap<string, Json>): PlainAddress {
  const { metadata, spec, status } = pod
  const uid = `${cluster}//Pod/${metadata.namespace}/${metadata.name}`
  const labels = metadata.labels ?? {}
  const node = nodes.get(spec.nodeName) ?? {}
  const services: Json = {}
  for (const service of selecting) {
    const ports = service.spec.ports.map((port: Json) => ({
      service_port: port.port,
      target_port: typeof port.targetPort === 'number' ? port.targetPort : findPort(pod, port.targetPort),
    }))
    services[`${metadata.namespace}/${hostnameOf(service)}`] = { ports }
  }
  const isReady = status.conditions.some((c: Json) => c.type === 'Ready' && c.status === 'True')
  return {
    name: uid,
    aliases: [`/${status.podIP}`],
    message: {
      workload: {
        name: metadata.name,
        namespace: metadata.namespace,
        addresses: [toBytes(status.podIP)],
        ...(metadata.annotations?.['ambient.istio.io/redirection'] === 'enabled' ? { tunnel_protocol: 'HBONE' } : {}),
        service_account: spec.serviceAccountName,
        node: spec.nodeName,
        canonical_name: labels['app.kubernetes.io/name'] ?? labels.app,
        canonical_revision: labels['app.kubernetes.io/version'] ?? labels.version,
        workload_type: 'POD',
        workload_name: metadata.name,
        ...(isReady ? {} : { status: 'UNHEALTHY' }),
        cluster_id: cluster,
        uid,
        services,
        locality: { region: node['topology.kubernetes.io/region'], zone: node['topology.kubernetes.io/zone'] },
      },
    },
  }
}

function findPort(pod: Json, name: string): number | undefined {
  for (const container of pod.spec.containers) {
    for (const port of container.ports ?? []) if (port.name === name) return port.containerPort
  }
  return undefined
}
