// SPDX-License-Identifier: Apache-2.0
// Kubernetes objects for tests: the shortest way to say one, as the API server would show it. And the room that they are put in.

import type { AddressOptions } from '../../src/address/options.js'
import { parseIp } from '../../src/base/ip.js'
import { Room, type KubeObject } from './room.js'

type Json = Readonly<Record<string, unknown>>
type Texts = Readonly<Record<string, string>>

/** Metadata that a test cares about. */
export interface Made {
  readonly ns?: string
  readonly uid?: string
  readonly labels?: Texts
  readonly annotations?: Texts
  /** Seconds after the start of 2026. */
  readonly at?: number
}

function make(
  apiVersion: string,
  kind: string,
  name: string,
  made: Made & { readonly meta?: Json },
  rest: Json,
): KubeObject {
  const { ns, uid, labels, annotations, at = 0, meta } = made
  const metadata = {
    name,
    ...(ns === undefined ? {} : { namespace: ns }),
    uid: uid ?? `${kind}-${name}`,
    ...(labels && { labels }),
    ...(annotations && { annotations }),
    creationTimestamp: new Date(Date.UTC(2026, 0, 1, 0, 0, at)).toISOString(),
    ...meta,
  }
  return { apiVersion, kind, metadata, ...rest }
}

export const namespace = (name: string, labels?: Texts, annotations?: Texts): KubeObject =>
  make('v1', 'Namespace', name, { ...(labels && { labels }), ...(annotations && { annotations }) }, {})

export const node = (name: string, labels: Texts): KubeObject => make('v1', 'Node', name, { labels }, {})

export interface PodMade extends Made {
  readonly ips?: readonly string[]
  readonly phase?: string
  readonly conditions?: readonly Json[]
  readonly spec?: Json
  readonly meta?: Json
}

/** Running and ready at 10.1.0.1 on n1 with service account sa1, in ns1, without labels. */
export function pod(name: string, made: PodMade = {}): KubeObject {
  const { ips = ['10.1.0.1'], phase = 'Running', conditions = [{ type: 'Ready', status: 'True' }], spec } = made
  const status = { phase, conditions, ...(ips.length > 0 && { podIP: ips[0], podIPs: ips.map((ip) => ({ ip })) }) }
  const containers = [{ name: 'c' }]
  return make(
    'v1',
    'Pod',
    name,
    { ns: 'ns1', ...made },
    {
      spec: { serviceAccountName: 'sa1', nodeName: 'n1', containers, ...spec },
      status,
    },
  )
}

/** With one port http 80 to 8080 at 10.0.0.1 unless the spec says otherwise, in ns1. */
export function service(name: string, spec: Json = {}, made: Made = {}): KubeObject {
  return make(
    'v1',
    'Service',
    name,
    { ns: 'ns1', ...made },
    {
      spec: {
        type: 'ClusterIP',
        clusterIPs: ['10.0.0.1'],
        ipFamilies: ['IPv4'],
        internalTrafficPolicy: 'Cluster',
        ports: [{ name: 'http', port: 80, targetPort: 8080, protocol: 'TCP' }],
        ...spec,
      },
    },
  )
}

/** With port http 80 unless the spec says otherwise, in ns1. */
export function serviceEntry(name: string, spec: Json, made: Made & { readonly status?: Json } = {}): KubeObject {
  return make(
    'networking.istio.io/v1',
    'ServiceEntry',
    name,
    { ns: 'ns1', ...made },
    {
      spec: { ports: [{ name: 'http', number: 80, protocol: 'HTTP' }], ...spec },
      ...(made.status && { status: made.status }),
    },
  )
}

export const workloadEntry = (name: string, spec: Json, made: Made = {}): KubeObject =>
  make('networking.istio.io/v1', 'WorkloadEntry', name, { ns: 'ns1', ...made }, { spec })

export interface GatewayMade extends Made {
  readonly class?: string
  readonly addresses?: readonly Json[]
  readonly listeners?: readonly Json[]
}

/** A waypoint for all traffic at host name `<name>.<ns>`, in ns1; nobody from elsewhere may attach. */
export function gateway(name: string, made: GatewayMade = {}): KubeObject {
  const { ns = 'ns1', addresses = [{ type: 'Hostname', value: `${name}.${ns}` }], listeners = [] } = made
  const labels = made.labels ?? { 'istio.io/waypoint-for': 'all' }
  return make(
    'gateway.networking.k8s.io/v1',
    'Gateway',
    name,
    { ...made, ns, labels },
    {
      spec: { gatewayClassName: made.class ?? 'istio-waypoint', listeners },
      status: { addresses },
    },
  )
}

export const gatewayClass = (name: string, labels?: Texts, annotations?: Texts): KubeObject =>
  make(
    'gateway.networking.k8s.io/v1',
    'GatewayClass',
    name,
    { ...(labels && { labels }), ...(annotations && { annotations }) },
    {},
  )

/** A listener that lets in whom `allowed` says. */
export const listener = (allowed: Json | undefined, port = 15008, protocol = 'HBONE'): Json => ({
  name: `l${port}`,
  port,
  protocol,
  ...(allowed && { allowedRoutes: { namespaces: allowed } }),
})

export const authorization = (name: string, spec: Json, made: Made = {}): KubeObject =>
  make('security.istio.io/v1', 'AuthorizationPolicy', name, { ns: 'ns1', ...made }, { spec })

export const peerAuthentication = (name: string, spec: Json, made: Made = {}): KubeObject =>
  make('security.istio.io/v1', 'PeerAuthentication', name, { ns: 'ns1', ...made }, { spec })

/** Of a Service in ns1. */
export function slice(name: string, ofService: string, endpoints: readonly Json[], more: Json = {}): KubeObject {
  const labels = { 'kubernetes.io/service-name': ofService }
  return make(
    'discovery.k8s.io/v1',
    'EndpointSlice',
    name,
    { ns: 'ns1', labels },
    {
      addressType: 'IPv4',
      ports: [{ name: 'http', port: 9999, protocol: 'TCP' }],
      endpoints,
      ...more,
    },
  )
}

export const mesh = (text: string): KubeObject =>
  make('v1', 'ConfigMap', 'istio', { ns: 'istio-system' }, { data: { mesh: text } })

export const ref = ({ apiVersion, kind, metadata }: KubeObject) => ({
  apiVersion,
  kind,
  name: metadata.name,
  ...(metadata.namespace === undefined ? {} : { namespace: metadata.namespace }),
})

/** Cluster c0 on network nw, with these objects. */
export function room(objects: readonly KubeObject[] = [], options: Partial<AddressOptions> = {}): Room {
  const made = new Room({ clusterId: 'c0', ...options })
  made.apply(namespace('istio-system', { 'topology.istio.io/network': 'nw' }), namespace('ns1'), ...objects)
  return made
}

export const podUid = (name: string, ns = 'ns1'): string => `c0//Pod/${ns}/${name}`
export const entryUid = (name: string, ns = 'ns1'): string => `c0/networking.istio.io/WorkloadEntry/${ns}/${name}`
export const endpointUid = (entry: string, address: string, ns = 'ns1'): string =>
  `c0/networking.istio.io/ServiceEntry/${ns}/${entry}/${address}`
export const sliceUid = (name: string, address: string): string =>
  `c0/discovery.k8s.io/EndpointSlice/ns1/${name}/${address}`
export const serviceName = (name: string, ns = 'ns1'): string => `${ns}/${name}.${ns}.svc.cluster.local`

export function ip(text: string): Uint8Array {
  const bytes = parseIp(text)
  if (bytes === undefined) throw new Error(`${text} is no IP address`)
  return bytes
}

/** Ports of a workload in a service as `service>target`; undefined when it is not in it. */
export function portsOf(made: Room, uid: string, name: string): readonly string[] | undefined {
  return made
    .workload(uid)
    ?.services.get(name)
    ?.map((port) => `${port.servicePort}>${port.targetPort}`)
}
