// SPDX-License-Identifier: Apache-2.0
import { beforeEach, describe, expect, test } from '@jest/globals'
import { Registry } from 'prom-client'
import { Book } from '../../../src/node-agent/addresses/book.js'
import { Confirmations } from '../../../src/node-agent/addresses/confirmations.js'
import { decodeEntry, encodeWorkloadEntry } from '../../../src/wire/entry.js'
import { ADDRESS_TYPE, type WorkloadMessage } from '../../../src/wire/messages.js'
import { FakeClock } from '../../support/fake-clock.js'
import { CollectedLog } from '../../xds/collected-log.js'
import { readMetric, webA } from './room.js'

const pod = { uid: 'u-1', namespace: 'shop', name: 'web-a', serviceAccount: 'default' }
let clock: FakeClock
let book: Book
let log: CollectedLog
let registry: Registry
let confirmations: Confirmations

beforeEach(() => {
  clock = new FakeClock()
  log = new CollectedLog()
  registry = new Registry()
  book = new Book({ clock, nodeName: 'node-1', mostEntries: 10, foundMs: 1, nobodyMs: 1, answerMs: 1 })
  confirmations = new Confirmations({ book, clock, log, registry, clusterId: 'Kubernetes', patienceMs: 30_000 })
  book.open(() => undefined)
})

function say(workload?: WorkloadMessage, removed: readonly string[] = []): void {
  const { name, version, entry } = encodeWorkloadEntry(workload ?? webA)
  const resource = { name, version, aliases: [], body: decodeEntry(entry).body }
  book.take({ typeUrl: ADDRESS_TYPE, nonce: 'n', resources: workload === undefined ? [] : [resource], removed })
}

const unconfirmed = (): Promise<unknown> => readMetric(registry, 'addressd_node_unconfirmed_pods')
const results = async (): Promise<unknown[]> =>
  await Promise.all(
    ['served', 'overdue'].map((result) => readMetric(registry, 'addressd_node_pod_confirmations_total', { result })),
  )
const lines = (): unknown[] =>
  log.records.map(({ level, fields, message }) => [level, fields['pod'], fields['says'], message])
const warning = 'pod is captured here but not served as HBONE by the control plane'

describe('a pod that was enrolled', () => {
  test('is confirmed as soon as it is served, in either order, and nothing is said', async () => {
    confirmations.expect(pod)
    expect(await unconfirmed()).toBe(1)
    say(webA)
    expect(await unconfirmed()).toBe(0)
    confirmations.forget(pod.uid)
    confirmations.expect(pod)
    confirmations.expect(pod)
    await clock.advance(60_000)
    expect([await unconfirmed(), await results(), lines()]).toEqual([0, [2, 0], []])
    expect(confirmations.confirm(pod)).toEqual({ isServed: true, says: 'it is served as HBONE' })
  })

  test.each<[string, () => void, string]>([
    ['is not known there', () => say(), 'it knows no such workload on this node'],
    ['is served as plain TCP', () => say({ ...webA, tunnelProtocol: 0 }), 'it is served as plain TCP'],
    ['while nobody was ever reached', () => undefined, 'nothing: it was never reached'],
    [
      'while the control plane is away',
      () => {
        say()
        book.close()
      },
      'nothing: it is away since 2026-01-01T00:00:00.000Z',
    ],
  ])('%s: that is said once, with its name, after a while', async (_what, happen, says) => {
    happen()
    confirmations.expect(pod)
    await clock.advance(29_999)
    expect(lines()).toEqual([])
    await clock.advance(600_000)
    expect(lines()).toEqual([['warn', 'shop/web-a', says, warning]])
    expect([await unconfirmed(), await results()]).toEqual([1, [0, 1]])
  })

  test('is served late: that is said, too', async () => {
    confirmations.expect(pod)
    say()
    await clock.advance(30_000)
    say(webA)
    expect(lines().map((line) => (line as unknown[])[3])).toEqual([warning, 'pod is served as HBONE now'])
    expect([await unconfirmed(), await results()]).toEqual([0, [1, 1]])
  })

  test('is served and then no longer: the patience begins anew', async () => {
    say(webA)
    confirmations.expect(pod)
    await clock.advance(100_000)
    say(undefined, [webA.uid])
    expect(await unconfirmed()).toBe(1)
    await clock.advance(29_999)
    expect(lines()).toEqual([])
    await clock.advance(1)
    expect(lines()).toEqual([['warn', 'shop/web-a', 'it knows no such workload on this node', warning]])
  })

  test('left: nothing is expected of it, and one of its name counts for itself', async () => {
    confirmations.expect(pod)
    confirmations.expect({ ...pod, uid: 'u-2' })
    confirmations.forget(pod.uid)
    confirmations.forget('nobody')
    expect(await unconfirmed()).toBe(1)
    await clock.advance(30_000)
    expect(log.records.map(({ fields }) => fields['uid'])).toEqual(['u-2'])
    confirmations.forget('u-2')
    expect([await unconfirmed(), clock.pending]).toEqual([0, 0])
  })
})
