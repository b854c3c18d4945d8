// SPDX-License-Identifier: Apache-2.0
// A small universe of Kubernetes objects in which everything collides with everything: few names, few labels, few addresses. For property tests.
// Holds no broken mesh configuration: with one, history counts by rule, and a fresh start may differ.

import fc from 'fast-check'
import type { KubeObject, ObjectName } from './room.js'

/** Most of it happens in one. */
const namespaces = ['a', 'a', 'a', 'b', 'b', 'istio-system'] as const
const names = ['x', 'y', 'z'] as const
const ips = ['10.0.0.1', '10.0.0.2', '10.0.1.1', 'fd00::1'] as const
const hosts = ['h.ex', '*.w.ex', 'x.a.svc.cluster.local', '10.0.0.2'] as const
const nodes = ['n1', 'n2', ''] as const

export const knownKeys: readonly string[] = ['', 'nw', 'nw2', 'beta'].flatMap((network) =>
  [...ips, '10.0.0.9', '10.0.0.0', '10.0.0.0/24', '10.0.0.1/32', 'FD00::1', 'fd00::', 'fd00::/64', '', 'x'].map(
    (ip) => `${network}/${ip}`,
  ),
)
export const knownNodes: readonly string[] = nodes

const of = <T>(...values: readonly T[]): fc.Arbitrary<T> => fc.constantFrom(...values)
const mostly = <T>(value: T, ...others: readonly T[]): fc.Arbitrary<T> => of(value, value, value, ...others)
const maybe = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.option(arbitrary, { nil: undefined, freq: 2 })
const few = <T>(arbitrary: fc.Arbitrary<T>, maxLength = 2): fc.Arbitrary<T[]> => fc.array(arbitrary, { maxLength })

const filled = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T[]> =>
  fc.oneof({ weight: 5, arbitrary: fc.array(arbitrary, { minLength: 1, maxLength: 2 }) }, few(arbitrary, 0))

/** Some of these pairs; absent altogether at times. */
function pairs(
  of: Readonly<Record<string, readonly string[]>>,
): fc.Arbitrary<Partial<Record<string, string>> | undefined> {
  const shape = Object.fromEntries(Object.entries(of).map(([key, values]) => [key, fc.constantFrom(...values)]))
  return maybe(fc.record(shape, { requiredKeys: [] }))
}

const waypointNames = ['x', 'x', 'x', 'y', 'none', ''] as const
const waypointLabels = {
  'istio.io/use-waypoint': waypointNames,
  'istio.io/use-waypoint-namespace': ['a', 'a', 'a', 'b'],
} as const
const serviceWaypointLabels = {
  ...waypointLabels,
  'istio.io/use-waypoint-canary': ['y', 'y', 'x', 'none'],
  'istio.io/use-waypoint-canary-namespace': ['a', 'a', 'b'],
  'istio.io/ingress-use-waypoint': ['true', 'false'],
  'gateway.istio.io/managed': ['istio.io-mesh-controller', 'x'],
} as const
const workloadLabels = {
  app: ['1', '2'],
  tier: ['1', '2'],
  'gateway.networking.k8s.io/gateway-name': ['x', 'y'],
  'networking.istio.io/tunnel': ['http', 'http3'],
  ...waypointLabels,
} as const
const revision = { 'istio.io/rev': ['other', 'default'] } as const
const selector = pairs({ app: ['1', '2'], tier: ['1', '2'] })
const serviceAnnotations = pairs({
  'istio.io/use-waypoint-canary-weight': ['5', 'bad'],
  'networking.istio.io/traffic-distribution': ['PreferClose', 'bogus'],
})

type Fields = Readonly<Record<string, fc.Arbitrary<unknown>>>

interface Shape {
  readonly apiVersion: string
  readonly kind: string
  readonly namespaced: boolean
  readonly names: readonly string[]
  readonly labels: fc.Arbitrary<Partial<Record<string, string>> | undefined>
  readonly annotations: fc.Arbitrary<Partial<Record<string, string>> | undefined>
  readonly fields: Fields
}

const nothing = fc.constant(undefined)
const labelSelector = of<unknown>(
  undefined,
  {},
  { matchLabels: { team: '1' } },
  { matchExpressions: [{ key: 'team', operator: 'NotIn', values: ['1'] }] },
  { matchExpressions: [{ key: 'team', operator: 'Wrong' }] },
)

const endpoint = fc.record({
  address: of(...ips, 'vm.ex', ''),
  ports: maybe(fc.record({ http: of(8180, 8181), t: of(9191) }, { requiredKeys: [] })),
  labels: pairs(workloadLabels),
  network: mostly('', 'beta'),
  locality: mostly('', 'r/z'),
  weight: mostly(0, 5),
  serviceAccount: of('', 's'),
})

const policyRule = of<unknown>(
  {},
  { from: [{ source: { namespaces: ['a*'], serviceAccounts: ['s', 'b/s'] } }] },
  { to: [{ operation: { ports: ['80', 'http'] } }, { operation: { notPorts: ['http'] } }] },
  { to: [{ operation: { paths: ['/'], ports: ['80'] } }] },
  { when: [{ key: 'source.ip', values: ['10.0.0.0/8', 'bad'] }] },
  { from: [{ source: { principals: ['*'] } }], when: [{ key: 'request.headers[x]', values: ['1'] }] },
)

const shapes: readonly Shape[] = [
  {
    ...{ apiVersion: 'v1', kind: 'Namespace', namespaced: false, names: namespaces },
    labels: pairs({ ...serviceWaypointLabels, team: ['1', '2'], 'topology.istio.io/network': ['nw', 'nw2'] }),
    annotations: serviceAnnotations,
    fields: {},
  },
  {
    ...{ apiVersion: 'v1', kind: 'Node', namespaced: false, names: ['n1', 'n2'] },
    labels: pairs({ 'topology.kubernetes.io/zone': ['z1', 'z2'], 'topology.istio.io/subzone': ['s'] }),
    annotations: nothing,
    fields: {},
  },
  {
    ...{ apiVersion: 'gateway.networking.k8s.io/v1', kind: 'GatewayClass', namespaced: false },
    names: ['istio-waypoint', 'istio-remote'],
    labels: pairs({ 'istio.io/waypoint-for': ['all', 'workload'] }),
    annotations: pairs({ 'ambient.istio.io/waypoint-inbound-binding': ['PROXY/15088', 'NONE'] }),
    fields: {},
  },
  {
    ...{ apiVersion: 'gateway.networking.k8s.io/v1', kind: 'Gateway', namespaced: true, names: ['x', 'y'] },
    labels: pairs({
      'istio.io/waypoint-for': ['all', 'all', 'workload', 'service'],
      'topology.istio.io/network': ['beta', 'nw'],
    }),
    annotations: pairs({
      'ambient.istio.io/waypoint-inbound-binding': ['PROXY/15088', 'PROXY', 'x'],
      'gateway.istio.io/service-account': ['gw'],
    }),
    fields: {
      spec: fc.record({
        gatewayClassName: of('istio-waypoint', 'istio-remote'),
        listeners: few(
          fc.record({
            name: of('l'),
            port: of(15008, 15088),
            protocol: of('HBONE', 'istio.io/PROXY'),
            allowedRoutes: maybe(
              fc.record({
                namespaces: fc.record({ from: of('All', 'All', 'Same', 'Selector', 'None'), selector: labelSelector }),
              }),
            ),
          }),
        ),
      }),
      status: fc.record({
        addresses: filled(
          of(
            { type: 'IPAddress', value: '10.9.0.1' },
            { type: 'IPAddress', value: 'bad' },
            { type: 'Hostname', value: 'gw.ex' },
            { value: '10.9.0.2' },
          ),
        ),
      }),
    },
  },
  {
    ...{ apiVersion: 'v1', kind: 'Service', namespaced: true, names },
    labels: pairs(serviceWaypointLabels),
    annotations: serviceAnnotations,
    fields: {
      spec: fc.record({
        type: mostly('ClusterIP', 'ExternalName'),
        clusterIPs: few(of(...ips, 'None')),
        selector,
        ipFamilies: few(of('IPv4', 'IPv6')),
        internalTrafficPolicy: mostly('Cluster', 'Local'),
        trafficDistribution: mostly(undefined, 'PreferSameNode'),
        publishNotReadyAddresses: mostly(false, true),
        ports: few(
          fc.record({
            name: of('http', 'dns', ''),
            port: of(80, 53),
            protocol: of('TCP', 'UDP'),
            targetPort: of<unknown>(8080, 't', 'http'),
          }),
        ),
      }),
    },
  },
  {
    ...{ apiVersion: 'networking.istio.io/v1', kind: 'ServiceEntry', namespaced: true, names },
    labels: pairs({
      ...serviceWaypointLabels,
      ...revision,
      app: ['1'],
      'networking.istio.io/enable-autoallocate-ip': ['false'],
    }),
    annotations: serviceAnnotations,
    fields: {
      spec: fc.record({
        hosts: fc.array(of(...hosts), { minLength: 1, maxLength: 3 }),
        addresses: mostly<readonly string[]>(
          [],
          ['10.0.0.1'],
          ['10.0.0.0/24', 'fd00::/64'],
          ['bad'],
          ['10.0.0.2', '10.0.0.0/8'],
        ),
        resolution: of('NONE', 'STATIC', 'DNS', 'DYNAMIC_DNS', undefined),
        ports: few(
          fc.record({
            name: of('http', 't'),
            number: of(80, 81),
            protocol: of('HTTP', 'TCP'),
            targetPort: of(0, 8080),
          }),
        ),
        endpoints: few(endpoint),
        workloadSelector: maybe(fc.record({ labels: selector })),
        subjectAltNames: few(of('s1', 's2')),
      }),
      status: maybe(
        fc.record({
          addresses: few(fc.record({ value: of('240.240.0.1', '2001:2::1', 'bad'), host: of(...hosts) }), 3),
        }),
      ),
    },
  },
  {
    ...{ apiVersion: 'networking.istio.io/v1', kind: 'WorkloadEntry', namespaced: true, names },
    labels: pairs({ ...workloadLabels, ...revision }),
    annotations: pairs({ 'istio.io/autoRegistrationGroup': ['g', ''], 'ambient.istio.io/redirection': ['enabled'] }),
    fields: { spec: endpoint },
  },
  {
    ...{ apiVersion: 'security.istio.io/v1', kind: 'AuthorizationPolicy', namespaced: true, names },
    labels: pairs(revision),
    annotations: pairs({ 'istio.io/dry-run': ['true', 'x'] }),
    fields: {
      spec: fc.record({
        selector: maybe(fc.record({ matchLabels: selector })),
        action: mostly('ALLOW', 'DENY', 'AUDIT'),
        rules: maybe(few(policyRule)),
        targetRefs: mostly<unknown>(undefined, [{ kind: 'Gateway', name: 'x' }]),
      }),
    },
  },
  {
    ...{ apiVersion: 'security.istio.io/v1', kind: 'PeerAuthentication', namespaced: true, names },
    labels: pairs(revision),
    annotations: nothing,
    fields: {
      spec: fc.record({
        selector: maybe(fc.record({ matchLabels: selector })),
        mtls: maybe(fc.record({ mode: of('UNSET', 'STRICT', 'PERMISSIVE', 'DISABLE') })),
        portLevelMtls: maybe(
          fc.record(
            {
              8080: fc.record({ mode: of('STRICT', 'PERMISSIVE', 'DISABLE') }),
              9090: fc.record({ mode: of('STRICT') }),
            },
            { requiredKeys: [] },
          ),
        ),
      }),
    },
  },
  {
    ...{ apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', namespaced: true, names },
    labels: pairs({ 'kubernetes.io/service-name': ['x', 'y'] }),
    annotations: nothing,
    fields: {
      addressType: mostly('IPv4', 'IPv6', 'FQDN'),
      ports: few(
        fc.record({ name: of('http', '', undefined), port: of(8080, undefined), protocol: mostly('TCP', 'UDP') }),
      ),
      endpoints: few(
        fc.record({
          addresses: few(of(...ips, 'bad')),
          conditions: maybe(fc.record({ ready: of(true, false) })),
          targetRef: maybe(
            fc.record({
              kind: mostly('Pod', 'Node'),
              namespace: of('a', 'b'),
              name: of(...names),
              uid: of('u1', 'u2'),
            }),
          ),
        }),
        3,
      ),
    },
  },
  {
    ...{ apiVersion: 'v1', kind: 'Pod', namespaced: true, names },
    labels: pairs({ ...workloadLabels, 'pod-template-hash': ['h'], version: ['v1'] }),
    annotations: pairs({ 'ambient.istio.io/redirection': ['enabled', 'pending'] }),
    fields: {
      spec: fc.record({
        nodeName: of(...nodes),
        serviceAccountName: of('default', 's'),
        hostNetwork: mostly(false, true),
        containers: few(
          fc.record({
            ports: few(
              fc.record({ name: of('http', 't'), containerPort: of(8080, 8081), protocol: mostly('TCP', 'UDP') }),
            ),
          }),
        ),
      }),
      status: fc.record({
        phase: mostly('Running', 'Pending', 'Succeeded', 'Failed'),
        podIPs: filled(fc.record({ ip: mostly<string>(ips[0], ips[1], ips[3], 'bad') })),
        conditions: few(fc.record({ type: of('Ready'), status: of('True', 'False') }), 1),
      }),
    },
  },
]

const meshTexts = [
  undefined,
  '',
  'trustDomain: example.org\n',
  'rootNamespace: a\n',
  'discoverySelectors: [{matchLabels: {team: "1"}}]\n',
  'serviceEntryVisibility: {defaultVisibility: NAMESPACE, policies: [{visibility: NONE, matchingRules: [{namespaceSelector: {matchLabels: {team: "2"}}}]}]}\n',
] as const

const meshConfig: fc.Arbitrary<KubeObject> = of(...meshTexts).map((mesh) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { namespace: 'istio-system', name: 'istio', uid: 'mesh' },
  data: mesh === undefined ? {} : { mesh },
}))

function toObject(shape: Shape): fc.Arbitrary<KubeObject> {
  const { apiVersion, kind, namespaced } = shape
  const metadata = fc.record({
    namespace: namespaced ? of(...namespaces) : nothing,
    name: of(...shape.names),
    uid: of('u1', 'u2'),
    labels: shape.labels,
    annotations: shape.annotations,
    creationTimestamp: of('2026-01-01T00:00:00Z', '2026-01-01T00:00:01Z', undefined),
    deletionTimestamp: kind === 'Pod' ? mostly(undefined, '2026-01-01T00:00:09Z') : nothing,
  })
  return fc.record({ metadata, ...shape.fields }).map((object) => {
    const plain = JSON.parse(JSON.stringify({ apiVersion, kind, ...object })) as KubeObject
    return plain
  })
}

const byKind = new Map([
  ...shapes.map((shape) => [shape.kind, toObject(shape)] as const),
  ['ConfigMap', meshConfig] as const,
])
const allKinds = [...byKind.keys()]

export type Event =
  | { readonly event: 'upsert'; readonly object: KubeObject }
  | { readonly event: 'delete'; readonly name: ObjectName }
  /** These objects are now all there are of the kind. */
  | { readonly event: 'relist'; readonly kind: string; readonly objects: readonly KubeObject[] }
  | { readonly event: 'commit' }

export function toName({ apiVersion, kind, metadata: { namespace, name } }: KubeObject): ObjectName {
  return { apiVersion, kind, name, ...(namespace === undefined ? {} : { namespace }) }
}

const weights: Readonly<Record<string, number>> = {
  Pod: 4,
  Service: 3,
  ServiceEntry: 3,
  Namespace: 4,
  Gateway: 3,
  ConfigMap: 1,
}

// Pods, services and entries are most of what there is; the others change what they come to.
const object = fc.oneof(
  ...[...byKind].map(([kind, arbitrary]) => ({
    weight: weights[kind] ?? 2,
    arbitrary,
  })),
)

const relist = of(...allKinds).chain((kind) =>
  fc
    .array(byKind.get(kind) ?? meshConfig, { maxLength: 4 })
    .map((objects): Event => ({ event: 'relist', kind, objects })),
)

export const events: fc.Arbitrary<Event> = fc.oneof(
  { weight: 12, arbitrary: object.map((made): Event => ({ event: 'upsert', object: made })) },
  { weight: 4, arbitrary: object.map((made): Event => ({ event: 'delete', name: toName(made) })) },
  { weight: 1, arbitrary: relist },
  { weight: 4, arbitrary: fc.constant<Event>({ event: 'commit' }) },
)
