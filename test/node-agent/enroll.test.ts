// SPDX-License-Identifier: Apache-2.0
// Taking one pod in and out: the order of the steps, what each failure leaves, and what happens when several ask at once.

import { describe, expect, test } from '@jest/globals'
import { InvalidInput, Retryable } from '../../src/base/errors.js'
import { NodeRoom, ambient, inMesh, makePod, outOfMesh } from '../support/node-room.js'

const kernelSaysNo = new InvalidInput('the kernel says no')
const later = new Retryable('try again')

/** A room with an empty ambient namespace, one ztunnel and a pod that has no address yet. */
async function openRoom(options: { readonly ztunnel?: boolean } = {}): Promise<NodeRoom> {
  const room = new NodeRoom()
  room.namespace('shop', ambient).pod(makePod('web'))
  room.host.addNetns('A')
  await room.start()
  if (options.ztunnel !== false) room.ztunnels.connect('z1')
  return room
}

/** The class and the text of what a promise rejects with. */
async function failureOf(promise: Promise<unknown>): Promise<readonly [string, string]> {
  try {
    await promise
  } catch (error) {
    if (error instanceof Error) return [error.name, error.message]
  }
  throw new Error('it did not fail')
}

describe('a sandbox that the runtime announces', () => {
  test('gets its rules, then ztunnel, then the probe set, and the annotation last', async () => {
    const room = await openRoom()
    await room.add('web', 'A', ['10.0.0.5', 'fd00::5'])
    expect(room.host.journal).toEqual([
      'rules into A',
      'z1 add uid-web A',
      'probe 10.0.0.5 for uid-web',
      'probe fd00::5 for uid-web',
      'annotation uid-web enabled',
    ])
    expect(room.view('web', 'A')).toEqual(inMesh('A', '10.0.0.5', 'fd00::5'))
    await room.stop()
    expect(room.host.openHandles).toBe(0)
  })

  test('waits for the acknowledgement of ztunnel', async () => {
    const room = await openRoom()
    room.ztunnels.answers.set('uid-web', 'silence')
    const adding = failureOf(room.add('web', 'A', ['10.0.0.5']))
    await room.advance(4_999)
    expect(room.annotator.patches).toEqual([])
    await room.advance(1)
    expect(await adding).toEqual(['Retryable', 'pod shop/web: ztunnel did not answer in time'])
    expect(room.annotator.patches).toEqual(['uid-web pending'])
    expect(room.ztunnels.connected).toBe(0)
    await room.stop()
  })

  test('announced twice is enrolled once, and the second call succeeds and changes nothing', async () => {
    const room = await openRoom()
    await room.add('web', 'A', ['10.0.0.5'])
    const before = [...room.host.journal]
    await room.add('web', 'A', ['10.0.0.5'])
    expect(room.host.journal).toEqual(before)
    await Promise.all([room.add('web', 'A', ['10.0.0.5']), room.add('web', 'A', ['10.0.0.5'])])
    expect(room.host.journal).toEqual(before)
    await room.stop()
    expect(room.host.openHandles).toBe(0)
  })

  test('announced twice at the same moment is worked on by one after the other', async () => {
    const room = await openRoom()
    await Promise.allSettled([room.add('web', 'A', ['10.0.0.5']), room.add('web', 'A', ['10.0.0.5'])])
    await room.settle()
    expect(room.view('web', 'A')).toEqual(inMesh('A', '10.0.0.5'))
    expect(room.rules.applied).toBe(1)
    await room.stop()
  })

  test('fails at once while no ztunnel is connected, with its rules in place and marked pending; the next call succeeds', async () => {
    const room = await openRoom({ ztunnel: false })
    const failure = await failureOf(room.add('web', 'A', ['10.0.0.5']))
    expect(failure).toEqual(['Retryable', 'pod shop/web: no ztunnel is connected'])
    expect(room.annotator.patches).toEqual(['uid-web pending'])
    expect(room.probeSet.entries.size).toBe(0)
    expect(room.host.netns('A').rules).toBeDefined()
    room.ztunnels.connect('z1')
    await room.add('web', 'A', ['10.0.0.5'])
    await room.settle()
    expect(room.view('web', 'A')).toEqual(inMesh('A', '10.0.0.5'))
    await room.stop()
  })

  test('is pending when ztunnel says no, says what ztunnel said, and hinders no other pod', async () => {
    const room = await openRoom()
    room.pod(makePod('db'))
    room.host.addNetns('B')
    await room.settle()
    room.ztunnels.answers.set('uid-web', { error: 'failure to start proxy' })
    expect(await failureOf(room.add('web', 'A', ['10.0.0.5']))).toEqual([
      'Retryable',
      'pod shop/web: ztunnel refuses the pod: failure to start proxy',
    ])
    await room.settle()
    expect(room.view('web', 'A')).toEqual({ rules: 'ours', ztunnel: 'nothing', probes: [], annotation: 'pending' })
    await room.add('db', 'B', ['10.0.0.6'])
    await room.settle()
    expect(room.view('db', 'B')).toEqual(inMesh('B', '10.0.0.6'))
    await room.stop()
  })

  test('that is the host itself, or no namespace at all, is refused, and nothing is done', async () => {
    const room = await openRoom()
    expect(await failureOf(room.add('web', 'host', ['10.0.0.5']))).toEqual([
      'InvalidInput',
      'pod shop/web: host is the namespace of the host',
    ])
    expect((await failureOf(room.add('web', 'gone', ['10.0.0.5'])))[0]).toBe('Retryable')
    expect(room.host.journal).toEqual([])
    expect(room.agent.describe()).toEqual([])
    await room.stop()
  })

  test('whose rules cannot be made leaves nothing: not for ztunnel, not in the next snapshot, no annotation, no handle', async () => {
    const room = await openRoom()
    room.rules.failApply.set('A', kernelSaysNo)
    expect(await failureOf(room.add('web', 'A', ['10.0.0.5']))).toEqual([
      'InvalidInput',
      'pod shop/web: the kernel says no',
    ])
    await room.settle()
    room.ztunnels.connect('z2')
    expect(room.ztunnels.messages).toEqual(['z1 snapshot sent', 'z2 snapshot sent'])
    expect(room.annotator.patches).toEqual([])
    expect(room.host.openHandles).toBe(0)
    await room.stop()
  })

  test('with a name in an annotation that is none is refused before anything is done', async () => {
    const room = await openRoom()
    room.change('web', { annotations: { 'istio.io/reroute-virtual-interfaces': 'eth0 -j ACCEPT' } })
    await room.settle()
    const [kind, text] = await failureOf(room.add('web', 'A', ['10.0.0.5']))
    expect(kind).toBe('InvalidInput')
    expect(text).toContain('istio.io/reroute-virtual-interfaces')
    expect(room.host.journal).toEqual([])
    await room.stop()
  })

  test('is pending when the probe set cannot be written, though its other address is in it', async () => {
    const room = await openRoom()
    room.probeSet.failPut.set('10.0.0.5', later)
    expect((await failureOf(room.add('web', 'A', ['10.0.0.5', 'fd00::5'])))[0]).toBe('Retryable')
    await room.settle()
    expect(room.view('web', 'A')).toEqual({
      rules: 'ours',
      ztunnel: 'A',
      probes: ['fd00::5'],
      annotation: 'pending',
    })
    await room.stop()
  })

  test('passes over IPv6 addresses while IPv6 is off', async () => {
    const room = new NodeRoom({ ipv6: false })
    room.namespace('shop', ambient).pod(makePod('web')).host.addNetns('A')
    await room.start()
    room.ztunnels.connect('z1')
    await room.add('web', 'A', ['10.0.0.5', 'fd00::5'])
    await room.settle()
    expect(room.view('web', 'A')).toEqual(inMesh('A', '10.0.0.5'))
    await room.advance(120_000)
    expect(room.lines('warn')).toEqual([])
    await room.stop()
  })

  test('fails with the words of the API server when even pending cannot be written', async () => {
    const room = await openRoom({ ztunnel: false })
    room.annotator.always = new Retryable('the API server is away')
    expect(await failureOf(room.add('web', 'A', ['10.0.0.5']))).toEqual([
      'Retryable',
      'pod shop/web: the API server is away',
    ])
    expect(room.annotator.patches).toEqual(['uid-web pending'])
    await room.stop()
  })

  test('whose plugin goes away is pending, and the agent goes on with it by itself', async () => {
    const room = await openRoom()
    room.ztunnels.answers.set('uid-web', 'silence')
    const plugin = new AbortController()
    const adding = failureOf(room.add('web', 'A', ['10.0.0.5'], plugin.signal))
    await room.advance(1_000)
    plugin.abort(new Retryable('the plugin has gone away'))
    expect(await adding).toEqual(['Retryable', 'pod shop/web: the plugin has gone away'])
    expect(room.annotator.patches).toEqual(['uid-web pending'])
    room.ztunnels.answers.clear()
    await room.advance(1_000)
    expect(room.view('web', 'A')).toEqual(inMesh('A', '10.0.0.5'))
    await room.stop()
  })
})

describe('a pod that is deleted while it is being enrolled', () => {
  test('is released at once when the API server says so', async () => {
    const room = await openRoom()
    room.annotator.answers.push('gone')
    expect(await failureOf(room.add('web', 'A', ['10.0.0.5']))).toEqual([
      'InvalidInput',
      'pod shop/web: it was deleted while it was being enrolled',
    ])
    expect(room.ztunnels.holds()).toEqual({})
    expect(room.probeSet.entries.size).toBe(0)
    expect(room.host.openHandles).toBe(0)
    await room.stop()
  })

  test('is released at once when its deletion is seen, and nobody waits for ztunnel any more', async () => {
    const room = await openRoom()
    room.ztunnels.answers.set('uid-web', 'silence')
    const adding = failureOf(room.add('web', 'A', ['10.0.0.5']))
    await room.settle()
    room.deletePod('web')
    await room.settle()
    expect((await adding)[0]).toBe('InvalidInput')
    expect(room.agent.describe()).toEqual([])
    expect(room.host.openHandles).toBe(0)
    await room.stop()
  })

  test('is not enrolled at all when it is gone before its turn', async () => {
    const room = await openRoom()
    const adding = room.agent.decisions.enroll(
      { uid: 'uid-other', namespace: 'shop', name: 'web', serviceAccount: 'sa' },
      { ips: ['10.0.0.5'], netnsPath: 'A', containerId: 'c', signal: new AbortController().signal },
    )
    expect(await failureOf(adding)).toEqual(['InvalidInput', 'pod shop/web: it is gone'])
    expect(room.host.journal).toEqual([])
    await room.stop()
  })
})

describe('several sandboxes of a pod', () => {
  test('a new one takes the place of the old one, in ztunnel too, and the old handle is closed', async () => {
    const room = await openRoom()
    await room.add('web', 'A', ['10.0.0.5'])
    room.host.addNetns('B')
    await room.add('web', 'B', ['10.0.0.6'])
    await room.settle()
    expect(room.view('web', 'B')).toEqual(inMesh('B', '10.0.0.6'))
    await room.stop()
    expect(room.host.openHandles).toBe(0)
  })

  test('the farewell of the old one, when it comes late, takes nothing of the new one', async () => {
    const room = await openRoom()
    await room.add('web', 'A', ['10.0.0.5'])
    room.host.addNetns('B')
    await room.add('web', 'B', ['10.0.0.5'])
    const before = room.host.journal.length
    await room.agent.decisions.releaseNetns('A', 'c-A')
    await room.agent.decisions.releaseNetns('gone', 'c-A')
    await room.settle()
    expect(room.host.journal.slice(before)).toEqual([])
    expect(room.view('web', 'B')).toEqual(inMesh('B', '10.0.0.5'))
    await room.stop()
  })

  test('the farewell of the one that is held lets go of everything, and the pod waits for its next sandbox', async () => {
    const room = await openRoom()
    room.host.setProcess('uid-web', 'A')
    await room.add('web', 'A', ['10.0.0.5'])
    room.change('web', { ips: ['10.0.0.5'] })
    await room.settle()
    await room.agent.decisions.releaseNetns('A', 'c-A')
    await room.advance(10_000) // a process is still seen in it
    expect({ ...room.view('web', 'A'), rules: '-' }).toEqual({ ...outOfMesh, rules: '-' })
    expect(room.host.openHandles).toBe(0)
    expect(room.lines('warn')).toEqual([])
    room.host.addNetns('B')
    await room.add('web', 'B', ['10.0.0.6'])
    room.change('web', { ips: ['10.0.0.6'] })
    await room.settle()
    expect(room.view('web', 'B')).toEqual(inMesh('B', '10.0.0.6'))
    await room.stop()
  })

  test('that a pod without a sandbox is not enrolled is worth a warning only when no other comes for a minute', async () => {
    const room = await openRoom()
    await room.add('web', 'A', ['10.0.0.5'])
    room.change('web', { ips: ['10.0.0.5'] })
    await room.settle()
    await room.agent.decisions.releaseNetns('A', 'c-A')
    room.host.removeNetns('A')
    room.change('web', { ips: ['10.0.0.7'] })
    await room.advance(50_000)
    expect(room.lines('warn')).toEqual([])
    room.change('web', { ips: ['10.0.0.6'] })
    await room.advance(20_000)
    room.change('web', { ips: ['10.0.0.7'] })
    await room.settle()
    expect(room.lines('warn').map(({ message }) => message)).toEqual([
      'a pod cannot be enrolled; it is looked at again later',
    ])
    await room.stop()
  })

  test('a farewell while the sandbox is still being enrolled ends that too', async () => {
    const room = await openRoom()
    room.ztunnels.answers.set('uid-web', 'silence')
    const adding = failureOf(room.add('web', 'A', ['10.0.0.5']))
    await room.settle()
    await room.agent.decisions.releaseNetns('A', 'c-A')
    expect(await adding).toEqual(['Retryable', 'pod shop/web: the runtime takes the sandbox down'])
    await room.settle()
    expect(room.agent.describe()).toEqual([])
    expect(room.host.openHandles).toBe(0)
    await room.stop()
  })

  test('a newer one does not wait for ztunnel to answer for the older one', async () => {
    const room = await openRoom()
    room.ztunnels.answers.set('uid-web', 'silence')
    const first = failureOf(room.add('web', 'A', ['10.0.0.5']))
    await room.settle()
    room.ztunnels.answers.clear()
    room.host.addNetns('B')
    await room.add('web', 'B', ['10.0.0.6'])
    expect(await first).toEqual(['Retryable', 'pod shop/web: a newer sandbox of the pod was announced'])
    await room.settle()
    expect(room.view('web', 'B')).toEqual(inMesh('B', '10.0.0.6'))
    await room.stop()
  })
})

describe('a pod that leaves', () => {
  async function openRoomWithPod(): Promise<NodeRoom> {
    const room = await openRoom()
    await room.add('web', 'A', ['10.0.0.5'])
    room.change('web', { ips: ['10.0.0.5'] })
    await room.settle()
    room.host.journal.length = 0
    return room
  }

  test('and lives on loses its place in the probe set, its rules, its proxy and its annotation, in this order', async () => {
    const room = await openRoomWithPod()
    room.namespace('shop')
    await room.settle()
    expect(room.host.journal).toEqual([
      'probe set without uid-web',
      'rules out of A',
      'z1 del uid-web',
      'annotation uid-web none',
    ])
    expect(room.view('web', 'A')).toEqual(outOfMesh)
    expect(room.host.openHandles).toBe(0)
    await room.stop()
  })

  test('and has ended is let go of without entering its namespace', async () => {
    const room = await openRoomWithPod()
    room.change('web', { phase: 'Succeeded', ips: [] })
    await room.settle()
    expect(room.host.journal).toEqual(['probe set without uid-web', 'z1 del uid-web', 'annotation uid-web none'])
    expect(room.host.openHandles).toBe(0)
    await room.stop()
  })

  test('keeps its handle, its proxy and its annotation until its rules are out', async () => {
    const room = await openRoomWithPod()
    room.rules.failRemove.set('A', later)
    room.namespace('shop')
    await room.advance(3_000)
    expect(room.view('web', 'A')).toEqual({ rules: 'ours', ztunnel: 'A', probes: [], annotation: 'enabled' })
    room.rules.failRemove.clear()
    await room.advance(6_000)
    expect(room.view('web', 'A')).toEqual(outOfMesh)
    await room.stop()
  })

  test('is taken out of the pod and of ztunnel though the probe set fails, and its annotation stays until that works too', async () => {
    const room = await openRoomWithPod()
    room.probeSet.broken = later
    room.namespace('shop')
    await room.settle()
    expect(room.view('web', 'A')).toEqual({
      rules: 'none',
      ztunnel: 'nothing',
      probes: ['10.0.0.5'],
      annotation: 'enabled',
    })
    room.probeSet.broken = undefined
    await room.advance(6_000)
    expect(room.view('web', 'A')).toEqual(outOfMesh)
    await room.stop()
  })

  test('and is in no snapshot from the moment ztunnel was told, though telling failed', async () => {
    const room = await openRoomWithPod()
    room.ztunnels.removeError = later
    room.namespace('shop')
    await room.settle()
    expect(room.annotation('web')).toBe('enabled')
    room.ztunnels.connect('z2')
    expect(room.ztunnels.messages.slice(-1)).toEqual(['z2 snapshot sent'])
    room.ztunnels.removeError = undefined
    await room.advance(6_000)
    expect(room.view('web', 'A')).toEqual(outOfMesh)
    await room.stop()
  })

  test('and comes back before the rest of its leaving is done ends in the mesh', async () => {
    const room = await openRoomWithPod()
    room.annotator.always = later
    room.namespace('shop')
    await room.advance(100)
    room.annotator.always = undefined
    room.namespace('shop', ambient)
    await room.advance(6_000)
    expect(room.view('web', 'A')).toEqual(inMesh('A', '10.0.0.5'))
    await room.stop()
  })

  test('takes nothing from another pod that has its address by now', async () => {
    const room = await openRoomWithPod()
    room.pod(makePod('next'))
    room.host.addNetns('B')
    await room.settle()
    await room.add('next', 'B', ['10.0.0.5'])
    room.deletePod('web')
    await room.settle()
    expect([...room.probeSet.entries]).toEqual([['10.0.0.5', 'uid-next']])
    await room.stop()
  })

  test('is spoken of as enrolled only after its last step, and as released before the first of its leaving', async () => {
    const room = await openRoom()
    room.annotator.always = later
    await failureOf(room.add('web', 'A', ['10.0.0.5']))
    expect(room.told).toEqual([])
    room.annotator.always = undefined
    await room.add('web', 'A', ['10.0.0.5'])
    room.probeSet.broken = later
    room.namespace('shop')
    await room.settle()
    expect(room.told).toEqual(['uid-web enrolled', 'uid-web released'])
    room.probeSet.broken = undefined
    room.namespace('shop', ambient)
    await room.advance(6_000)
    expect(room.told.at(-1)).toBe('uid-web enrolled')
    await room.stop()
  })

  test('by its deletion writes nothing to the API server', async () => {
    const room = await openRoomWithPod()
    room.deletePod('web')
    await room.settle()
    expect(room.host.journal).toEqual(['probe set without uid-web', 'z1 del uid-web'])
    await room.stop()
  })

  test('without any ztunnel leaves all the same', async () => {
    const room = await openRoomWithPod()
    room.ztunnels.close('z1')
    room.namespace('shop')
    await room.settle()
    expect(room.view('web', 'A')).toEqual(outOfMesh)
    await room.stop()
  })
})
