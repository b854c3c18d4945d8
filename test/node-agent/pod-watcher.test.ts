// SPDX-License-Identifier: Apache-2.0
// What the agent does as labels, pods, namespaces and ztunnels come, change and go.

import { describe, expect, test } from '@jest/globals'
import { InvalidInput, Retryable } from '../../src/base/errors.js'
import { redirectionAnnotation } from '../../src/node-agent/contracts.js'
import { NodeRoom, ambient, inMesh, makePod, outOfMesh, type PodShape } from '../support/node-room.js'

const later = new Retryable('try again')
const marked = { [redirectionAnnotation]: 'enabled' }

/** A started room with the namespace `shop`, one ztunnel, and a running pod `web` at 10.0.0.5 in A. */
async function openRoom(labels = {}, shape: PodShape = {}, { isWrittenBack = true } = {}): Promise<NodeRoom> {
  const room = new NodeRoom().namespace('shop', labels).pod(makePod('web', { ips: ['10.0.0.5'], ...shape }), 'A')
  room.isWrittenBack = isWrittenBack
  await room.start()
  room.ztunnels.connect('z1')
  await room.advance(100)
  room.host.journal.length = 0
  room.logged.length = 0
  return room
}

describe('labels', () => {
  test('a namespace that becomes ambient takes its running pods in, once', async () => {
    const room = await openRoom()
    room.namespace('shop', ambient)
    await room.advance(1_000)
    expect(room.view('web', 'A')).toEqual(inMesh('A', '10.0.0.5'))
    expect(room.host.journal).toEqual([
      'rules into A',
      'z1 add uid-web A',
      'probe 10.0.0.5 for uid-web',
      'annotation uid-web enabled',
    ])
    await room.stop()
  })

  test('a namespace that is ambient no more lets them go', async () => {
    const room = await openRoom(ambient)
    room.namespace('shop')
    await room.settle()
    expect(room.view('web', 'A')).toEqual(outOfMesh)
    await room.stop()
  })

  test('a pod that says none, or no longer ambient, leaves', async () => {
    const room = await openRoom(ambient)
    room.change('web', { labels: { 'istio.io/dataplane-mode': 'none' } })
    await room.settle()
    expect(room.view('web', 'A')).toEqual(outOfMesh)
    room.namespace('shop')
    room.change('web', { labels: ambient })
    await room.settle()
    expect(room.view('web', 'A')).toEqual(inMesh('A', '10.0.0.5'))
    room.change('web', { labels: undefined })
    await room.settle()
    expect(room.view('web', 'A')).toEqual(outOfMesh)
    await room.stop()
  })

  test('flipped eleven times in a row, the last one counts', async () => {
    const room = await openRoom()
    for (let flip = 0; flip < 11; flip++) {
      room.namespace('shop', flip % 2 === 0 ? ambient : {})
      if (flip % 3 === 0) await room.settle()
      else room.graph.commit()
    }
    await room.advance(6_000)
    expect(room.view('web', 'A')).toEqual(inMesh('A', '10.0.0.5'))
    for (let flip = 0; flip < 9; flip++) {
      room.namespace('shop', flip % 2 === 0 ? {} : ambient)
      room.graph.commit()
    }
    await room.advance(6_000)
    expect(room.view('web', 'A')).toEqual(outOfMesh)
    await room.stop()
    expect(room.host.openHandles).toBe(0)
  })

  test('flipped while ztunnel keeps silent, nobody waits for its five seconds', async () => {
    const room = await openRoom()
    room.ztunnels.answers.set('*', 'silence')
    room.namespace('shop', ambient)
    await room.settle()
    room.namespace('shop')
    await room.settle()
    expect(room.view('web', 'A')).toEqual(outOfMesh)
    await room.stop()
  })

  test('of selectors whose answers differ by pod, a change counts for each pod though some selector matched all the time', async () => {
    const room = new NodeRoom({
      selectors: [
        {
          pod: { matchLabels: { app: 'web' }, matchExpressions: [] },
          namespace: { matchLabels: { team: 'a' }, matchExpressions: [] },
        },
        {
          pod: { matchLabels: { app: 'db' }, matchExpressions: [] },
          namespace: { matchLabels: { team: 'b' }, matchExpressions: [] },
        },
      ],
    })
    room.namespace('shop', { team: 'a' })
    room.pod(makePod('web', { ips: ['10.0.0.5'], labels: { app: 'web' } }), 'A')
    room.pod(makePod('db', { ips: ['10.0.0.6'], labels: { app: 'db' } }), 'B')
    await room.start()
    room.ztunnels.connect('z1')
    await room.advance(100)
    expect(room.ztunnels.holds()).toEqual({ 'uid-web': 'A' })
    room.namespace('shop', { team: 'b' })
    await room.advance(100)
    expect(room.ztunnels.holds()).toEqual({ 'uid-db': 'B' })
    await room.stop()
  })

  test('an excluded namespace beats labels, and other namespaces do not mind', async () => {
    const room = new NodeRoom({ excludedNamespaces: new Set(['shop']) })
      .namespace('shop', ambient)
      .namespace('free', ambient)
    room.pod(makePod('web', { ips: ['10.0.0.5'], annotations: marked }), 'A')
    room.pod(makePod('own', { ips: ['10.0.0.6'], labels: ambient }), 'B')
    room.pod(makePod('out', { ips: ['10.0.0.7'], namespace: 'free' }), 'C')
    room.host.netns('A').rules = 'old'
    await room.start()
    room.ztunnels.connect('z1')
    await room.advance(1_000)
    expect(room.view('web', 'A')).toEqual(outOfMesh)
    expect(room.view('own', 'B')).toEqual(outOfMesh)
    expect(room.view('out', 'C', 'free')).toEqual(inMesh('C', '10.0.0.7'))
    await room.stop()
  })
})

describe('discovery selectors', () => {
  const onlySeen = 'discoverySelectors: [{matchLabels: {seen: "yes"}}]'

  test('a namespace that they leave out is not enrolled, one line says so, and taken in later its running pods are', async () => {
    const room = new NodeRoom().mesh(onlySeen).namespace('shop', ambient)
    room.pod(makePod('web', { ips: ['10.0.0.5'] }), 'A').pod(makePod('db', { ips: ['10.0.0.6'] }), 'B')
    await room.start()
    room.ztunnels.connect('z1')
    await room.advance(1_000)
    expect(room.view('web', 'A')).toEqual(outOfMesh)
    const said = room.lines('info').filter(({ message }) => message.includes('discovery selectors'))
    expect(said.map(({ fields }) => fields)).toEqual([{ namespace: 'shop', setting: 'meshConfig.discoverySelectors' }])
    room.namespace('shop', { ...ambient, seen: 'yes' })
    await room.advance(1_000)
    expect(room.view('web', 'A')).toEqual(inMesh('A', '10.0.0.5'))
    expect(room.view('db', 'B')).toEqual(inMesh('B', '10.0.0.6'))
    await room.stop()
  })

  test('when they change, every namespace is looked at anew; a broken text leaves those that were in force', async () => {
    const room = await openRoom(ambient)
    room.mesh(onlySeen)
    await room.settle()
    expect(room.view('web', 'A')).toEqual(outOfMesh)
    room.mesh('discoverySelectors: {')
    await room.settle()
    expect(room.view('web', 'A')).toEqual(outOfMesh)
    room.mesh('')
    await room.settle()
    expect(room.view('web', 'A')).toEqual(inMesh('A', '10.0.0.5'))
    await room.stop()
  })
})

describe('addresses', () => {
  test('a pod without one waits until it has one', async () => {
    const room = await openRoom(ambient, { ips: [] })
    await room.advance(600_000)
    expect(room.host.journal).toEqual([])
    room.change('web', { ips: ['10.0.0.8'] })
    await room.advance(1_000)
    expect(room.view('web', 'A')).toEqual(inMesh('A', '10.0.0.8'))
    await room.stop()
  })

  test('one that changes is followed by the probe set, the old one leaves it, and nothing else happens', async () => {
    const room = await openRoom(ambient)
    room.change('web', { ips: ['10.0.0.9'] })
    await room.settle()
    expect(room.view('web', 'A')).toEqual(inMesh('A', '10.0.0.9'))
    expect(room.host.journal.filter((line) => !line.startsWith('probe'))).toEqual([])
    room.host.journal.length = 0
    room.change('web', { ready: false })
    await room.settle()
    room.change('web', { ips: [] })
    await room.settle()
    expect(room.host.journal).toEqual([])
    expect([...room.probeSet.entries]).toEqual([['10.0.0.9', 'uid-web']])
    await room.stop()
  })

  test('those of the runtime count until the object says something new', async () => {
    const room = await openRoom(ambient)
    room.host.addNetns('B')
    await room.add('web', 'B', ['10.0.0.6'])
    room.change('web', { ready: false }) // the address in it is still that of the sandbox before
    await room.advance(1_000)
    expect([...room.probeSet.entries]).toEqual([['10.0.0.6', 'uid-web']])
    room.change('web', { ips: ['10.0.0.7'] })
    await room.settle()
    expect([...room.probeSet.entries]).toEqual([['10.0.0.7', 'uid-web']])
    await room.stop()
  })
})

describe('failures', () => {
  test('one that may pass is tried again without end, with growing pauses of at most five seconds', async () => {
    const room = await openRoom()
    room.ztunnels.answers.set('*', { error: 'not yet' })
    room.namespace('shop', ambient)
    await room.advance(60_000)
    const tries = room.host.journal.filter((line) => line === 'z1 add uid-web A').length
    expect(tries).toBeGreaterThan(20)
    expect(tries).toBeLessThan(40)
    expect(room.annotation('web')).toBe('pending')
    expect(room.annotator.patches).toEqual(['uid-web pending'])
    room.ztunnels.answers.clear()
    await room.advance(5_000)
    expect(room.view('web', 'A')).toEqual(inMesh('A', '10.0.0.5'))
    await room.stop()
  })

  test('one that will not pass is tried once, marks nothing, and is looked at again by the regular check', async () => {
    const room = await openRoom()
    room.rules.failApply.set('A', new InvalidInput('the kernel says no'))
    room.namespace('shop', ambient)
    await room.advance(2_000)
    expect(room.host.journal).toEqual(['rules into A'])
    expect(room.annotator.patches).toEqual([])
    room.rules.failApply.clear()
    await room.advance(60_000)
    expect(room.view('web', 'A')).toEqual(inMesh('A', '10.0.0.5'))
    await room.stop()
  })

  test('without any ztunnel pods are pending, and within a second of its coming they are enrolled', async () => {
    const room = await openRoom()
    room.ztunnels.close('z1')
    room.namespace('shop', ambient)
    await room.advance(60_000)
    expect(room.view('web', 'A')).toEqual({ rules: 'ours', ztunnel: 'nothing', probes: [], annotation: 'pending' })
    room.ztunnels.connect('z2')
    await room.advance(1_000)
    expect(room.view('web', 'A')).toEqual(inMesh('A', '10.0.0.5'))
    await room.stop()
  })

  test('without any ztunnel one warning says so after half a minute, and each pod what is wanted for it', async () => {
    const room = new NodeRoom().namespace('shop', ambient).pod(makePod('web', { ips: ['10.0.0.5'] }), 'A')
    await room.start()
    await room.advance(29_000)
    const missed = (): number => room.lines('warn').filter((l) => l.message === 'no ztunnel is connected yet').length
    expect(missed()).toBe(0)
    const [line] = room.lines('warn').filter(({ message }) => message.startsWith('a pod is not where it should be'))
    expect(line?.fields).toMatchObject({ pod: 'shop/web', wanted: 'in the mesh' })
    expect([String(line?.fields.hint), Number.isInteger(line?.fields.pauseMs)]).toEqual([
      expect.stringContaining('ztunnel'),
      true,
    ])
    await room.advance(100_000)
    expect(missed()).toBe(1)
    await room.stop()
  })

  test('a removal that fails for a finished pod is tried again, and the pod never comes back', async () => {
    const room = await openRoom(ambient)
    room.ztunnels.removeError = later
    room.change('web', { phase: 'Succeeded', ips: [] })
    await room.advance(1_000)
    expect(room.ztunnels.holds()).toEqual({ 'uid-web': 'A' })
    expect(room.probeSet.entries.size).toBe(0)
    room.ztunnels.removeError = undefined
    await room.advance(10_000)
    expect(room.ztunnels.holds()).toEqual({})
    expect(room.annotation('web')).toBeUndefined()
    await room.advance(120_000)
    expect(room.host.journal.filter((line) => line.includes('add uid-web'))).toEqual([])
    await room.stop()
    expect(room.host.openHandles).toBe(0)
  })

  test('a pod whose only process is on the network of the host is not enrolled, and the log says why', async () => {
    const room = await openRoom()
    room.pod(makePod('bad', { ips: ['10.0.0.6'], labels: ambient }))
    room.host.setProcess('uid-bad', 'host')
    await room.advance(1_000)
    expect(room.annotation('bad')).toBeUndefined()
    const [line] = room.lines('warn')
    expect(line?.fields.pod).toBe('shop/bad')
    expect(String(line?.fields.error)).toContain('no process of this pod was seen in a network namespace of its own')
    room.pod(makePod('lost', { ips: ['10.0.0.7'], labels: ambient }))
    room.host.setProcess('uid-lost', 'elsewhere')
    await room.advance(1_000)
    expect(String(room.lines('warn')[1]?.fields.error)).toContain('none of their network namespaces has its address')
    await room.stop()
  })
})

describe('pods that come and go', () => {
  test('one that is deleted is let go of, with its place in ztunnel and in the probe set', async () => {
    const room = await openRoom(ambient)
    room.deletePod('web')
    await room.settle()
    expect(room.ztunnels.holds()).toEqual({})
    expect(room.probeSet.entries.size).toBe(0)
    expect(room.host.openHandles).toBe(0)
    await room.stop()
  })

  test('one that is missing in a new list is let go of too, and no later snapshot names it', async () => {
    const room = await openRoom(ambient)
    room.pod(makePod('db', { ips: ['10.0.0.6'] }), 'B')
    await room.advance(1_000)
    const rows = new Map(
      [...room.inputs.Pod.values()].filter(({ name }) => name === 'db').map((row) => ['c/shop/db', row]),
    )
    room.inputs.Pod.replace(rows)
    await room.settle()
    expect(room.ztunnels.holds()).toEqual({ 'uid-db': 'B' })
    room.ztunnels.close('z1')
    room.ztunnels.messages.length = 0
    room.ztunnels.connect('z2')
    expect(room.ztunnels.messages).toEqual(['z2 add uid-db B', 'z2 snapshot sent'])
    await room.stop()
  })

  test('one that is replaced under its name is two pods: the old one goes, the new one comes', async () => {
    const room = await openRoom(ambient)
    room.pod(makePod('web', { uid: 'uid-new', ips: ['10.0.0.5'] }), 'B')
    await room.advance(1_000)
    expect(room.ztunnels.holds()).toEqual({ 'uid-new': 'B' })
    expect([...room.probeSet.entries]).toEqual([['10.0.0.5', 'uid-new']])
    expect(room.annotation('web')).toBe('enabled')
    await room.stop()
    expect(room.host.openHandles).toBe(0)
  })

  test('one that is told to terminate keeps everything until it has ended', async () => {
    const room = await openRoom(ambient)
    room.change('web', { deleting: true })
    await room.advance(1_000)
    expect(room.host.journal).toEqual([])
    expect(room.view('web', 'A')).toEqual(inMesh('A', '10.0.0.5'))
    await room.stop()
  })

  test('one that appears with an address is left to the plugin for a moment, and then enrolled all the same', async () => {
    const room = await openRoom(ambient)
    room.pod(makePod('db', { ips: ['10.0.0.6'] }), 'B')
    await room.settle()
    expect(room.host.journal).toEqual([])
    await room.advance(1_000)
    expect(room.view('db', 'B')).toEqual(inMesh('B', '10.0.0.6'))
    await room.stop()
  })

  test('an enrolled pod is not touched by an event from before its mark', async () => {
    const room = await openRoom(ambient)
    const row = room.inputs.Pod.get('c/shop/web')
    room.change('web', { annotations: undefined, ready: false })
    room.graph.commit()
    if (row !== undefined) room.pod(row)
    await room.advance(1_000)
    expect(room.host.journal.filter((line) => !line.startsWith('annotation'))).toEqual([])
    await room.stop()
  })

  test('a mark that somebody takes away is written again', async () => {
    const room = await openRoom(ambient)
    room.change('web', { annotations: undefined })
    await room.advance(1_000)
    expect(room.host.journal).toEqual(['annotation uid-web enabled'])
    expect(room.annotation('web')).toBe('enabled')
    await room.stop()
  })

  test('pods on the host network, pods with a sidecar and pods of other nodes are never taken', async () => {
    const room = await openRoom(ambient, { hostNetwork: true })
    room.pod(makePod('side', { ips: ['10.0.0.6'], annotations: { 'sidecar.istio.io/status': '{}' } }), 'B')
    room.pod(makePod('far', { ips: ['10.0.0.7'], node: 'node-2', labels: ambient }), 'C')
    await room.advance(200_000)
    expect(room.host.journal).toEqual([])
    await room.stop()
  })

  test('annotations about rules that change on a running pod are followed', async () => {
    const room = await openRoom(ambient)
    room.change('web', { annotations: { ...marked, 'addressd.io/exclude-inbound-ports': '9090' } })
    await room.settle()
    expect(room.host.netns('A').rules).toMatchObject({ excludedInboundPorts: [9090] })
    room.change('web', { annotations: { ...marked, 'istio.io/reroute-virtual-interfaces': '-j' } })
    await room.settle()
    expect(room.view('web', 'A')).toEqual(inMesh('A', '10.0.0.5'))
    await room.stop()
  })

  test('they are followed just so where nothing is written back and no mark ever shows', async () => {
    const room = await openRoom(ambient, {}, { isWrittenBack: false })
    room.change('web', { annotations: { 'addressd.io/exclude-inbound-ports': '9090' } })
    await room.settle()
    expect(room.host.netns('A').rules).toMatchObject({ excludedInboundPorts: [9090] })
    room.change('web', { annotations: { 'addressd.io/exclude-inbound-ports': '9100' } })
    await room.settle()
    expect(room.host.netns('A').rules).toMatchObject({ excludedInboundPorts: [9100] })
    room.change('web', { annotations: undefined })
    await room.settle()
    expect(room.host.netns('A').rules).toMatchObject({ excludedInboundPorts: [] })
    await room.stop()
  })

  test('one that is wrong leaves the rules and is told once with pod, annotation and value; a good change is told too', async () => {
    const room = await openRoom(ambient)
    const ports = (value: string): void => {
      room.change('web', { annotations: { ...marked, 'addressd.io/exclude-inbound-ports': value } })
    }
    ports('9100')
    await room.settle()
    const followed = room.lines('info').filter(({ message }) => message === 'the rules of a pod follow its annotations')
    expect(followed.map(({ fields }) => fields)).toMatchObject([
      { pod: 'shop/web', options: { excludedInboundPorts: [9100] } },
    ])
    ports('99999')
    await room.advance(130_000)
    const name = 'addressd.io/exclude-inbound-ports'
    const warning = `pod shop/web: annotation ${name}: "99999" is no port; write a number from 1 to 65535`
    const said = {
      level: 'warn',
      fields: { pod: 'shop/web', warning },
      message: 'an annotation of a pod is not followed',
    }
    expect(room.lines('warn')).toEqual([said])
    expect(room.host.netns('A').rules).toMatchObject({ excludedInboundPorts: [9100] })
    ports('9100')
    await room.settle()
    ports('99999')
    await room.settle()
    expect(room.lines('warn')).toEqual([said, said])
    room.change('web', { annotations: { ...marked, 'ambient.istio.io/dns-capture': 'perhaps' } })
    await room.settle()
    await room.advance(70_000)
    expect(
      room
        .lines('warn')
        .slice(2)
        .map(({ fields }) => fields),
    ).toEqual([
      {
        pod: 'shop/web',
        warning: 'annotation ambient.istio.io/dns-capture is ignored: "perhaps" is not a boolean; write true or false',
      },
    ])
    await room.stop()
  })

  test('annotations that change together with the address are followed at once', async () => {
    const room = await openRoom(ambient)
    room.change('web', { ips: ['10.0.0.6'], annotations: { ...marked, 'addressd.io/exclude-inbound-ports': '9090' } })
    await room.settle()
    expect(room.view('web', 'A')).toEqual(inMesh('A', '10.0.0.6'))
    expect(room.host.netns('A').rules).toMatchObject({ excludedInboundPorts: [9090] })
    await room.stop()
  })

  test('each change and each repeated try is counted by its kind', async () => {
    const room = await openRoom(ambient)
    const events = async (): Promise<Record<string, number>> => {
      const metric = room.registry.getSingleMetric('nodeagent_reconcile_events_total')
      const { values } = (await metric?.get()) ?? { values: [] }
      return Object.fromEntries(values.map(({ labels, value }) => [String(labels.type), value]))
    }
    const before = await events()
    room.deletePod('web')
    await room.settle()
    expect(await events()).toEqual({ ...before, delete: 1 })
    await room.stop()
  })
})
