// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { NetworkMode, TunnelProtocol, WorkloadStatus, WorkloadType } from '../../src/wire/messages.js'
import { ip, mesh, namespace, node, pod, podUid, ref, room, type PodMade } from './objects.js'
import { Room } from './room.js'

const uid = podUid('p')
const one = (made: PodMade) => room([pod('p', made)]).workload(uid)

describe('a pod', () => {
  test('is published whole [P3,P4,T5,T6]', () => {
    const made = room([pod('p')])
    expect(made.workload(uid)).toEqual({
      uid,
      name: 'p',
      namespace: 'ns1',
      addresses: [ip('10.1.0.1')],
      hostname: '',
      network: 'nw',
      tunnelProtocol: TunnelProtocol.NONE,
      trustDomain: '',
      serviceAccount: 'sa1',
      waypoint: undefined,
      networkGateway: undefined,
      node: 'n1',
      canonicalName: 'p',
      canonicalRevision: 'latest',
      workloadType: WorkloadType.POD,
      workloadName: 'p',
      nativeTunnel: false,
      applicationTunnel: undefined,
      services: new Map(),
      authorizationPolicies: [],
      status: WorkloadStatus.HEALTHY,
      clusterId: 'c0',
      locality: undefined,
      networkMode: NetworkMode.STANDARD,
      capacity: undefined,
    })
    expect(made.source.get(uid)?.aliases).toEqual(['nw/10.1.0.1'])
  })

  test.each<readonly [string, PodMade]>([
    ['pending without an address [P1,P2]', { phase: 'Pending', ips: [] }],
    ['that succeeded [P1]', { phase: 'Succeeded' }],
    ['that failed [P1]', { phase: 'Failed' }],
    ['with an empty address [P2]', { ips: [''] }],
    ['with an address that is none beside a good one [P2]', { ips: ['10.1.0.1', 'junk'] }],
    ['with leading zeros in its address [T7]', { ips: ['10.001.0.1'] }],
  ])('%s is not published', (_, made) => {
    expect(one(made)).toBeUndefined()
  })

  test('that ends is removed [P1]', () => {
    const made = room([pod('p')])
    expect(made.apply(pod('p', { phase: 'Succeeded' }))).toEqual({ changed: [], removed: [uid] })
  })

  test.each<readonly [string, PodMade, number]>([
    ['pending with an address', { phase: 'Pending', conditions: [] }, WorkloadStatus.UNHEALTHY],
    ['running without a Ready condition', { conditions: [] }, WorkloadStatus.UNHEALTHY],
    ['ready', {}, WorkloadStatus.HEALTHY],
    ['ready and being deleted', { meta: { deletionTimestamp: '2026-01-01T00:00:00Z' } }, WorkloadStatus.UNHEALTHY],
  ])('%s has its health [P1,P5]', (_, made, status) => {
    expect(one(made)?.status).toBe(status)
  })

  test('of two families has both addresses in order [P2,A1,A3]', () => {
    const made = room([pod('p', { ips: ['10.1.0.1', 'fd00::1'] })])
    expect(made.workload(uid)?.addresses).toEqual([ip('10.1.0.1'), ip('fd00::1')])
    expect(made.source.get(uid)?.aliases).toEqual(['nw/10.1.0.1', 'nw/fd00::1'])
  })

  const owner = (kind: string, name: string, generateName = 'x-') => ({
    generateName,
    ownerReferences: [{ apiVersion: 'v1', kind, name, uid: 'o', controller: true }],
  })
  const hash = (value: string) => ({ 'pod-template-hash': value })
  test.each<readonly [string, PodMade, string, string]>([
    ['a ReplicaSet without hash', { meta: owner('ReplicaSet', 'rs') }, 'rs', 'rs'],
    ['a ReplicaSet with a hash', { labels: hash('5d9f'), meta: owner('ReplicaSet', 'web-5d9f') }, 'web', 'web'],
    [
      'a rollout',
      { labels: { 'rollouts-pod-template-hash': 'ab1' }, meta: owner('ReplicaSet', 'shop-ab1') },
      'shop',
      'shop',
    ],
    ['a job of a cron job', { meta: owner('Job', 'nightly-28812345') }, 'nightly', 'nightly'],
    ['a job with few digits', { meta: owner('Job', 'nightly-1234567') }, 'nightly-1234567', 'nightly-1234567'],
    [
      'a deployment config',
      { labels: { deploymentconfig: 'dc' }, meta: owner('ReplicationController', 'dc-1') },
      'dc',
      'dc',
    ],
    ['an owner, but not generated', { meta: owner('ReplicaSet', 'rs', '') }, 'p', 'p'],
    ['a label that says so', { labels: { 'service.istio.io/workload-name': 'x' } }, 'x', 'x'],
    ['a label that says nothing', { labels: { 'service.istio.io/workload-name': '' } }, '', ''],
  ])('is named after %s [P8,T4]', (_, made, workloadName, canonicalName) => {
    const found = one(made)
    expect([found?.workloadName, found?.canonicalName, found?.workloadType]).toEqual([
      workloadName,
      canonicalName,
      WorkloadType.POD,
    ])
  })

  test.each<readonly [Readonly<Record<string, string>>, string, string]>([
    [{ app: 'a', 'app.kubernetes.io/name': 'b', version: 'v1' }, 'b', 'v1'],
    [{ app: 'a', 'app.kubernetes.io/name': 'b', 'service.istio.io/canonical-name': 'c' }, 'c', 'latest'],
    [{ app: '' }, '', 'latest'],
  ])('takes its canonical names from labels %j [T4]', (labels, name, revision) => {
    const found = one({ labels })
    expect([found?.canonicalName, found?.canonicalRevision]).toEqual([name, revision])
  })

  test('says its service account even when it is the default one [T2]', () => {
    expect(one({ spec: { serviceAccountName: 'default' } })?.serviceAccount).toBe('default')
  })

  test.each([
    ['cluster.local', ''],
    ['example.org', 'example.org'],
    ['cluster.local.', 'cluster.local.'],
  ])('of trust domain %s says %j [T1]', (domain, said) => {
    expect(room([pod('p'), mesh(`trustDomain: ${domain}\n`)]).workload(uid)?.trustDomain).toBe(said)
  })

  test.each<readonly [string, PodMade, number, boolean]>([
    ['captured', { annotations: { 'ambient.istio.io/redirection': 'enabled' } }, TunnelProtocol.HBONE, false],
    [
      'about to be captured',
      { annotations: { 'ambient.istio.io/redirection': 'pending' } },
      TunnelProtocol.NONE,
      false,
    ],
    ['speaking HBONE itself', { labels: { 'networking.istio.io/tunnel': 'http' } }, TunnelProtocol.HBONE, true],
    ['of another protocol only', { labels: { 'networking.istio.io/tunnel': 'http3' } }, TunnelProtocol.NONE, false],
  ])('%s has its tunnel [T3]', (_, made, protocol, native) => {
    const found = one(made)
    expect([found?.tunnelProtocol, found?.nativeTunnel]).toEqual([protocol, native])
  })

  test('has the locality of its node, as soon as there is one [P7]', () => {
    const made = room([pod('p'), node('n1', { app: 'x' })])
    expect(made.workload(uid)?.locality).toBeUndefined()
    const labels = { 'topology.kubernetes.io/region': 'r', 'topology.kubernetes.io/zone': 'z' }
    expect(made.apply(node('n1', labels))).toEqual({ changed: [uid], removed: [] })
    expect(made.workload(uid)?.locality).toEqual({ region: 'r', zone: 'z', subzone: '' })
    expect(made.apply(node('n1', { ...labels, heartbeat: '1' }))).toEqual({ changed: [], removed: [] })
  })

  test('on the host network shares its address with others there [P6,L4]', () => {
    const host = { ips: ['172.18.0.2'], spec: { hostNetwork: true } }
    const made = room([pod('p', host), pod('q', host)])
    expect([made.workload(uid)?.networkMode, made.workload(podUid('q'))?.networkMode]).toEqual([1, 1])
    expect(made.lookup('nw/172.18.0.2')).toEqual([uid, podUid('q')])
  })

  test('of a cluster without id and network has empty parts in its keys [N1,A3]', () => {
    const made = new Room({ clusterId: '' })
    made.apply(pod('p'))
    expect(made.names()).toEqual(['//Pod/ns1/p'])
    expect(made.lookup('/10.1.0.1')).toEqual(['//Pod/ns1/p'])
  })

  test('stays on the network of its cluster, whatever its labels or namespace say [W2]', () => {
    const other = { 'topology.istio.io/network': 'other' }
    expect(room([pod('p', { labels: other }), namespace('ns1', other)]).workload(uid)?.network).toBe('nw')
  })

  test('that was made anew under its name is told only when something differs', () => {
    const made = room([pod('p')])
    made.delete([ref(pod('p'))])
    expect(made.apply(pod('p', { uid: 'other' }))).toEqual({ changed: [], removed: [] })
  })
})
