// SPDX-License-Identifier: Apache-2.0
// A real ztunnel that is told everything holds what our bytes mean after every kind of change, and rejects nothing.

import { afterEach, describe, expect } from '@jest/globals'
import { objectKey } from '../../src/kube/records.js'
import type { KubeObject, ObjectName } from '../address/room.js'
import { casesFolder } from '../conformance/folder.js'
import { readCases, type RecordedCase } from '../conformance/recorded.js'
import { testWith } from '../support/optional.js'
import { nameOf, namespace, pod, policy, service } from './objects.js'
import { expectHeld, expectReady, Room } from './room.js'
import { until, whyNoZtunnel, type Ztunnel } from './ztunnel.js'

const maybe = testWith('ztunnel', whyNoZtunnel())

let room: Room | undefined
let beats = 0
afterEach(async () => {
  await room?.close()
  room = undefined
})

async function start(
  objects: readonly KubeObject[],
  env: Record<string, string> = {},
  flags: string[] = [],
): Promise<Ztunnel> {
  room = await Room.open(objects, { env, flags })
  const ztunnel = room.startZtunnel(await room.openSpace(), {
    PROXY_MODE: 'dedicated',
    PROXY_WORKLOAD_INFO: 'a/web/web',
    AUTH_TOKEN: await room.token('istio-system', 'ztunnel'),
  })
  await expectReady(ztunnel)
  return ztunnel
}

/** One change, a pod that tells that it was taken, and the comparison. */
async function change(
  ztunnel: Ztunnel,
  objects: readonly KubeObject[],
  gone: readonly ObjectName[] = [],
): Promise<void> {
  const ip = `10.99.${++beats >> 8}.${beats & 255}`
  room!.change([...objects, pod('beat/beat', { ip })], gone)
  const { served } = room!.server.parts
  const key = objectKey(room!.clusterId, 'beat', 'beat')
  await until(
    () => Promise.resolve(served.inputs.Pod.get(key)?.ips[0] === ip && !served.isPending),
    () => 'addressd to see a change',
  )
  await expectHeld(ztunnel, () => room!.expected())
}

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

/** What each change is, and the change. */
const script: readonly (readonly [string, readonly KubeObject[], (readonly KubeObject[])?])[] = [
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

async function expectNoRejects(): Promise<void> {
  const families = await room!.server.parts.registry.getMetricsAsJSON()
  const rejects = families.find(({ name }) => name.startsWith('pilot_total_xds_rejects'))
  expect({ rejects: rejects?.values ?? [] }).toEqual({ rejects: [] })
  const complaints = room!.log.records.filter(({ level }) => level === 'error')
  expect(complaints).toEqual([])
}

describe('a real ztunnel', () => {
  maybe('is ready with an empty mesh', async () => {
    const ztunnel = await start([])
    expect(await ztunnel.held()).toEqual({ workloads: [], services: [], policies: [], stagedServices: {} })
  })

  maybe(
    `holds what we serve after each of ${script.length} changes`,
    async () => {
      const ztunnel = await start([namespace('a')])
      for (const [what, objects, gone = []] of script) {
        try {
          await change(ztunnel, objects, gone.map(nameOf))
        } catch (error) {
          throw new Error(`after "${what}"`, { cause: error })
        }
      }
      expect((await ztunnel.held()).workloads.length).toBe(1)
      await expectNoRejects()
    },
    180_000,
  )
})

/** The settings that make the options of a case. */
function toSettings({ options }: RecordedCase): { env: Record<string, string>; flags: string[] } {
  return {
    env: {
      REVISION: options.revision ?? '',
      PILOT_AUTO_ALLOW_WAYPOINT_POLICY: String(options.autoAllowWaypointPolicy),
      AMBIENT_ENABLE_DRY_RUN_AUTHORIZATION_POLICY: String(options.dryRunPolicies),
      PILOT_ENABLE_SERVICEENTRY_SELECT_PODS: String(options.serviceEntrySelectsPods),
      PILOT_ENABLE_K8S_SELECT_WORKLOAD_ENTRIES: String(options.serviceSelectsWorkloadEntries),
      PILOT_ENABLE_IP_AUTOALLOCATE: String(options.ipAutoallocate),
    },
    flags: [
      ...['--clusterID', options.clusterId ?? '', '--namespace', options.systemNamespace ?? ''],
      ...['--domain', options.domain ?? ''],
    ],
  }
}

const kinds = ['address', 'authorization']
const recorded = kinds.flatMap((kind) => {
  const folder = casesFolder(kind)
  return folder === undefined ? [] : readCases(folder).filter(({ skipReason }) => skipReason === undefined)
})
const groups = new Map<string, RecordedCase[]>()
for (const one of recorded) {
  const key = JSON.stringify(toSettings(one))
  groups.set(key, [...(groups.get(key) ?? []), one])
}

describe('a real ztunnel through all recorded steps', () => {
  for (const cases of groups.values()) {
    maybe(
      `holds what we serve: ${cases.length} cases from ${cases[0]!.name} on`,
      async () => {
        const { env, flags } = toSettings(cases[0]!)
        const ztunnel = await start([], env, flags)
        let gone: readonly ObjectName[] = []
        for (const { name, steps } of cases) {
          const held = new Map<string, ObjectName>()
          for (const step of steps) {
            try {
              await change(ztunnel, step.upsert, [...gone, ...step.delete])
            } catch (error) {
              throw new Error(`in case ${name}, step ${step.step}`, { cause: error })
            }
            for (const object of step.upsert) held.set(JSON.stringify(nameOf(object)), nameOf(object))
            gone = []
          }
          gone = [...held.values()]
        }
        await expectNoRejects()
      },
      600_000,
    )
  }
})
