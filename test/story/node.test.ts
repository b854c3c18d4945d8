// SPDX-License-Identifier: Apache-2.0
// The life of a node of fifty pods: addressd, addressd-node and a ztunnel in one run, on one folder of manifests. The tests are the chapters of one story
// and follow upon each other. Needs root and dist/; skipped aloud without them.

import { existsSync, readdirSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect } from '@jest/globals'
import { hostParts } from '../support/host-parts.js'
import { findPlugin } from '../support/native-plugin.js'
import { testWith } from '../support/optional.js'
import { NodeStory, uidOf, type StoryPod } from './node-room.js'
import { until } from './room.js'

const missing = hostParts.netns ?? hostParts.nft ?? hostParts.built ?? findPlugin()
const chapter = testWith('root', missing)

const names = Array.from({ length: 50 }, (_, i) => `web-${String(i).padStart(2, '0')}`)
const pods: readonly StoryPod[] = names.map((name, i) => ({
  name,
  ips: [`10.70.0.${i + 1}`, ...(i % 5 === 0 ? [`fd00:70::${i + 1}`] : [])],
  node: 'node-1',
}))
const running = pods.slice(0, 25)
const starting = pods.slice(25)
const far: StoryPod = { name: 'far', ips: ['10.70.1.1'], node: 'node-2', isAnnotated: true }
/** The one whose annotation is forgotten. */
const bare = names[49] ?? ''

const homes = Object.fromEntries(names.map((name) => [name, name]))
const owners = Object.fromEntries(pods.flatMap(({ name, ips }) => ips.map((ip) => [ip, name] as const)).sort())
const without = (all: Readonly<Record<string, string>>, ...gone: readonly string[]): Record<string, string> =>
  Object.fromEntries(Object.entries(all).filter(([, name]) => !gone.includes(name)))

let story: NodeStory
const metric = (name: string): Promise<Readonly<Record<string, number>>> => story.metric(`addressd_node_${name}`)
const unconfirmed = async (): Promise<number | undefined> => (await metric('unconfirmed_pods'))['']
const isConnected = async (): Promise<boolean> => (await metric('control_plane_connected'))[''] === 1

async function layOut(some: readonly StoryPod[]): Promise<void> {
  const netns = Object.fromEntries(some.map(({ name, ips }) => [name, { addresses: ips, rules: [] }]))
  const proc = some.map(({ name }, i) => ({ pid: 100 + i, netns: name, podUid: uidOf(name), started: 1 }))
  await story.host.change({ netns, proc })
}

async function losePlane(forMs: number): Promise<void> {
  await story.killPlane()
  await until(async () => !(await isConnected()), 'the loss to be noticed')
  story.clock.jump(forMs)
}

async function findPlane(): Promise<void> {
  await story.startPlane()
  await until(async () => {
    story.clock.jump(1_000)
    return await isConnected()
  }, 'the control plane to be found again')
}

describe('a node of fifty pods', () => {
  beforeAll(async () => {
    if (missing !== undefined) return
    story = new NodeStory()
    await layOut(pods)
    story.tell(...running, far)
    await story.startPlane()
    story.ztunnel.start()
  }, 60_000)
  afterAll(async () => {
    if (missing === undefined) await story.close()
  })

  chapter(
    'those that run already are found, and those that start pass through the plugin; all are in the mesh',
    async () => {
      await story.startNode()
      story.tell(...starting.map((pod) => ({ ...pod, isStarting: true })))
      const { decisions } = story.node.parts?.agent ?? {}
      const isKnown = ({ name }: StoryPod): boolean =>
        decisions?.lookUp({ namespace: 'shop', name, uid: uidOf(name) }).kind === 'eligible'
      await until(() => starting.every(isKnown), 'the pods that start to be known')
      const runs = await Promise.all(starting.map((pod) => story.runtime('ADD', pod)))
      expect(runs.map(({ exit, output }) => ({ exit, output }))).toEqual(
        runs.map(({ prevResult }) => ({ exit: 0, output: prevResult })),
      )
      story.tell(...starting)
      await until(() => story.node.parts?.agent.describe().filter(({ enrolled }) => enrolled).length === 50, 'all pods')
      expect(story.served()).toEqual(homes)
      expect(await story.probed()).toEqual(owners)
      expect(names.filter((name) => !story.hasRules(name))).toEqual([])
      expect([story.ztunnel.isReady, story.node.ready()]).toEqual([true, true])
      expect(story.ztunnel.runInside(uidOf('web-07'), ['ip', '-o', 'address', 'show'])).toContain(' 10.70.0.8/')
    },
  )

  chapter('each is confirmed once the control plane serves it as HBONE, and the one that is not is named', async () => {
    await until(isConnected, 'the control plane')
    expect(await unconfirmed()).toBe(50)
    for (const name of names) if (name !== bare) story.change(name, { isAnnotated: true })
    await until(async () => (await unconfirmed()) === 1, 'all but one to be confirmed')
    story.clock.jump(30_000)
    const complaints = story.nodeLog.records.filter(({ message }) => message.includes('not served as HBONE'))
    expect(complaints.map(({ level, fields }) => ({ level, pod: fields['pod'], says: fields['says'] }))).toEqual([
      { level: 'warn', pod: `shop/${bare}`, says: 'it is served as plain TCP' },
    ])
    story.change(bare, { isAnnotated: true })
    await until(async () => (await unconfirmed()) === 0, 'the last one to be confirmed')
    expect(await metric('pod_confirmations_total')).toEqual({ served: 50, overdue: 1 })
  })

  chapter('an address is looked up on the node: a pod of its own, one of another node, a service, a name', async () => {
    const own = await story.whatis('10.70.0.8')
    expect([own.code, own.err]).toEqual([0, ''])
    expect(own.out).toMatch(/^Workload shop\/web-07\n(.*\n)* +Node: +node-1\n(.*\n)* +Protocol: +HBONE\n/)
    const other = await story.whatis('10.70.1.1')
    expect([other.code, other.out.split('\n')[0]]).toEqual([0, 'Workload shop/far'])
    const vip = await story.whatis('10.96.0.10')
    expect([vip.code, vip.out.split('\n')[0]]).toEqual([0, 'Service web.shop.svc.cluster.local'])
    expect(vip.out).toContain('51 of 51 healthy')
    const byName = await story.whatis('web.shop.svc.cluster.local')
    expect(byName.out.replace(/Found by:.*/, '')).toBe(vip.out.replace(/Found by:.*/, ''))
    expect(await story.whatis('10.9.9.9')).toEqual({ code: 1, out: '', err: 'addressctl: nobody has 10.9.9.9\n' })
  })

  chapter(
    'while the control plane is away the answers stay, with their age, and pods are enrolled and let go',
    async () => {
      const [own, vip] = [await story.whatis('10.70.0.8'), await story.whatis('10.96.0.10')]
      await losePlane(90_000)
      for (const [question, fresh] of [['10.70.0.8', own] as const, ['10.96.0.10', vip] as const]) {
        const stale = await story.whatis(question)
        expect({ ...stale, out: stale.out.slice(0, fresh.out.length) }).toEqual(fresh)
        expect(stale.out.slice(fresh.out.length)).toMatch(/^answer is 9\d s old: control plane away since \S+Z\n$/)
      }
      const unasked = await story.whatis('10.70.77.77')
      expect(unasked.code).toBe(3)
      expect(unasked.err).toMatch(
        /10\.70\.77\.77 was never asked for on this node, and the control plane is away since/,
      )
      expect(story.node.ready()).toBe(true)
      story.change('web-01', { mode: 'none', isAnnotated: false })
      await until(() => !story.hasRules('web-01') && !('web-01' in story.served()), 'the pod to leave')
      expect(await story.probed()).toEqual(without(owners, 'web-01'))
      story.change('web-01', { mode: undefined, isAnnotated: true } as never)
      await until(() => story.hasRules('web-01') && 'web-01' in story.served(), 'the pod to come back')
    },
  )

  chapter('when it comes back nothing is sent again that did not change', async () => {
    const before = await metric('received_addresses')
    await findPlane()
    expect((await story.whatis('10.70.0.8')).out).not.toContain('old')
    await until(async () => (await unconfirmed()) === 0, 'every pod to be confirmed')
    const { responses = 0, ...rest } = await metric('received_addresses')
    expect(rest).toEqual({ ...before, responses: undefined })
    expect(responses).toBe((before['responses'] ?? 0) + 1)
  })

  chapter('and what changed meanwhile is, alone', async () => {
    const before = await metric('received_addresses')
    await losePlane(1_000)
    story.change('far', { isReady: false })
    story.change('web-02', { isReady: false })
    await findPlane()
    await until(async () => (await story.whatis('10.96.0.10')).out.includes('49 of 51 healthy'), 'the news')
    const after = await metric('received_addresses')
    expect({ ...after, responses: 0 }).toEqual({
      ...before,
      responses: 0,
      resources: (before['resources'] ?? 0) + 2,
    })
  })

  chapter('a pod that is taken down is let go of everywhere', async () => {
    const open = story.openNamespaces()
    const pod = pods[30]
    if (pod === undefined) throw new Error('no such pod')
    expect(await story.runtime('DEL', pod)).toMatchObject({ exit: 0, output: '' })
    expect(story.served()).toEqual(without(homes, pod.name))
    story.untell(pod.name)
    await layOut([])
    await story.host.change({ netns: { [pod.name]: null } })
    await until(async () => (await story.whatis(pod.ips[0] ?? '')).code === 1, 'nobody to have its address')
    expect(await story.probed()).toEqual(without(owners, pod.name))
    expect(story.node.parts?.agent.describe().some(({ uid }) => uid === uidOf(pod.name))).toBe(false)
    expect([await unconfirmed(), story.openNamespaces()]).toEqual([0, open - 1])
  })

  chapter('the end of the agent leaves every pod as it is, and nothing of its own', async () => {
    const served = story.served()
    await story.stopNode()
    const left = names.filter((name) => name !== 'web-30')
    expect(left.filter((name) => !story.hasRules(name))).toEqual([])
    expect(Object.keys(served)).toEqual(left)
    expect(readdirSync(story.settings.runFolder)).toEqual([])
    expect([existsSync(story.settings.ztunnelSocket), story.openNamespaces()]).toEqual([false, 0])
    expect(story.nodeLog.records.filter(({ level }) => level === 'error')).toEqual([])
    expect(story.serverLog.records.filter(({ level }) => level === 'error')).toEqual([])
  })
})
