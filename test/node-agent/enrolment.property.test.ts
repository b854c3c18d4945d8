// SPDX-License-Identifier: Apache-2.0
// Whatever happens, in whatever order: when it is quiet again, exactly the pods that should be in the mesh are in it, in the kernel, in ztunnel, in the
// probe set and by their marks, and no handle is left over.

import { describe, expect, test } from '@jest/globals'
import * as fc from 'fast-check'
import { InvalidInput, Retryable } from '../../src/base/errors.js'
import { toVerdict } from '../../src/node-agent/eligibility.js'
import { sweepMs } from '../../src/node-agent/sweep.js'
import { NodeRoom, ambient, makePod, testSettings } from '../support/node-room.js'

const names = ['a', 'b', 'c'] as const
type Name = (typeof names)[number]

/** The world around the agent. Everything is changed through it, so that the end can be computed. */
class World {
  room = new NodeRoom()
  #pods = 0
  #ztunnels = 0
  readonly #unsettled: Promise<unknown>[] = []

  async open(): Promise<void> {
    this.room.namespace('shop', ambient)
    for (const name of names) this.replace(name)
    await this.room.start()
    this.connect()
  }

  /** A new pod under the name, with its own namespace and process. */
  replace(name: Name): void {
    const n = ++this.#pods
    const uid = `uid-${name}-${n}`
    this.room.pod(makePod(name, { uid, ips: [`10.0.${names.indexOf(name)}.${n % 250}`] }), `ns-${n}`)
  }

  netnsOf(name: Name): string | undefined {
    const uid = this.room.inputs.Pod.get(`c/shop/${name}`)?.uid
    return uid?.replace(/^uid-.-/, 'ns-')
  }

  connect(): void {
    this.room.ztunnels.connect(`z${++this.#ztunnels}`)
  }

  add(name: Name): void {
    const netns = this.netnsOf(name)
    const ips = this.room.inputs.Pod.get(`c/shop/${name}`)?.ips
    if (netns !== undefined) this.#unsettled.push(this.room.add(name, netns, ips ?? []).catch(() => undefined))
  }

  async restart(): Promise<void> {
    const before = this.room
    await before.stop()
    this.room = new NodeRoom({}, before)
    await this.room.start()
    this.connect()
  }

  /** Nothing fails any more, and there is time. */
  async calm(): Promise<void> {
    const { ztunnels, rules, probeSet, annotator, host } = this.room
    ztunnels.answers.clear()
    ztunnels.removeError = undefined
    for (const failing of [rules.failApply, rules.failCheck, rules.failRemove, probeSet.failPut]) failing.clear()
    probeSet.broken = undefined
    host.scanError = undefined
    annotator.always = undefined
    annotator.answers.length = 0
    await this.room.advance(6_000) // one that still owes an answer is cut off by then
    if (ztunnels.connected === 0) this.connect()
    await this.room.advance(sweepMs * 2)
    await Promise.all(this.#unsettled)
  }

  expected(): object {
    const out: Record<string, unknown> = {}
    for (const name of names) {
      const row = this.room.inputs.Pod.get(`c/shop/${name}`)
      if (row === undefined) continue
      const namespace = this.room.inputs.Namespace.get('c/shop')
      const view = { name: 'shop', labels: namespace?.labels, excluded: false, discovered: true }
      const isIn = toVerdict(row, view, testSettings.selectors).eligible && row.phase === 'Running'
      const netns = this.netnsOf(name)
      out[name] = isIn
        ? { rules: 'ours', ztunnel: netns, probes: row.ips, annotation: 'enabled' }
        : // A finished pod's namespace is not entered any more.
          { rules: row.phase === 'Running' ? 'none' : '-', ztunnel: 'nothing', probes: [], annotation: 'none' }
    }
    return out
  }

  seen(): object {
    const out: Record<string, unknown> = {}
    for (const name of names) {
      const row = this.room.inputs.Pod.get(`c/shop/${name}`)
      if (row === undefined) continue
      const view = this.room.view(name, this.netnsOf(name) ?? '')
      out[name] = row.phase === 'Running' ? view : { ...view, rules: '-' }
    }
    return out
  }
}

type Act = (world: World) => void | Promise<void>

const name = fc.constantFrom(...names)
const pause = fc.constantFrom(0, 1, 30, 700, 3_000, 20_000)
const acts: fc.Arbitrary<readonly [string, Act]> = fc.oneof(
  fc
    .boolean()
    .map((on): [string, Act] => [`namespace ${on}`, ({ room }) => void room.namespace('shop', on ? ambient : {})]),
  fc.tuple(name, fc.constantFrom('none', 'ambient', undefined)).map(([n, mode]): [string, Act] => [
    `label ${n} ${mode}`,
    ({ room }) => {
      if (room.inputs.Pod.get(`c/shop/${n}`))
        room.change(n, { labels: mode === undefined ? undefined : { 'istio.io/dataplane-mode': mode } })
    },
  ]),
  name.map((n): [string, Act] => [`replace ${n}`, (world) => world.replace(n)]),
  name.map((n): [string, Act] => [`delete ${n}`, ({ room }) => void room.deletePod(n)]),
  fc.tuple(name, fc.constantFrom('Succeeded', 'Failed')).map(([n, phase]): [string, Act] => [
    `end ${n}`,
    ({ room }) => {
      if (room.inputs.Pod.get(`c/shop/${n}`)) room.change(n, { phase })
    },
  ]),
  fc.tuple(name, fc.integer({ min: 1, max: 9 })).map(([n, i]): [string, Act] => [
    `address ${n} ${i}`,
    ({ room }) => {
      if (room.inputs.Pod.get(`c/shop/${n}`)) room.change(n, { ips: [`10.9.${names.indexOf(n)}.${i}`] })
    },
  ]),
  name.map((n): [string, Act] => [`plugin ${n}`, (world) => world.add(n)]),
  fc.constantFrom<[string, Act]>(
    ['ztunnel dies', ({ room }) => room.ztunnels.closeAll()],
    ['ztunnel connects', (world) => world.connect()],
    ['ztunnel refuses', ({ room }) => void room.ztunnels.answers.set('*', { error: 'no' })],
    ['ztunnel is silent', ({ room }) => void room.ztunnels.answers.set('*', 'silence')],
    ['ztunnel answers', ({ room }) => room.ztunnels.answers.clear()],
    ['removals fail', ({ room }) => void (room.ztunnels.removeError = new Retryable('no'))],
    ['the probe set breaks', ({ room }) => void (room.probeSet.broken = new Retryable('no'))],
    ['the probe set works', ({ room }) => void (room.probeSet.broken = undefined)],
    ['the API server fails', ({ room }) => void (room.annotator.always = new Retryable('no'))],
    ['the API server works', ({ room }) => void (room.annotator.always = undefined)],
    ['the API server says gone once', ({ room }) => void room.annotator.answers.push('gone')],
    ['scans fail', ({ room }) => void (room.host.scanError = new Retryable('no'))],
    ['the agent restarts', (world) => world.restart()],
  ),
  fc.tuple(name, fc.boolean(), fc.boolean()).map(([n, refused, removing]): [string, Act] => [
    `rules fail in ${n}`,
    (world) => {
      const netns = world.netnsOf(n)
      const error = refused ? new InvalidInput('no') : new Retryable('no')
      if (netns !== undefined) (removing ? world.room.rules.failRemove : world.room.rules.failApply).set(netns, error)
    },
  ]),
  name.map((n): [string, Act] => [
    `somebody flushes ${n}`,
    (world) => {
      const netns = world.netnsOf(n)
      if (netns !== undefined) world.room.host.netns(netns).rules = undefined
    },
  ]),
)

const runs = Number(process.env.PROPERTY_RUNS ?? 60)

describe('enrolment', () => {
  test('ends where labels and pods say, after any story', async () => {
    const story = fc.array(fc.tuple(acts, pause), { minLength: 1, maxLength: 25 })
    await fc.assert(
      fc.asyncProperty(story, async (steps) => {
        const world = new World()
        await world.open()
        for (const [[, act], ms] of steps) {
          await act(world)
          if (ms > 0) await world.room.advance(ms)
        }
        await world.calm()
        const { room } = world
        const uids = [...room.inputs.Pod.values()].map(({ uid }) => uid)
        const strangers = [...Object.keys(room.ztunnels.holds()), ...room.probeSet.entries.values()].filter(
          (uid) => !uids.includes(uid),
        )
        const seen = { pods: world.seen(), strangers }
        await room.stop()
        expect({
          told: steps.map(([[what], ms]) => `${what}, ${ms} ms`),
          seen,
          handles: room.host.openHandles,
        }).toEqual({
          told: expect.anything(),
          seen: { pods: world.expected(), strangers: [] },
          handles: 0,
        })
      }),
      { numRuns: runs },
    )
  }, 120_000)
})
