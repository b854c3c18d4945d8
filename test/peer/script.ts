// SPDX-License-Identifier: Apache-2.0
// One change after another of every kind that matters to a ztunnel, each on top of those before.

import type { KubeObject } from '../address/room.js'
import { namespace, pod, policy, service } from './objects.js'

const gatewayClass: KubeObject = {
  apiVersion: 'gateway.networking.k8s.io/v1',
  kind: 'GatewayClass',
  metadata: { name: 'istio-waypoint' },
  spec: { controllerName: 'istio.io/mesh-controller' },
}
const waypoint = (ip: string): KubeObject => ({
  apiVersion: 'gateway.networking.k8s.io/v1',
  kind: 'Gateway',
  metadata: { name: 'wp', namespace: 'a', labels: { 'istio.io/waypoint-for': 'all' } },
  spec: { gatewayClassName: 'istio-waypoint', listeners: [{ name: 'mesh', port: 15008, protocol: 'HBONE' }] },
  status: { addresses: [{ value: ip }] },
})
const entry = (name: string, spec: Readonly<Record<string, unknown>>): KubeObject => ({
  apiVersion: 'networking.istio.io/v1',
  kind: 'ServiceEntry',
  metadata: { name, namespace: 'a' },
  spec: { ports: [{ name: 'tcp', number: 80, protocol: 'TCP' }], ...spec },
})
const range = (address: string, endpoints: readonly string[]): KubeObject =>
  entry('range', {
    hosts: ['range.example'],
    addresses: [address],
    resolution: 'STATIC',
    endpoints: endpoints.map((ip) => ({ address: ip })),
  })
const peers = (path: string, spec: Readonly<Record<string, unknown>>): KubeObject => ({
  ...policy(path, spec),
  kind: 'PeerAuthentication',
})

const webs = [pod('a/web', { ip: '10.1.0.1' }), pod('a/far', { ip: '10.1.1.2', node: 'node2', labels: { app: 'web' } })]
const [web, far] = webs as [KubeObject, KubeObject]
const webService = service('a/web', '10.96.0.1')
const label = (object: KubeObject, labels: Readonly<Record<string, string>>): KubeObject => ({
  ...object,
  metadata: { ...object.metadata, labels: { ...(object.metadata['labels'] as object | undefined), ...labels } },
})

/** What each change is, the objects that are set and those that go. The namespace `a` is there before. */
export const script: readonly (readonly [string, readonly KubeObject[], (readonly KubeObject[])?])[] = [
  ['pods, one of them elsewhere', webs],
  ['a service over them', [webService]],
  ['one is not ready', [pod('a/far', { ip: '10.1.1.2', node: 'node2', labels: { app: 'web' }, ready: false })]],
  ['the service takes those that are not ready', [service('a/web', '10.96.0.1', { publishNotReadyAddresses: true })]],
  ['it takes only ready ones again', [webService]],
  ['ready again', webs],
  ['the service changes its ports', [service('a/web', '10.96.0.1', { ports: [{ port: 81, targetPort: 9090 }] })]],
  [
    'two families',
    [
      service('a/web', '10.96.0.1', {
        clusterIPs: ['10.96.0.1', 'fd00:10:96::1'],
        ipFamilies: ['IPv4', 'IPv6'],
        ipFamilyPolicy: 'RequireDualStack',
      }),
    ],
  ],
  ['callers prefer their own zone', [service('a/web', '10.96.0.1', { trafficDistribution: 'PreferClose' })]],
  ['headless', [service('a/web', 'None')]],
  ['the service goes', [], [webService]],
  ['and comes', [webService]],
  ['a pod is captured no more', [pod('a/web', { ip: '10.1.0.1', captured: false })]],
  ['a pod moves', [pod('a/web', { ip: '10.1.0.9', node: 'node3', uid: 'another' })]],
  ['a pod goes', [], [far]],
  ['its address has another owner', [pod('a/next', { ip: '10.1.1.2' })]],
  ['a range without members', [range('10.50.0.0/24', [])]],
  ['it gets members', [range('10.50.0.0/24', ['10.4.0.1', '10.4.0.2'])]],
  ['one of them goes', [range('10.50.0.0/24', ['10.4.0.2'])]],
  ['another range', [range('10.51.0.0/16', ['10.4.0.2'])]],
  [
    'a host known by name alone',
    [entry('dns', { hosts: ['dns.example'], resolution: 'DNS', endpoints: [{ address: 'real.example' }] })],
  ],
  [
    'every host of a domain',
    [entry('wild', { hosts: ['*.wild.example'], addresses: ['240.0.0.5'], resolution: 'NONE' })],
  ],
  ['they go', [], [entry('dns', {}), entry('wild', {}), entry('range', {})]],
  ['a waypoint', [gatewayClass, service('a/wp', '10.96.0.7', { ports: [{ port: 15008 }] }), waypoint('10.96.0.7')]],
  ['a namespace uses it', [namespace('a', { 'istio.io/use-waypoint': 'wp' })]],
  ['a service does not', [label(webService, { 'istio.io/use-waypoint': 'none' })]],
  ['a pod has its own', [label(web, { 'istio.io/use-waypoint': 'wp' })]],
  ['it moves', [waypoint('10.1.0.77')]],
  ['it goes', [], [waypoint('')]],
  ['nobody uses it', [namespace('a'), webService, web], [service('a/wp', ''), gatewayClass]],
  ['a policy for a namespace', [policy('a/ns', { rules: [{ from: [{ source: { namespaces: ['b', 'c-*'] } }] }] })]],
  [
    'one for a workload',
    [
      policy('a/web', {
        selector: { matchLabels: { app: 'web' } },
        action: 'DENY',
        rules: [
          {
            to: [{ operation: { ports: ['80'], notPorts: ['81'] } }],
            when: [{ key: 'source.ip', notValues: ['10.0.0.0/8', 'fd00::1'] }],
          },
        ],
      }),
    ],
  ],
  [
    'it changes',
    [
      policy('a/web', {
        selector: { matchLabels: { app: 'web' } },
        action: 'DENY',
        rules: [{ from: [{ source: { principals: ['*', 'td/ns/b/sa/*', '*/sa/x'] } }] }],
      }),
    ],
  ],
  ['one for all', [policy('istio-system/all', { rules: [{}] })]],
  ['one that lets nobody in', [policy('a/none', {})]],
  [
    'one about accounts',
    [policy('a/accounts', { rules: [{ from: [{ source: { serviceAccounts: ['b/x', 'y'] } }] }] })],
  ],
  ['everybody must prove who they are', [peers('istio-system/mesh', { mtls: { mode: 'STRICT' } })]],
  [
    'but for one port',
    [
      peers('a/web', {
        selector: { matchLabels: { app: 'web' } },
        mtls: { mode: 'STRICT' },
        portLevelMtls: { 9090: { mode: 'PERMISSIVE' } },
      }),
    ],
  ],
  [
    'no policy any more',
    [],
    [
      policy('a/ns', {}),
      policy('a/web', {}),
      policy('istio-system/all', {}),
      policy('a/none', {}),
      policy('a/accounts', {}),
      peers('istio-system/mesh', {}),
      peers('a/web', {}),
    ],
  ],
  ['nothing any more', [], [webService, web, pod('a/next', { ip: '' }), namespace('a')]],
]
