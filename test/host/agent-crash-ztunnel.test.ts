// SPDX-License-Identifier: Apache-2.0
// ztunnels that are killed, started again, run beside each other or never answer; an agent that is stopped in peace; what it has open after many pods came
// and went. Real processes and namespaces; what decides is who holds what at the end, and the order of events.

import { afterEach, beforeEach, describe, expect, jest } from '@jest/globals'
import { hostParts } from '../support/host-parts.js'
import { findPlugin } from '../support/native-plugin.js'
import { testWith } from '../support/optional.js'
import { CrashRoom, type CrashPod } from './crash-room.js'
import { countDescriptors, readPodKernel, readProbeSet, untilSo } from './crash-view.js'

// Only what hangs for good ends a test early.
jest.setTimeout(120_000)

const missing = hostParts.netns ?? hostParts.built ?? hostParts.nft ?? findPlugin()
const withHost = testWith('nft', missing)

let room: CrashRoom | undefined

function theRoom(): CrashRoom {
  if (room === undefined) throw new Error('there is no room')
  return room
}

beforeEach(async () => {
  if (missing === undefined) room = await CrashRoom.open('netlink')
})
afterEach(async () => {
  await room?.close()
  room = undefined
})

async function addPods(count: number, isWanted: boolean): Promise<readonly CrashPod[]> {
  const pods: CrashPod[] = []
  for (let i = 0; i < count; i++) pods.push(await theRoom().addPod(`pod-${i}`, isWanted))
  return pods
}

function wantAll(pods: readonly CrashPod[], isWanted: boolean): void {
  for (const pod of pods) theRoom().want(pod, isWanted)
}

/** Pods, in order, of which the agent's log says this. */
function selectTold(message: string): readonly (string | undefined)[] {
  return theRoom()
    .agent.log.filter(({ msg }) => msg === message)
    .map(({ pod }) => pod)
}

describe('a ztunnel', () => {
  withHost('that is killed holds exactly the right set when it is started again', async () => {
    const room = theRoom()
    const [stays, leaves, comes] = await addPods(3, true)
    if (stays === undefined || leaves === undefined || comes === undefined) throw new Error('there are three')
    room.want(comes, false)
    await room.settled()
    await room.killZtunnel('first')
    room.want(leaves, false)
    room.want(comes, true)
    await untilSo('it has left', () => room.annotationOf(leaves) === undefined)
    await room.startZtunnel('first')
    await room.settled()
    expect(Object.keys(room.ztunnel('first').state.holds)).toHaveLength(3)
  })

  withHost('beside another gets what is new, and the other what it missed when that one is killed', async () => {
    const room = theRoom()
    const pods = await addPods(4, false)
    await room.startZtunnel('second')
    await untilSo('it has its snapshot', () => room.ztunnel('second').state.isReady)
    wantAll(pods.slice(0, 2), true)
    await untilSo('they are enrolled', () => pods.slice(0, 2).every((pod) => room.annotationOf(pod) === 'enabled'))
    // Adds go to the newest alone.
    expect(Object.keys(room.ztunnel('first').state.holds)).toHaveLength(1)
    expect(Object.keys(room.ztunnel('second').state.holds)).toHaveLength(3)
    await room.killZtunnel('second')
    wantAll(pods.slice(1, 3), true)
    await room.settled()
    await room.startZtunnel('second')
    await untilSo('it has its snapshot', () => room.ztunnel('second').state.isReady)
    wantAll(pods, false)
    await room.settled()
  })

  withHost('restarted while fifty pods are enrolled ends with these fifty', async () => {
    const room = theRoom()
    const pods = await addPods(50, false)
    const before = room.ztunnel('first').state.records
    wantAll(pods, true)
    await untilSo('it is in the middle', () => room.ztunnel('first').state.records >= before + 10)
    await room.killZtunnel('first')
    await room.startZtunnel('first')
    await room.settled(pods.slice(0, 5))
    expect(Object.keys(room.ztunnel('first').state.holds)).toHaveLength(51)
  })

  withHost('that never acknowledges is waited for once, and by nobody who comes later', async () => {
    const room = theRoom()
    const [first, second, third] = await addPods(3, false)
    if (first === undefined || second === undefined || third === undefined) throw new Error('there are three')
    await room.startZtunnel('mute', '*=silence')
    await untilSo('it is connected', () => room.ztunnel('mute').state.isConnected)
    const isEnrolled = (pod: CrashPod): boolean => room.annotationOf(pod) === 'enabled'
    // As the newest it is the one that is asked.
    room.want(first, true)
    await untilSo(
      'the first is enrolled',
      () => isEnrolled(first),
      () => room.agent.lastLines(),
    )
    await untilSo('it is back', () => room.ztunnel('mute').state.connections > 1)
    for (const pod of [second, third]) {
      room.want(pod, true)
      await untilSo(
        'it is enrolled',
        () => isEnrolled(pod),
        () => room.agent.lastLines(),
      )
    }
    const enrolled = [first, second, third].map(({ name }) => `apps/${name}`)
    // The annotation is there before its answer has come back and been told.
    await untilSo('all is told', () => selectTold('enrolled').length > enrolled.length)
    expect(selectTold('enrolled')).toEqual(['apps/model', ...enrolled])
    expect(new Set(selectTold('a pod is not where it should be; trying again'))).toEqual(new Set(enrolled.slice(0, 1)))
    expect(Object.keys(room.ztunnel('first').state.holds)).toHaveLength(4)
    await room.killZtunnel('mute')
    await room.settled()
  })
})

describe('an agent', () => {
  withHost('that is stopped leaves everything as it is, and one that follows changes nothing', async () => {
    const room = theRoom()
    const pods = await addPods(3, true)
    await room.settled()
    const look = (): unknown => [
      pods.map(({ netns }) => [readPodKernel(netns), netns.run(['nft', '-a', 'list', 'ruleset'])]),
      [...readProbeSet(room.hostNetns)].sort(),
      pods.map((pod) => room.annotationOf(pod)),
      Object.entries(room.ztunnel('first').state.holds).sort(),
    ]
    const before = look()
    await room.agent.kill('SIGTERM')
    expect(look()).toEqual(before)
    const writes = room.api.writes.length
    await room.startAgent()
    await untilSo('ztunnel is back', () => room.ztunnel('first').state.isReady)
    await room.settled()
    expect(look()).toEqual(before)
    expect(room.api.writes.length).toBe(writes)
  })

  withHost('has no more open after two hundred pods came and went', async () => {
    const room = theRoom()
    const pods = await addPods(20, true)
    await room.settled(pods.slice(0, 2))
    const turn = async (): Promise<void> => {
      for (const isWanted of [false, true]) {
        wantAll(pods, isWanted)
        await room.settled(pods.slice(0, 2))
      }
    }
    // The first time threads are started and connections opened that stay.
    await turn()
    const before = countDescriptors(room.agent.pid)
    for (let round = 0; round < 10; round++) await turn()
    await untilSo('no more is open than before', () => countDescriptors(room.agent.pid) <= before)
  })
})
