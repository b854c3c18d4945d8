// SPDX-License-Identifier: Apache-2.0
// Objects as an API server shows them, and the whole row that is kept of each.

import { describe, expect, test } from '@jest/globals'
import { InvalidInput } from '../../src/base/errors.js'
import { projectObject } from '../../src/kube/project.js'
import type { Kind } from '../../src/kube/records.js'
import { parseKind } from '../../src/kube/resources.js'

const cluster = 'c1'
const created = '2026-01-01T00:00:10Z'
const createdSeconds = Date.parse(created) / 1000

function meta(more: object = {}): object {
  return { name: 'a', namespace: 'ns', uid: 'u-1', creationTimestamp: created, resourceVersion: '7', ...more }
}

const metaRow = {
  cluster,
  namespace: 'ns',
  name: 'a',
  uid: 'u-1',
  labels: undefined,
  annotations: undefined,
  created: createdSeconds,
}

const bound = { type: 'istio.io/WaypointBound', status: 'True', reason: 'r', lastTransitionTime: created }
const boundRow = { type: bound.type, status: 'True', reason: 'r', message: '', observedGeneration: 0 }

function isFrozenDeep(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true
  return Object.isFrozen(value) && Object.values(value).every(isFrozenDeep)
}

function refusal(kind: Kind, object: unknown): string {
  try {
    projectObject(kind, object, cluster)
  } catch (error) {
    expect(error).toBeInstanceOf(InvalidInput)
    return (error as Error).message
  }
  throw new Error('it was accepted')
}

describe('a row keeps what an answer can depend on', () => {
  test('of a pod', () => {
    const projected = projectObject(
      'Pod',
      {
        metadata: meta({
          labels: { b: '2', a: '1' },
          annotations: { 'ambient.istio.io/redirection': 'enabled', other: 'x' },
          generateName: 'a-',
          deletionTimestamp: created,
          ownerReferences: [
            { kind: 'Thing', name: 't', uid: 'x' },
            { kind: 'ReplicaSet', name: 'rs', uid: 'y', controller: true },
          ],
          managedFields: [{ manager: 'm' }],
        }),
        spec: {
          nodeName: 'n1',
          serviceAccountName: 'sa',
          hostNetwork: true,
          containers: [
            {
              name: 'c',
              ports: [
                { name: 'http', containerPort: 8080 },
                { containerPort: 1 },
                { name: 'dns', containerPort: 53, protocol: 'UDP' },
              ],
            },
          ],
          initContainers: [
            { name: 'once', ports: [{ name: 'no', containerPort: 2 }] },
            { name: 'side', restartPolicy: 'Always', ports: [{ name: 'side', containerPort: 3, protocol: 'TCP' }] },
          ],
        },
        status: {
          phase: 'Running',
          podIP: '10.0.0.1',
          podIPs: [{ ip: '10.0.0.1' }, { ip: 'fd00::1' }],
          conditions: [
            { type: 'Initialized', status: 'True' },
            { type: 'Ready', status: 'True' },
          ],
        },
      },
      cluster,
    )
    expect(projected).toStrictEqual({
      key: 'c1/ns/a',
      record: {
        ...metaRow,
        labels: { a: '1', b: '2' },
        annotations: { 'ambient.istio.io/redirection': 'enabled' },
        deleting: true,
        generated: true,
        owner: { kind: 'ReplicaSet', name: 'rs' },
        node: 'n1',
        serviceAccount: 'sa',
        hostNetwork: true,
        ports: [
          { name: 'http', port: 8080 },
          { name: 'side', port: 3 },
        ],
        phase: 'Running',
        ips: ['10.0.0.1', 'fd00::1'],
        ready: true,
      },
    })
    expect(isFrozenDeep(projected.record)).toBe(true)
  })

  test('of a pod that has next to nothing', () => {
    expect(
      projectObject('Pod', { metadata: { name: 'a', namespace: 'ns', labels: {} }, status: { podIP: '10.0.0.9' } }, ''),
    ).toStrictEqual({
      key: '/ns/a',
      record: {
        ...metaRow,
        cluster: '',
        uid: '',
        created: 0,
        deleting: false,
        generated: false,
        owner: undefined,
        node: '',
        serviceAccount: '',
        hostNetwork: false,
        ports: [],
        phase: '',
        ips: ['10.0.0.9'],
        ready: false,
      },
    })
  })

  test('of a service', () => {
    const spec = {
      type: 'ClusterIP',
      clusterIP: '10.96.0.1',
      clusterIPs: ['10.96.0.1', 'None', 'fd00::96'],
      ports: [
        { name: 'http', port: 80, protocol: 'TCP', targetPort: 'web', appProtocol: 'kubernetes.io/h2c' },
        { port: 81, targetPort: 8081 },
        { port: 82 },
      ],
      selector: { app: 'a' },
      ipFamilies: ['IPv4', 'IPv6'],
      internalTrafficPolicy: 'Local',
      trafficDistribution: 'PreferClose',
      publishNotReadyAddresses: true,
    }
    const status = { conditions: [{ type: 'Other' }, bound, { ...bound, status: 'False' }] }
    expect(
      projectObject(
        'Service',
        { metadata: meta({ annotations: { 'networking.istio.io/traffic-distribution': 'any' } }), spec, status },
        cluster,
      ).record,
    ).toStrictEqual({
      ...metaRow,
      annotations: { 'networking.istio.io/traffic-distribution': 'any' },
      type: 'ClusterIP',
      clusterIps: ['10.96.0.1', 'fd00::96'],
      ports: [
        { name: 'http', port: 80, protocol: 'TCP', appProtocol: 'kubernetes.io/h2c', targetPort: 'web' },
        { name: '', port: 81, protocol: '', appProtocol: undefined, targetPort: 8081 },
        { name: '', port: 82, protocol: '', appProtocol: undefined, targetPort: 0 },
      ],
      selector: { app: 'a' },
      ipFamilies: ['IPv4', 'IPv6'],
      internalTrafficPolicy: 'Local',
      trafficDistribution: 'PreferClose',
      publishNotReadyAddresses: true,
      conditions: [boundRow],
    })
  })

  test('of an endpoint slice', () => {
    const slice = {
      metadata: meta({ labels: { 'kubernetes.io/service-name': 's' } }),
      addressType: 'IPv4',
      ports: [{ name: '', port: 80, protocol: 'TCP' }, {}],
      endpoints: [
        {
          addresses: ['10.0.0.1'],
          conditions: { ready: false },
          targetRef: { kind: 'Pod', namespace: 'ns', name: 'p', uid: 'u' },
        },
        { addresses: ['10.0.0.2'], conditions: {} },
      ],
    }
    expect(projectObject('EndpointSlice', slice, cluster).record).toStrictEqual({
      ...metaRow,
      labels: { 'kubernetes.io/service-name': 's' },
      addressType: 'IPv4',
      ports: [
        { name: '', port: 80, protocol: 'TCP' },
        { name: undefined, port: undefined, protocol: '' },
      ],
      endpoints: [
        { addresses: ['10.0.0.1'], ready: false, target: { kind: 'Pod', namespace: 'ns', name: 'p', uid: 'u' } },
        { addresses: ['10.0.0.2'], ready: true, target: undefined },
      ],
    })
  })

  test('of the objects of a whole cluster', () => {
    const labels = { 'topology.kubernetes.io/region': 'r', 'topology.kubernetes.io/zone': 'z', other: 'x' }
    const taints = [
      { key: 'cni.istio.io/not-ready', effect: 'NoSchedule' },
      { key: 'gpu', value: 'a' },
    ]
    expect(projectObject('Node', { metadata: { name: 'n', labels }, spec: { taints } }, cluster)).toStrictEqual({
      key: 'c1/n',
      record: { cluster, name: 'n', region: 'r', zone: 'z', subzone: '', taints: ['cni.istio.io/not-ready', 'gpu'] },
    })
    expect(
      projectObject(
        'Namespace',
        { metadata: { name: 'n', labels, annotations: { 'istio.io/use-waypoint-canary-weight': '5' } } },
        cluster,
      ),
    ).toStrictEqual({
      key: 'c1/n',
      record: { cluster, name: 'n', labels, annotations: { 'istio.io/use-waypoint-canary-weight': '5' } },
    })
    expect(
      projectObject('GatewayClass', { metadata: { name: 'g' }, spec: { controllerName: 'x' } }, cluster),
    ).toStrictEqual({
      key: 'c1/g',
      record: { cluster, name: 'g', controller: 'x', labels: undefined, annotations: undefined },
    })
    expect(projectObject('ConfigMap', { metadata: meta(), data: { mesh: 'a: 1', other: 'x' } }, cluster)).toStrictEqual(
      {
        key: 'c1/ns/a',
        record: { cluster, namespace: 'ns', name: 'a', mesh: 'a: 1' },
      },
    )
    expect(projectObject('ConfigMap', { metadata: meta() }, cluster).record.mesh).toBeUndefined()
  })

  test('of a gateway', () => {
    const gateway = {
      metadata: meta({ annotations: { 'gateway.istio.io/service-account': 'sa' } }),
      spec: {
        gatewayClassName: 'istio-waypoint',
        listeners: [
          { name: 'mesh', port: 15008, protocol: 'HBONE' },
          {
            name: 'tls',
            port: 15443,
            protocol: 'TLS',
            tls: { mode: 'Terminate' },
            allowedRoutes: {
              namespaces: {
                from: 'Selector',
                selector: { matchExpressions: [{ key: 'a', operator: 'In', values: ['b'] }] },
              },
            },
          },
          { name: 'all', port: 1, protocol: 'TCP', allowedRoutes: { namespaces: { from: 'All' } } },
          { name: 'kinds', port: 2, protocol: 'TCP', allowedRoutes: { kinds: [] } },
        ],
      },
      status: { addresses: [{ type: 'IPAddress', value: '10.0.0.1' }, { value: 'x' }] },
    }
    expect(projectObject('Gateway', gateway, cluster).record).toStrictEqual({
      ...metaRow,
      annotations: { 'gateway.istio.io/service-account': 'sa' },
      className: 'istio-waypoint',
      addresses: [
        { type: 'IPAddress', value: '10.0.0.1' },
        { type: '', value: 'x' },
      ],
      listeners: [
        { name: 'mesh', port: 15008, protocol: 'HBONE', tlsMode: '', allowedNamespaces: undefined },
        {
          name: 'tls',
          port: 15443,
          protocol: 'TLS',
          tlsMode: 'Terminate',
          allowedNamespaces: {
            from: 'Selector',
            selector: { matchLabels: undefined, matchExpressions: [{ key: 'a', operator: 'In', values: ['b'] }] },
          },
        },
        { name: 'all', port: 1, protocol: 'TCP', tlsMode: '', allowedNamespaces: { from: 'All', selector: undefined } },
        { name: 'kinds', port: 2, protocol: 'TCP', tlsMode: '', allowedNamespaces: undefined },
      ],
    })
  })

  test('of a workload entry, where empty labels of the spec differ from none [X1]', () => {
    const spec = {
      address: '10.0.0.1',
      ports: { http: 8080 },
      labels: {},
      network: 'n',
      locality: 'r/z',
      weight: 3,
      serviceAccount: 's',
    }
    expect(projectObject('WorkloadEntry', { metadata: meta(), spec }, cluster).record).toStrictEqual({
      ...metaRow,
      spec: { ...spec, labels: {} },
      conditions: [],
    })
    expect(projectObject('WorkloadEntry', { metadata: meta() }, cluster).record).toStrictEqual({
      ...metaRow,
      spec: { address: '', ports: {}, labels: undefined, network: '', locality: '', weight: 0, serviceAccount: '' },
      conditions: [],
    })
  })

  test('of a service entry', () => {
    const spec = {
      hosts: ['a.example'],
      addresses: ['240.0.0.1'],
      ports: [
        { number: 80, protocol: 'HTTP', name: 'http', targetPort: 8080 },
        { number: 81, name: 'x' },
      ],
      resolution: 'STATIC',
      endpoints: [{ address: '10.0.0.1' }],
      workloadSelector: {},
      subjectAltNames: ['s'],
    }
    const status = {
      addresses: [{ value: '240.240.0.1', host: 'a.example' }],
      conditions: [bound, { ...bound, type: 'istio.io/VisibilityApplied', message: 'm', observedGeneration: '7' }],
    }
    expect(projectObject('ServiceEntry', { metadata: meta(), spec, status }, cluster).record).toStrictEqual({
      ...metaRow,
      hosts: ['a.example'],
      addresses: ['240.0.0.1'],
      ports: [
        { number: 80, protocol: 'HTTP', name: 'http', targetPort: 8080 },
        { number: 81, protocol: '', name: 'x', targetPort: 0 },
      ],
      resolution: 'STATIC',
      endpoints: [
        { address: '10.0.0.1', ports: {}, labels: undefined, network: '', locality: '', weight: 0, serviceAccount: '' },
      ],
      workloadSelector: {},
      subjectAltNames: ['s'],
      statusAddresses: [{ value: '240.240.0.1', host: 'a.example' }],
      conditions: [{ ...boundRow, type: 'istio.io/VisibilityApplied', message: 'm', observedGeneration: 7 }, boundRow],
    })
    const bare = projectObject('ServiceEntry', { metadata: meta(), spec: {} }, cluster).record
    expect([bare.resolution, bare.workloadSelector]).toStrictEqual(['NONE', undefined])
  })

  test('of an authorization policy', () => {
    const rules = [{ from: [{ source: { namespaces: ['x'] } }] }]
    const policy = {
      metadata: meta({ annotations: { 'istio.io/dry-run': 'true' }, generation: 3 }),
      spec: { selector: { matchLabels: {} }, action: 'DENY', rules },
      status: {
        conditions: [
          { ...bound, type: 'ZtunnelAccepted' },
          { ...bound, type: 'WaypointAccepted' },
        ],
      },
    }
    const projected = projectObject('AuthorizationPolicy', policy, cluster).record
    expect(projected).toStrictEqual({
      ...metaRow,
      annotations: { 'istio.io/dry-run': 'true' },
      generation: 3,
      action: 'DENY',
      targeted: false,
      targets: [],
      hasSelector: true,
      selector: {},
      rules,
      conditions: [
        { ...boundRow, type: 'WaypointAccepted' },
        { ...boundRow, type: 'ZtunnelAccepted' },
      ],
    })
    expect([isFrozenDeep(projected), Object.isFrozen(rules)]).toStrictEqual([true, false])
    expect(
      projectObject(
        'AuthorizationPolicy',
        { metadata: meta(), spec: { selector: {}, targetRefs: [{ kind: 'Gateway' }] } },
        cluster,
      ).record,
    ).toStrictEqual({
      ...metaRow,
      generation: 0,
      action: 'ALLOW',
      targeted: true,
      targets: [{ group: '', kind: 'Gateway', name: '' }],
      hasSelector: true,
      selector: undefined,
      rules: undefined,
      conditions: [],
    })
  })

  test('of a peer authentication, where an empty selector differs from none [Z3]', () => {
    const spec = { selector: {}, mtls: { mode: 'STRICT' }, portLevelMtls: { 8080: { mode: 'DISABLE' }, 9090: {} } }
    expect(projectObject('PeerAuthentication', { metadata: meta(), spec }, cluster).record).toStrictEqual({
      ...metaRow,
      selector: {},
      mode: 'STRICT',
      portModes: { 8080: 'DISABLE', 9090: 'UNSET' },
    })
    expect(projectObject('PeerAuthentication', { metadata: meta(), spec: {} }, cluster).record).toStrictEqual({
      ...metaRow,
      selector: undefined,
      mode: 'UNSET',
      portModes: undefined,
    })
  })
})

describe('an object of a wrong type is refused with its name and the field', () => {
  test.each<[Kind, unknown, string]>([
    ['Pod', 7, 'Pod /(without name): it must be an object'],
    ['Pod', {}, 'Pod /(without name): metadata must be an object, it is absent'],
    ['Pod', { metadata: { namespace: 'ns' } }, 'Pod ns/(without name): metadata.name must be a name, it is absent'],
    ['Pod', { metadata: { name: 'a' } }, 'Pod /a: metadata.namespace must be a namespace, it is absent'],
    ['Pod', { metadata: meta({ labels: { a: 1 } }) }, 'Pod ns/a: metadata.labels.a must be a string, it is a number'],
    ['Pod', { metadata: meta(), spec: [] }, 'Pod ns/a: spec must be an object, it is a list'],
    [
      'Pod',
      { metadata: meta({ creationTimestamp: 'soon' }) },
      'Pod ns/a: metadata.creationTimestamp must be a time such as 2026-01-01T00:00:00Z, it is a string',
    ],
    [
      'Pod',
      { metadata: meta(), spec: { containers: [{}, { ports: [{ name: 'x', containerPort: 1.5 }] }] } },
      'Pod ns/a: spec.containers[1].ports[0].containerPort must be a whole number, it is a fraction',
    ],
    ['Service', { metadata: meta(), spec: { ports: {} } }, 'Service ns/a: spec.ports must be a list, it is an object'],
    [
      'Service',
      { metadata: meta(), spec: { ports: [{ targetPort: true }] } },
      'Service ns/a: spec.ports[0].targetPort must be a whole number or a name, it is a boolean',
    ],
    [
      'Service',
      { metadata: meta(), spec: { clusterIPs: [null] } },
      'Service ns/a: spec.clusterIPs[0] must be a string, it is null',
    ],
    ['Node', { metadata: { name: 4 } }, 'Node (without name): metadata.name must be a string, it is a number'],
    [
      'EndpointSlice',
      { metadata: meta(), endpoints: ['x'] },
      'EndpointSlice ns/a: endpoints[0] must be an object, it is a string',
    ],
    [
      'WorkloadEntry',
      { metadata: meta(), spec: { ports: { http: '80' } } },
      'WorkloadEntry ns/a: spec.ports.http must be a whole number, it is a string',
    ],
    [
      'Pod',
      { metadata: meta(), spec: { hostNetwork: 'yes' } },
      'Pod ns/a: spec.hostNetwork must be true or false, it is a string',
    ],
    [
      'Service',
      { metadata: meta(), spec: { ports: [{ port: -1 }] } },
      'Service ns/a: spec.ports[0].port must be a whole number from 0 to 65535, it is -1',
    ],
    [
      'Service',
      { metadata: meta(), spec: { ports: [{ port: 80, targetPort: 65_536 }] } },
      'Service ns/a: spec.ports[0].targetPort must be a whole number from 0 to 65535, it is 65536',
    ],
    [
      'EndpointSlice',
      { metadata: meta(), ports: [{ port: 1e300 }] },
      'EndpointSlice ns/a: ports[0].port must be a whole number from 0 to 65535, it is 1e+300',
    ],
    [
      'ServiceEntry',
      { metadata: meta(), spec: { endpoints: [{ ports: { http: 99_999_999_999 } }] } },
      'ServiceEntry ns/a: spec.endpoints[0].ports.http must be a whole number from 0 to 65535, it is 99999999999',
    ],
    [
      'WorkloadEntry',
      { metadata: meta(), spec: { weight: -5 } },
      'WorkloadEntry ns/a: spec.weight must be a whole number from 0 to 4294967295, it is -5',
    ],
    [
      'AuthorizationPolicy',
      { metadata: meta(), spec: { rules: [{}, JSON.parse('['.repeat(60) + ']'.repeat(60)) as unknown] } },
      'AuthorizationPolicy ns/a: spec.rules[1] must be nested at most 32 deep, it is a list',
    ],
  ])('%s %j: %s', (kind, object, message) => {
    expect(refusal(kind, object)).toBe(message)
  })
})

test('rows with the same labels share one set, whatever the order they were written in', () => {
  const one = projectObject('Pod', { metadata: meta({ labels: { a: '1', b: '2' } }) }, cluster).record
  const two = projectObject('Service', { metadata: meta({ labels: { b: '2', a: '1' } }) }, cluster).record
  expect(one.labels).toBe(two.labels)
})

test('a kind is told by its group and name, whatever the version', () => {
  expect([
    parseKind('v1', 'Pod'),
    parseKind('networking.istio.io/v1alpha3', 'ServiceEntry'),
    parseKind('gateway.networking.k8s.io/v1', 'Gateway'),
    parseKind('networking.istio.io/v1', 'Gateway'),
    parseKind('apps/v1', 'Deployment'),
    parseKind('v1', 'toString'),
  ]).toStrictEqual(['Pod', 'ServiceEntry', 'Gateway', undefined, undefined, undefined])
})
