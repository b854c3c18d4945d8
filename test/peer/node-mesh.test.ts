// SPDX-License-Identifier: Apache-2.0
// The whole way on one node: pods that our agent enrols are marked at the API server, our control plane serves them as HBONE because of the mark, and a real
// ztunnel that has both of us carries what one says to the other, encrypted with our certificates, and answers names of services.

import { afterEach, describe, expect } from '@jest/globals'
import type { KubeObject } from '../address/room.js'
import { testWith } from '../support/optional.js'
import { addressOf } from '../support/traffic-room.js'
import { localNode } from './local-ztunnel.js'
import { inMesh, NodePlace, whyNoNode, type PlacedPod } from './node-place.js'
import { expectReady, Room } from './room.js'
import { until, whyNoZtunnel, type Ztunnel } from './ztunnel.js'

const maybe = testWith('ztunnel', whyNoZtunnel() ?? whyNoNode())

let place: NodePlace
let room: Room
let isOpen = false
afterEach(async () => {
  if (!isOpen) return
  isOpen = false
  await room.close()
  await place.close()
})

const serviceIp = '10.96.0.50'
const objects: readonly KubeObject[] = [
  { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'istio-system' } },
  {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'ztunnel-n1', namespace: 'istio-system', uid: 'uid-of-ztunnel-n1' },
    spec: { nodeName: localNode, serviceAccountName: 'ztunnel', containers: [{ name: 'main' }] },
    status: { phase: 'Running', podIP: '10.244.9.9', podIPs: [{ ip: '10.244.9.9' }] },
  },
  {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'svc', namespace: 'default' },
    spec: {
      clusterIP: serviceIp,
      clusterIPs: [serviceIp],
      selector: { app: 'pod-b' },
      ports: [{ name: 'tcp', port: 80, targetPort: 8080 }],
    },
  },
]

let podA: PlacedPod
let podB: PlacedPod

/** Control plane, agent and ztunnel on a node whose pods run outside the mesh. */
async function start(): Promise<Ztunnel> {
  place = await NodePlace.open()
  podA = { ...place.podA, serviceAccount: 'account-a' }
  podB = { ...place.podB, serviceAccount: 'account-b' }
  place.api.upsert(...(objects as never[]))
  room = await Room.open([], { api: place.createApi(), env: { CA_TRUSTED_NODE_ACCOUNTS: 'istio-system/ztunnel' } })
  isOpen = true
  const secret = place.api.get('Secret', 'istio-system', 'istio-ca-secret') as { data?: Record<string, string> }
  room.apiRoot = Buffer.from(secret.data?.['ca-cert.pem'] ?? '', 'base64').toString()
  await place.startAgent({ XDS_ADDRESS: `http://127.0.0.1:${String(room.server.bound.grpc?.port)}` })
  const self = { name: 'ztunnel-n1', uid: 'uid-of-ztunnel-n1' }
  const ztunnel = room.startZtunnel(await room.openSpace(), {
    PROXY_MODE: 'shared',
    NODE_NAME: localNode,
    INPOD_UDS: place.zds,
    SERVICE_ACCOUNT: 'ztunnel',
    POD_NAME: self.name,
    AUTH_TOKEN: await room.token('istio-system', 'ztunnel', self),
    ALT_XDS_HOSTNAME: 'istiod.istio-system.svc',
    ALT_CA_HOSTNAME: 'istiod.istio-system.svc',
    ENABLE_ORIG_SRC: 'true',
    IPV6_ENABLED: 'true',
  })
  place.showProcess(ztunnel.pid)
  await expectReady(ztunnel)
  return ztunnel
}

/** The protocol in which ztunnel believes that the pods are reached. */
async function expectProtocols(ztunnel: Ztunnel, wanted: Readonly<Record<string, string>>): Promise<void> {
  const read = async (): Promise<Record<string, string>> => {
    const { workloads } = (await ztunnel.held()) as { workloads: readonly { name: string; protocol: string }[] }
    return Object.fromEntries(workloads.flatMap(({ name, protocol }) => (name in wanted ? [[name, protocol]] : [])))
  }
  await until(
    async () => JSON.stringify(await read()) === JSON.stringify(wanted),
    () => 'the protocols',
  ).catch(async (error: unknown) => {
    expect(await read()).toEqual(wanted)
    throw error
  })
}

interface Seen {
  readonly lands: string | undefined
  readonly sourceSeen: string | undefined
  readonly error: string | undefined
  readonly crossed: readonly string[]
}

async function call(dst: string, port: number): Promise<Seen> {
  place.room.forgetConnections()
  const { lands, sourceSeen, error } = await place.room.at('podA').call({ dst, port })
  return { lands, sourceSeen, error, crossed: place.room.connectionsSeen() }
}

const answered = (crossed: readonly string[], family: 4 | 6 = 4): Seen => ({
  lands: 'podB:8080',
  sourceSeen: addressOf('podA', family),
  error: undefined,
  crossed,
})

describe('a node with our control plane, our agent and a real ztunnel', () => {
  maybe('carries what one enrolled pod says to another, encrypted', async () => {
    const ztunnel = await start()
    place.putPod(podB, {})
    place.putPod(podA, inMesh, false)
    expect((await place.runPlugin('ADD', podA)).exitCode).toBe(0)
    place.confirmRunning(podA)
    place.label(podB, inMesh)
    for (const pod of [podA, podB]) await place.untilMarked(pod, 'enabled')
    await expectProtocols(ztunnel, { 'pod-a': 'HBONE', 'pod-b': 'HBONE' })

    const [a4, b4, b6] = [addressOf('podA'), addressOf('podB'), addressOf('podB', 6)]
    expect(await call(b4, 8080)).toEqual(answered([`${a4} -> ${b4}:15008`]))
    expect(await call(b6, 8080)).toEqual(answered([`${addressOf('podA', 6)} -> ${b6}:15008`], 6))
    // The tunnel to that address is open already.
    expect(await call(serviceIp, 80)).toEqual(answered([]))
    await until(
      async () =>
        (await ztunnel.metric('istio_tcp_connections_opened_total', {
          reporter: 'destination',
          connection_security_policy: 'mutual_tls',
          source_principal: 'spiffe://cluster.local/ns/default/sa/account-a',
          destination_principal: 'spiffe://cluster.local/ns/default/sa/account-b',
        })) === 3,
      () => 'three encrypted connections in its books',
    )
  })

  maybe('answers a pod in the mesh the names of services, wherever the pod asks', async () => {
    await start()
    place.putPod(podA, inMesh)
    await place.untilMarked(podA, 'enabled')
    const ask = (question: string, over: 'udp' | 'tcp'): Promise<unknown> =>
      place.room.at('podA').resolve({ dst: addressOf('outside'), question, over })
    for (const over of ['udp', 'tcp'] as const) {
      await until(
        async () => ((await ask('svc.default.svc.cluster.local', over)) as { answered: boolean }).answered,
        () => `an answer over ${over}`,
      )
      expect(await ask('svc.default.svc.cluster.local', over)).toMatchObject({ rcode: 0, address: serviceIp })
    }
  })

  maybe('speaks plaintext to a pod that left the mesh', async () => {
    const ztunnel = await start()
    for (const pod of [podA, podB]) place.putPod(pod, inMesh)
    for (const pod of [podA, podB]) await place.untilMarked(pod, 'enabled')
    await expectProtocols(ztunnel, { 'pod-a': 'HBONE', 'pod-b': 'HBONE' })
    expect(await call(addressOf('podB'), 8080)).toMatchObject({ lands: 'podB:8080' })
    place.label(podB, { 'istio.io/dataplane-mode': null })
    await place.untilMarked(podB, undefined)
    await expectProtocols(ztunnel, { 'pod-a': 'HBONE', 'pod-b': 'TCP' })
    const [a4, b4] = [addressOf('podA'), addressOf('podB')]
    expect(await call(b4, 8080)).toEqual(answered([`${a4} -> ${b4}:8080`]))
  })

  maybe('confirms to the agent that its pods are served as HBONE', async () => {
    await start()
    for (const pod of [podA, podB]) place.putPod(pod, inMesh)
    for (const pod of [podA, podB]) await place.untilMarked(pod, 'enabled')
    const wanted = ['addressd_node_unconfirmed_pods 0', 'addressd_node_pod_confirmations_total{result="served"} 2']
    const listed = async (): Promise<readonly string[]> => (await place.node.registry.metrics()).split('\n')
    await until(
      async () => (await listed()).filter((line) => wanted.includes(line)).length === wanted.length,
      () => `two confirmed pods; the agent's last words:\n${place.lastWords()}`,
    )
  })
})
