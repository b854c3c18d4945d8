// SPDX-License-Identifier: Apache-2.0
// A real ztunnel beside our agent: it serves the namespaces that the agent enrolled, drops those that it released, and ends with exactly the right set
// whoever of the two is killed, restarted or replaced.

import { afterEach, describe, expect } from '@jest/globals'
import { NetnsCaller } from '../support/netns-caller.js'
import { testWith } from '../support/optional.js'
import { addressOf } from '../support/traffic-room.js'
import { LocalZtunnels } from './local-ztunnel.js'
import { expectReady } from './room.js'
import { inMesh, NodePlace, type PlacedPod, whyNoNode } from './node-place.js'
import { listSockets, servedSockets } from './served-sockets.js'
import { until, whyNoZtunnel, type Ztunnel } from './ztunnel.js'
import type { NetSpace } from './net-space.js'

const maybe = testWith('ztunnel', whyNoZtunnel() ?? whyNoNode())

let place: NodePlace
let ztunnels: LocalZtunnels
let isOpen = false
let thief: NetnsCaller | undefined
afterEach(async () => {
  thief?.close()
  thief = undefined
  if (!isOpen) return
  isOpen = false
  await ztunnels.close()
  await place.close()
})

async function open(env: Readonly<Record<string, string>> = {}): Promise<void> {
  place = await NodePlace.open(env)
  const known = [place.podA, place.podB].map(({ name, ips }) => ({ name, ips, protocol: 'TCP' as const }))
  const service = { name: 'svc', hostname: 'svc.example.com', vips: ['10.96.0.50'], ports: { 80: 8080 } }
  ztunnels = new LocalZtunnels(known, [service], place.zds)
  isOpen = true
}

async function startZtunnel(space?: NetSpace): Promise<Ztunnel> {
  const ztunnel = await ztunnels.start({}, space)
  place.showProcess(ztunnel.pid)
  return ztunnel
}

/** uid to state. */
async function states(ztunnel: Ztunnel): Promise<Record<string, string>> {
  return Object.fromEntries(Object.entries(await ztunnel.served()).map(([uid, { state }]) => [uid, state]))
}

/** Exactly these pods, all of them up. */
async function expectServed(ztunnel: Ztunnel, ...pods: readonly PlacedPod[]): Promise<void> {
  const wanted = Object.fromEntries(pods.map(({ uid }) => [uid, 'Up']))
  const sorted = (set: Record<string, string>): string => JSON.stringify(Object.entries(set).sort())
  await until(
    async () => sorted(await states(ztunnel)) === sorted(wanted),
    () => `what ztunnel serves; the agent's last words:\n${place.lastWords()}`,
  ).catch(async (error: unknown) => {
    expect(await states(ztunnel)).toEqual(wanted)
    throw error
  })
}

const started = (ztunnel: Ztunnel): Promise<number> => ztunnel.metric('workload_manager_proxies_started_total')
const stopped = (ztunnel: Ztunnel): Promise<number> => ztunnel.metric('workload_manager_proxies_stopped_total')

/** Where a call from a pod to the host outside gets, and as whom. */
async function callOut(from: 'podA' | 'podB' = 'podA', family: 4 | 6 = 4): Promise<unknown> {
  const { lands, sourceSeen, error } = await place.room.at(from).call({ dst: addressOf('outside', family), port: 80 })
  return error ?? { lands, sourceSeen }
}
const arrived = (from: 'podA' | 'podB' = 'podA', family: 4 | 6 = 4): unknown => ({
  lands: 'outside:80',
  sourceSeen: addressOf(from, family),
})

/** Rules that lead to a ztunnel in the pod. */
const hasRules = ({ netns }: PlacedPod): boolean => netns.run(['nft', 'list', 'ruleset']).includes('15001')

/** Starts the agent and a ztunnel and has both pods in the mesh. */
async function startWithBoth(): Promise<Ztunnel> {
  await open()
  await place.startAgent()
  const ztunnel = await startZtunnel()
  for (const pod of [place.podA, place.podB]) place.putPod(pod, inMesh)
  for (const pod of [place.podA, place.podB]) await place.untilMarked(pod, 'enabled')
  await expectServed(ztunnel, place.podA, place.podB)
  return ztunnel
}

describe('a real ztunnel beside our agent', () => {
  maybe('is ready on an empty node, and serves a pod before its plugin has ended', async () => {
    await open()
    await place.startAgent()
    const ztunnel = await startZtunnel()
    await expectReady(ztunnel)
    expect(await states(ztunnel)).toEqual({})

    const { podA } = place
    place.putPod(podA, inMesh, false)
    const { exitCode, stdout } = await place.runPlugin('ADD', podA)
    expect({ exitCode, served: await states(ztunnel), sockets: listSockets(podA.netns) }).toEqual({
      exitCode: 0,
      served: { [podA.uid]: 'Up' },
      sockets: servedSockets,
    })
    expect(JSON.parse(stdout)).toMatchObject({ cniVersion: '1.0.0' })
    expect((await ztunnel.served())[podA.uid]?.info).toEqual({
      name: 'pod-a',
      namespace: 'default',
      serviceAccount: 'default',
    })
    place.confirmRunning(podA)
    await place.untilMarked(podA, 'enabled')
    expect([await callOut(), await callOut('podA', 6)]).toEqual([arrived(), arrived('podA', 6)])
    const question = { dst: addressOf('outside'), question: 'svc.example.com', over: 'udp' } as const
    expect(await place.room.at('podA').resolve(question)).toMatchObject({ rcode: 0, address: '10.96.0.50' })
    // A connection that went past it would not be there.
    await until(
      async () => (await ztunnel.metric('istio_tcp_connections_opened_total', { reporter: 'source' })) === 2,
      () => 'two connections in its books',
    )

    place.deletePod(podA)
    expect((await place.runPlugin('DEL', podA)).exitCode).toBe(0)
    await expectServed(ztunnel)
    expect(listSockets(podA.netns)).toEqual([])
    expect(await started(ztunnel)).toBe(1)
    expect(await stopped(ztunnel)).toBe(1)
  })

  const backends = {
    netlink: { NATIVE_NFTABLES: 'true' },
    'iptables-nft': { NATIVE_NFTABLES: 'false', FORCE_IPTABLES_BINARY: 'nft' },
  }
  maybe.each(Object.entries(backends))('serves a running pod as long as its label says so, by %s', async (_, env) => {
    await open(env)
    await place.startAgent()
    const ztunnel = await startZtunnel()
    const { podB } = place
    place.putPod(podB, {})
    await expectReady(ztunnel)
    expect(await states(ztunnel)).toEqual({})
    for (const turn of [1, 2]) {
      place.label(podB, inMesh)
      await place.untilMarked(podB, 'enabled')
      await expectServed(ztunnel, podB)
      expect(listSockets(podB.netns)).toEqual(servedSockets)
      expect(await callOut('podB')).toEqual(arrived('podB'))
      place.label(podB, { 'istio.io/dataplane-mode': null })
      await place.untilMarked(podB, undefined)
      await expectServed(ztunnel)
      expect({ sockets: listSockets(podB.netns), rules: hasRules(podB) }).toEqual({ sockets: [], rules: false })
      expect(await callOut('podB')).toEqual(arrived('podB'))
      expect(await started(ztunnel)).toBe(turn)
    }
  })

  maybe('that was killed and comes back has exactly what is in the mesh by then', async () => {
    const first = await startWithBoth()
    const { podA, podB } = place
    first.signal('SIGKILL')
    expect(await first.ended()).toBe('SIGKILL')
    expect(listSockets(podA.netns)).toEqual([])
    expect(await callOut()).toBe('ECONNREFUSED')
    place.label(podB, { 'istio.io/dataplane-mode': null })
    await place.untilMarked(podB, undefined)
    const podC = place.addPod('pod-c', '10.244.3.5')
    place.putPod(podC, inMesh)

    const second = await startZtunnel(first.space)
    await expectServed(second, podA, podC)
    await expectReady(second)
    await place.untilMarked(podC, 'enabled')
    expect([podA, podB, podC].map(({ netns }) => listSockets(netns))).toEqual([
      servedSockets,
      [],
      [
        'tcp *:15001',
        'tcp *:15006',
        'tcp *:15008',
        'tcp 127.0.0.1:15053',
        'tcp [::1]:15053',
        'udp 127.0.0.1:15053',
        'udp [::1]:15053',
      ],
    ])
    expect([await started(second), await stopped(second)]).toEqual([2, 0])
    expect([await callOut(), await callOut('podB')]).toEqual([arrived(), arrived('podB')])
  })

  maybe('is replaced by another, which has every new connection while the old ones live on', async () => {
    const old = await startWithBoth()
    const { podA, podB } = place
    await place.room.at('podA').call({ dst: addressOf('outside'), port: 80, keepAs: 'through the old one' })
    const next = await startZtunnel()
    await expectServed(next, podA, podB)
    expect(listSockets(podA.netns)).toEqual(servedSockets.flatMap((socket) => [socket, socket]))

    // A pod that joins now is the newer one's alone; one that leaves leaves both.
    const podC = place.addPod('pod-c', '10.244.3.5')
    place.putPod(podC, inMesh)
    await expectServed(next, podA, podB, podC)
    await expectServed(old, podA, podB)
    place.deletePod(podB)
    await expectServed(next, podA, podC)
    await expectServed(old, podA)

    old.signal('SIGTERM')
    await until(
      () => Promise.resolve(listSockets(podA.netns).length === servedSockets.length),
      () => 'the old one to close its ports',
    )
    const calls = await Promise.all(Array.from({ length: 20 }, () => callOut()))
    expect(new Set(calls.map((call) => JSON.stringify(call)))).toEqual(new Set([JSON.stringify(arrived())]))
    expect(await place.room.at('podA').carries('through the old one')).toBe(true)
    expect(await old.ended()).toBe(0)
    expect(listSockets(podA.netns)).toEqual(servedSockets)
    expect(await callOut()).toEqual(arrived())
    expect(await started(next)).toBe(3)
  })

  maybe('is told what it missed when the newer one dies', async () => {
    const old = await startWithBoth()
    const { podA, podB } = place
    const next = await startZtunnel()
    await expectServed(next, podA, podB)
    const podC = place.addPod('pod-c', '10.244.3.5')
    place.putPod(podC, inMesh)
    await place.untilMarked(podC, 'enabled')
    await expectServed(old, podA, podB)
    next.signal('SIGKILL')
    await expectServed(old, podA, podB, podC)
    expect(listSockets(podC.netns)).toHaveLength(7)
    expect([await started(old), await stopped(old)]).toEqual([3, 0])
  })

  maybe('keeps every proxy and every connection while the agent is away and when it comes back', async () => {
    const ztunnel = await startWithBoth()
    const { podA, podB } = place
    await place.room.at('podA').call({ dst: addressOf('outside'), port: 80, keepAs: 'across' })
    await place.stopAgent()
    await until(
      async () => (await ztunnel.readiness()) === 500,
      () => 'ztunnel to miss its agent',
    )
    expect(await callOut()).toEqual(arrived())
    expect(listSockets(podA.netns)).toEqual(servedSockets)

    await place.startAgent()
    await expectReady(ztunnel)
    await expectServed(ztunnel, podA, podB)
    expect([await started(ztunnel), await stopped(ztunnel)]).toEqual([2, 0])
    expect(await place.room.at('podA').carries('across')).toBe(true)

    // What happened while it was away is made good, and nothing else.
    await place.stopAgent()
    place.deletePod(podB)
    const podC = place.addPod('pod-c', '10.244.3.5')
    place.putPod(podC, inMesh)
    await place.startAgent()
    await expectServed(ztunnel, podA, podC)
    await place.untilMarked(podC, 'enabled')
    expect([await started(ztunnel), await stopped(ztunnel)]).toEqual([3, 1])
    expect(await place.room.at('podA').carries('across')).toBe(true)
  })

  maybe('keeps every proxy when the agent is killed, whatever it was at', async () => {
    await open()
    await place.startAgentProgram()
    const ztunnel = await startZtunnel()
    const { podA, podB } = place
    for (const pod of [podA, podB]) place.putPod(pod, inMesh)
    for (const pod of [podA, podB]) await place.untilMarked(pod, 'enabled')
    await place.room.at('podA').call({ dst: addressOf('outside'), port: 80, keepAs: 'across' })
    await place.killAgentProgram()
    expect(await callOut()).toEqual(arrived())

    place.deletePod(podB)
    await place.startAgentProgram()
    await expectServed(ztunnel, podA)
    // As soon as anything is seen of the next enrolment the agent is gone.
    const podC = place.addPod('pod-c', '10.244.3.5')
    place.putPod(podC, inMesh)
    await until(
      () => Promise.resolve(hasRules(podC)),
      () => 'rules in pod C',
    )
    await place.killAgentProgram()
    await place.startAgentProgram()
    await place.untilMarked(podC, 'enabled')
    await expectServed(ztunnel, podA, podC)
    await expectReady(ztunnel)
    expect(listSockets(podC.netns)).toEqual(servedSockets)
    expect([await started(ztunnel), await stopped(ztunnel)]).toEqual([3, 1])
    expect(await place.room.at('podA').carries('across')).toBe(true)
  })

  maybe('that cannot have a port in a pod gets there when the port is free, and other pods do not wait', async () => {
    await open()
    await place.startAgent()
    const ztunnel = await startZtunnel()
    const { podA, podB } = place
    thief = await NetnsCaller.start(podA.netns, 'thief')
    await thief.listen(15008)
    place.putPod(podA, inMesh)
    await until(
      async () =>
        ztunnel.lines.some((line) => line.includes('failed to start proxy')) ||
        (await states(ztunnel))[podA.uid] === 'Pending',
      () => `a failed start:\n${ztunnel.lines.slice(-5).join('\n')}`,
    )
    place.putPod(podB, inMesh)
    await place.untilMarked(podB, 'enabled')
    expect(await callOut('podB')).toEqual(arrived('podB'))
    expect(place.annotationOf(podA)).not.toBe('enabled')

    thief.close()
    await place.untilMarked(podA, 'enabled')
    await expectServed(ztunnel, podA, podB)
    await expectReady(ztunnel)
    expect(listSockets(podA.netns)).toEqual(servedSockets)
    expect(await callOut()).toEqual(arrived())
  })

  maybe('that stands still loses its connection and nothing else, and catches up', async () => {
    const ztunnel = await startWithBoth()
    const { podA, podB } = place
    ztunnel.signal('SIGSTOP')
    const podC = place.addPod('pod-c', '10.244.3.5')
    place.putPod(podC, inMesh)
    await until(
      () => Promise.resolve(place.node.parts?.zds.connected === 0),
      () => `the agent to give it up:\n${place.lastWords()}`,
    )
    place.deletePod(podB)
    ztunnel.signal('SIGCONT')
    await expectServed(ztunnel, podA, podC)
    await place.untilMarked(podC, 'enabled')
    expect(await callOut()).toEqual(arrived())
  })
})
