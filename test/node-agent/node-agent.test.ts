// SPDX-License-Identifier: Apache-2.0
// The start of the agent on a node that others have worked on, its regular look, readiness, and its end.

import { describe, expect, test } from '@jest/globals'
import { InvalidInput, Retryable } from '../../src/base/errors.js'
import { redirectionAnnotation } from '../../src/node-agent/contracts.js'
import { sweepMs } from '../../src/node-agent/sweep.js'
import { NodeRoom, ambient, inMesh, makePod, outOfMesh } from '../support/node-room.js'

const later = new Retryable('try again')
const enabled = { [redirectionAnnotation]: 'enabled' }
const pending = { [redirectionAnnotation]: 'pending' }

/** An agent that was stopped hard, and a new one on the same host, not started yet. */
async function restart(room: NodeRoom, meanwhile: (room: NodeRoom) => void = () => undefined): Promise<NodeRoom> {
  room.graph.commit()
  await room.stop()
  meanwhile(room)
  return new NodeRoom({}, room)
}

/** A started room with three enrolled pods at 10.0.0.1 to 3 in A, B and C. */
async function openRoom(): Promise<NodeRoom> {
  const room = new NodeRoom().namespace('shop', ambient)
  for (const [i, name] of ['A', 'B', 'C'].entries())
    room.pod(makePod(`web-${i + 1}`, { ips: [`10.0.0.${i + 1}`] }), name)
  await room.start()
  room.ztunnels.connect('z1')
  await room.advance(100)
  room.host.journal.length = 0
  room.ztunnels.messages.length = 0
  room.logged.length = 0
  return room
}

function viewAll(room: NodeRoom): readonly object[] {
  return ['A', 'B', 'C'].map((netns, i) => room.view(`web-${i + 1}`, netns))
}
const allIn = [inMesh('A', '10.0.0.1'), inMesh('B', '10.0.0.2'), inMesh('C', '10.0.0.3')]

describe('the start', () => {
  test('believes the kernel: marked pods get exactly our rules, whatever was there, and pods outside are not touched', async () => {
    const room = new NodeRoom().namespace('shop', ambient)
    room.pod(makePod('web-1', { ips: ['10.0.0.1'], annotations: enabled }), 'A')
    room.pod(makePod('web-2', { ips: ['10.0.0.2'], annotations: enabled }), 'B')
    room.pod(makePod('web-3', { ips: ['10.0.0.3'], annotations: pending }), 'C')
    room.pod(makePod('out', { ips: ['10.0.0.4'], labels: { 'istio.io/dataplane-mode': 'none' } }), 'D')
    room.host.netns('B').rules = 'old'
    room.host.netns('D').rules = 'old'
    await room.start()
    room.ztunnels.connect('z1')
    expect(room.ztunnels.messages).toEqual([
      'z1 add uid-web-1 A',
      'z1 add uid-web-2 B',
      'z1 add uid-web-3 C',
      'z1 snapshot sent',
    ])
    await room.advance(20_000)
    expect(viewAll(room)).toEqual(allIn)
    expect(room.host.netns('D').rules).toBe('old')
    await room.stop()
  })

  test('on a node of enrolled pods changes nothing: no rule, no annotation, no message but the snapshot', async () => {
    const before = await openRoom()
    const room = await restart(before)
    room.host.journal.length = 0
    await room.start()
    room.ztunnels.connect('z2')
    await room.advance(30_000)
    expect(room.host.journal.filter((line) => !line.startsWith('probe 10.'))).toEqual([])
    expect(viewAll(room)).toEqual(allIn)
    expect(room.lines('warn')).toEqual([])
    await room.stop()
    expect(room.host.openHandles).toBe(0)
  })

  test('a marked pod that is not found is kept, a failing scan keeps them all, and each is taken when it is found', async () => {
    const room = await restart(await openRoom())
    room.host.scanError = later
    await room.start()
    room.ztunnels.connect('z2')
    expect(room.ztunnels.messages).toEqual([
      'z2 keep uid-web-1',
      'z2 keep uid-web-2',
      'z2 keep uid-web-3',
      'z2 snapshot sent',
    ])
    room.host.scanError = undefined
    await room.advance(sweepMs)
    expect(viewAll(room)).toEqual(allIn)
    await room.stop()
  })

  test('the snapshot does not depend on the probe set, nor on a pod whose rules fail', async () => {
    const room = await restart(await openRoom())
    room.probeSet.broken = later
    room.rules.failCheck.set('A', later)
    await room.start()
    room.ztunnels.connect('z2')
    expect(room.ztunnels.messages).toHaveLength(4)
    expect(room.agent.pending()).toEqual(['the probe set could not be made'])
    room.probeSet.broken = undefined
    room.rules.failCheck.clear()
    await room.advance(sweepMs)
    expect(room.agent.pending()).toEqual([])
    expect(viewAll(room)).toEqual(allIn)
    await room.stop()
  })

  test('of the probe set drops what belongs to no pod of this node, and keeps a living pod whose address is not known', async () => {
    const room = new NodeRoom().namespace('shop', ambient)
    room.pod(makePod('web-1', { annotations: enabled }), 'A').pod(makePod('new'))
    room.pod(makePod('out', { ips: ['10.0.0.4'], labels: { 'istio.io/dataplane-mode': 'none' } }))
    room.probeSet.entries
      .set('10.0.0.1', 'uid-web-1')
      .set('10.9.9.9', 'uid-gone')
      .set('10.0.0.7', 'uid-new')
      .set('10.0.0.4', 'uid-out')
    await room.start()
    expect([...room.probeSet.entries]).toEqual([
      ['10.0.0.1', 'uid-web-1'],
      ['10.0.0.7', 'uid-new'],
    ])
    await room.stop()
  })

  test('marked pods that belong to the mesh no more are in the first snapshot and then taken out', async () => {
    const room = await restart(await openRoom(), (before) => before.namespace('shop'))
    await room.start()
    room.ztunnels.connect('z2')
    await room.advance(1_000)
    expect(viewAll(room)).toEqual([outOfMesh, outOfMesh, outOfMesh])
    await room.stop()
  })

  test('finished pods, and those of ztunnel, are in no snapshot', async () => {
    const room = new NodeRoom().namespace('shop', ambient).namespace('istio-system', ambient)
    room.pod(makePod('job', { ips: ['10.0.0.1'], annotations: enabled, phase: 'Failed' }), 'A')
    room.pod(
      makePod('ztunnel', {
        namespace: 'istio-system',
        labels: { app: 'ztunnel' },
        ips: ['10.0.0.2'],
        annotations: enabled,
      }),
      'B',
    )
    await room.start()
    room.ztunnels.connect('z1')
    expect(room.ztunnels.messages).toEqual(['z1 snapshot sent'])
    await room.stop()
  })

  test('a killed agent leaves nothing in a pod that left the mesh meanwhile, though no mark speaks of it', async () => {
    const room = await restart(await openRoom(), (before) =>
      before.change('web-1', { annotations: undefined, labels: { 'istio.io/dataplane-mode': 'none' } }),
    )
    await room.start()
    room.ztunnels.connect('z2')
    await room.advance(sweepMs)
    expect(viewAll(room)).toEqual([outOfMesh, allIn[1], allIn[2]])
    await room.stop()
  })
})

describe('the regular look', () => {
  test('finds everything as it should be and does nothing, hour after hour', async () => {
    const room = await openRoom()
    await room.advance(3_600_000)
    expect(room.host.journal).toEqual([])
    expect(room.logged).toEqual([])
    await room.stop()
    expect(room.host.openHandles).toBe(0)
  })

  test.each<readonly [string, (room: NodeRoom) => void]>([
    ['rules that somebody flushed', (room) => void (room.host.netns('B').rules = undefined)],
    ['rules that somebody changed', (room) => void (room.host.netns('B').rules = 'old')],
    ['an emptied probe set', (room) => room.probeSet.entries.clear()],
    ["an address in the set that is another pod's", (room) => void room.probeSet.entries.set('10.0.0.2', 'uid-gone')],
    [
      'an address in the set that the pod does not have',
      (room) => void room.probeSet.entries.set('10.0.0.99', 'uid-web-2'),
    ],
    [
      'a pod that ztunnel lost',
      (room) => {
        const held = room.ztunnels.held() as unknown as Map<string, { close(): void }>
        held.get('uid-web-2')?.close()
        held.delete('uid-web-2')
      },
    ],
  ])('mends %s, with a log line and a count', async (_what, spoil) => {
    const room = await openRoom()
    await room.advance(sweepMs)
    spoil(room)
    await room.advance(sweepMs)
    expect(viewAll(room)).toEqual(allIn)
    expect(room.probeSet.entries.size).toBe(3)
    expect(room.lines('warn').map(({ message }) => message)).toContain(
      'the regular check found a difference and mends it',
    )
    const metric = room.registry.getSingleMetric('addressd_node_mended_total')
    const { values } = (await metric?.get()) ?? { values: [] }
    expect(values.reduce((sum, { value }) => sum + value, 0)).toBeGreaterThan(0)
    await room.stop()
    expect(room.host.openHandles).toBe(0)
  })

  test("takes from ztunnel what is nobody's", async () => {
    const room = await openRoom()
    room.host.addNetns('X')
    const held = room.ztunnels.held() as Map<string, ReturnType<typeof room.host.handle>>
    held.set('uid-gone', room.host.handle('X'))
    await room.advance(sweepMs)
    expect(Object.keys(room.ztunnels.holds())).toEqual(['uid-web-1', 'uid-web-2', 'uid-web-3'])
    await room.stop()
  })

  test('follows a pod into another namespace that nobody announced', async () => {
    const room = await openRoom()
    room.host.addNetns('B2')
    room.host.setProcess('uid-web-2', 'B2')
    await room.advance(sweepMs)
    expect(room.view('web-2', 'B2')).toEqual(inMesh('B2', '10.0.0.2'))
    await room.stop()
    expect(room.host.openHandles).toBe(0)
  })

  test("is content with the runtime's own path and looks through /proc for nobody", async () => {
    const room = new NodeRoom().namespace('shop', ambient).pod(makePod('web'))
    room.host.addNetns('A')
    await room.start()
    room.ztunnels.connect('z1')
    await room.add('web', 'A', ['10.0.0.1'])
    await room.advance(sweepMs * 3)
    expect(room.host.scans).toBe(0)
    await room.stop()
  })

  test('takes the rules out of a pod that left while its namespace could not be found', async () => {
    const room = await restart(await openRoom())
    room.host.setProcess('uid-web-1', undefined)
    await room.start()
    room.ztunnels.connect('z2')
    await room.advance(100)
    room.change('web-1', { labels: { 'istio.io/dataplane-mode': 'none' } })
    await room.advance(100)
    expect(room.annotation('web-1')).toBeUndefined()
    expect(room.host.netns('A').rules).toBeDefined()
    room.host.setProcess('uid-web-1', 'A')
    await room.advance(sweepMs)
    expect(room.view('web-1', 'A')).toEqual(outOfMesh)
    await room.stop()
  })

  test('one part that fails keeps it from no other', async () => {
    const room = await openRoom()
    room.probeSet.broken = later
    room.rules.failCheck.set('A', later)
    room.host.netns('C').rules = undefined
    await room.advance(sweepMs)
    expect(room.host.netns('C').rules).toBeDefined()
    await room.stop()
  })

  test('gives a refused pod another chance', async () => {
    const room = await openRoom()
    room.rules.failApply.set('D', new InvalidInput('no'))
    room.pod(makePod('late', { ips: ['10.0.0.9'] }), 'D')
    await room.advance(2_000)
    expect(room.annotation('late')).toBeUndefined()
    room.rules.failApply.clear()
    await room.advance(sweepMs)
    expect(room.view('late', 'D')).toEqual(inMesh('D', '10.0.0.9'))
    await room.stop()
  })
})

describe('readiness', () => {
  test('comes with the pods and the probe set while no ztunnel is there, and waits for the first snapshot while one is', async () => {
    const room = new NodeRoom().namespace('shop', ambient)
    expect(room.agent.pending()).toEqual(['the pods of this node are not known yet'])
    expect(room.agent.decisions.lookUp({ namespace: 'shop', name: 'web', uid: undefined }).kind).toBe('unknown')
    await room.start()
    expect(room.agent.pending()).toEqual([])
    await room.stop()
  })
})

describe('what the CNI server asks', () => {
  test('each answer names what decides', async () => {
    const room = new NodeRoom({ excludedNamespaces: new Set(['kube-system']) })
      .namespace('shop', ambient)
      .namespace('kube-system', ambient)
    room.pod(makePod('web')).pod(makePod('plain', { labels: { 'istio.io/dataplane-mode': 'none' } }))
    room
      .pod(makePod('dns', { namespace: 'kube-system' }))
      .pod(makePod('lost', { namespace: 'nowhere', labels: ambient }))
    room.pod(makePod('static', { annotations: { 'kubernetes.io/config.hash': 'hash' } }))
    await room.start()
    const ask = (name: string, namespace = 'shop', uid?: string) =>
      room.agent.decisions.lookUp({ namespace, name, uid })
    expect(ask('web')).toEqual({
      kind: 'eligible',
      pod: { uid: 'uid-web', namespace: 'shop', name: 'web', serviceAccount: 'sa' },
    })
    expect(ask('web', 'shop', 'uid-other').kind).toBe('unknown')
    expect(ask('static', 'shop', 'hash').kind).toBe('eligible')
    expect(ask('plain')).toEqual({
      kind: 'ineligible',
      reason: 'pod shop/plain: neither its labels nor those of its namespace ask for it',
    })
    expect(ask('dns', 'kube-system')).toMatchObject({ kind: 'ineligible' })
    expect(ask('lost', 'nowhere')).toEqual({
      kind: 'unknown',
      reason: 'pod nowhere/lost: its namespace is not known (yet)',
    })
    expect(ask('none').kind).toBe('unknown')
    await room.stop()
  })
})

describe('the end', () => {
  test('leaves pods enrolled, closes every handle, and lets nobody wait', async () => {
    const room = await openRoom()
    room.ztunnels.answers.set('*', 'silence')
    room.pod(makePod('late', { ips: ['10.0.0.9'] }), 'D')
    await room.advance(1_000)
    await room.stop()
    expect(room.host.openHandles).toBe(0)
    expect(['A', 'B', 'C', 'D'].map((name) => room.host.netns(name).rules !== undefined)).toEqual([
      true,
      true,
      true,
      true,
    ])
    expect(room.annotation('late')).toBe('pending')
  })
})
