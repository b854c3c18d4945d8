// SPDX-License-Identifier: Apache-2.0
// Addresses for hosts of ServiceEntries: who gets which, who gives his back, who has to move, and what is never touched.

import { afterEach, describe, expect, test } from '@jest/globals'
import { readFileSync } from 'node:fs'
import { casesFolder, listCases } from '../conformance/folder.js'
import type { Json } from '../support/fake-apiserver-store.js'
import { ControlRoom, namespace, serviceEntry } from './room.js'

let room: ControlRoom
const ranges = { ipv4Prefix: '240.240.0.0/16', ipv6Prefix: '2001:2::/48' }
const pair = (host: string, n: number): readonly string[] => [`${host}=240.240.0.${n}`, `${host}=2001:2::${n}`]
const status = (host: string, n: number): Json => ({
  addresses: pair(host, n).map((text) => ({ value: text.slice(text.indexOf('=') + 1), host })),
})

afterEach(async () => {
  await room.close()
})

async function open(...objects: readonly Json[]): Promise<void> {
  room = await ControlRoom.open(namespace('auto'), ...objects)
  await room.start('a', { allocation: ranges })
  await room.advance(500)
}

/** Merges into a stored entry, and gives the leader time. */
async function edit(name: string, merge: Json): Promise<void> {
  room.server.patch({ kind: 'ServiceEntry', namespace: 'auto', name, merge })
  await room.advance(2_500)
}
const of = (name: string): readonly string[] | undefined => room.addresses('auto', name)

test('what is there counts first; new hosts get the next pair, known ones keep theirs, a host that is named twice has one [I1-I3]', async () => {
  await open(
    serviceEntry('auto', 'old', ['o.ex'], { status: status('o.ex', 1) }),
    serviceEntry('auto', 'new', ['n.ex']),
  )
  expect([of('old'), of('new')]).toEqual([pair('o.ex', 1), pair('n.ex', 2)])
  await edit('old', { spec: { hosts: ['p.ex', 'o.ex', 'p.ex'] } })
  expect(of('old')).toEqual([...pair('p.ex', 3), ...pair('o.ex', 1)])
  await edit('old', { spec: { hosts: ['p.ex'] } })
  expect(of('old')).toEqual(pair('p.ex', 3))
  // Addresses of hosts that are gone, and of entries that are, are not given out again while this one leads.
  room.server.remove({ kind: 'ServiceEntry', namespace: 'auto', name: 'new' })
  await room.change(serviceEntry('auto', 'next', ['x.ex']))
  expect(of('next')).toEqual(pair('x.ex', 4))
  expect(room.writes().filter((text) => text.endsWith('next/status'))).toHaveLength(1)
})

test('the oldest come first', async () => {
  await open(
    serviceEntry('auto', 'a', ['young.ex'], { metadata: { creationTimestamp: '2026-02-01T00:00:00Z' } }),
    serviceEntry('auto', 'z', ['old.ex'], { metadata: { creationTimestamp: '2026-01-01T00:00:00Z' } }),
  )
  expect([of('z'), of('a')]).toEqual([pair('old.ex', 1), pair('young.ex', 2)])
})

describe('the list is emptied, and its addresses come next [I5], when', () => {
  test.each([
    ['hosts become a wildcard', { spec: { hosts: ['*.ex'] } }],
    ['the label says so', { metadata: { labels: { 'networking.istio.io/enable-autoallocate-ip': 'False' } } }],
    ['it names addresses itself', { spec: { addresses: ['192.0.2.1'] } }],
    ['names are not resolved', { spec: { resolution: 'NONE' } }],
  ])('%s', async (_, merge) => {
    await open(serviceEntry('auto', 'e', ['h.ex']), serviceEntry('auto', 'f', ['i.ex']))
    expect(of('e')).toEqual(pair('h.ex', 1))
    await edit('e', merge)
    expect(of('e')).toEqual([])
    await room.change(serviceEntry('auto', 'g', ['j.ex']))
    expect(of('g')).toEqual(pair('j.ex', 1))
  })
})

test('a wildcard has addresses where names are resolved as they come [I3]', async () => {
  await open(
    serviceEntry('auto', 'dyn', ['*.ex'], { spec: { resolution: 'DYNAMIC_DNS' } }),
    serviceEntry('auto', 'dns', ['*.ex', 'h.ex']),
  )
  expect([of('dyn'), of('dns')]).toEqual([pair('*.ex', 1), pair('h.ex', 2)])
})

test('an entry whose list was emptied gets addresses again when it may have some', async () => {
  await open(serviceEntry('auto', 'e', ['h.ex'], { status: { addresses: [] } }))
  expect(of('e')).toEqual(pair('h.ex', 1))
})

describe('when an address has two owners [I6]', () => {
  test('who names it keeps it, and the other gets two new ones; conditions stay', async () => {
    const conditions = [{ type: 'example.org/Seen', status: 'True' }]
    await open(serviceEntry('auto', 'e', ['h.ex'], { status: { conditions } }))
    expect(of('e')).toEqual(pair('h.ex', 1))
    await room.change(serviceEntry('auto', 'user', ['u.ex'], { spec: { addresses: ['240.240.0.1'] } }))
    await room.advance(4_000)
    expect([of('e'), of('user')]).toEqual([pair('h.ex', 2), undefined])
    expect(room.server.get('ServiceEntry', 'auto', 'e')!['status'].conditions).toEqual(conditions)
    // What was given up is not given out again, the half that was nobody else's neither.
    await room.change(serviceEntry('auto', 'later', ['l.ex']))
    expect(of('later')).toEqual(pair('l.ex', 3))
  })

  test('of two that were given it the younger moves', async () => {
    const at = (time: string): Json => ({ creationTimestamp: time })
    await open(
      serviceEntry('auto', 'a', ['a.ex'], { metadata: at('2026-03-01T00:00:00Z'), status: status('a.ex', 7) }),
      serviceEntry('auto', 'b', ['b.ex'], { metadata: at('2026-01-01T00:00:00Z'), status: status('b.ex', 7) }),
    )
    expect([of('a'), of('b')]).toEqual([pair('a.ex', 1), pair('b.ex', 7)])
  })

  test('two specs may name the same one', async () => {
    const spec = { addresses: ['240.240.0.1'] }
    await open(serviceEntry('auto', 'a', ['a.ex'], { spec }), serviceEntry('auto', 'b', ['b.ex'], { spec }))
    expect([of('a'), of('b'), room.writes()]).toEqual([undefined, undefined, []])
  })
})

test('entries of other revisions are not touched, and what they have is in use', async () => {
  const labels = { 'istio.io/rev': 'other' }
  room = await ControlRoom.open(
    namespace('auto'),
    serviceEntry('auto', 'has', ['h.ex'], { metadata: { labels }, status: status('h.ex', 1) }),
    serviceEntry('auto', 'theirs', ['t.ex'], { metadata: { labels } }),
    serviceEntry('auto', 'ours', ['o.ex']),
  )
  await room.start('a', { allocation: ranges }, { revision: 'mine' })
  await room.advance(500)
  expect([of('has'), of('theirs'), of('ours')]).toEqual([pair('h.ex', 1), undefined, pair('o.ex', 2)])
})

describe('a write that', () => {
  test('somebody forestalls leaves what they wrote', async () => {
    room = await ControlRoom.open(namespace('auto'), serviceEntry('auto', 'e', ['h.ex']))
    room.server.api({ kind: 'ServiceEntry', subresource: 'status', answer: 409 })
    await room.start('a', { allocation: ranges })
    room.server.patch({ kind: 'ServiceEntry', namespace: 'auto', name: 'e', merge: { status: status('h.ex', 9) } })
    await room.advance(4_000)
    expect(of('e')).toEqual(pair('h.ex', 9))
    await room.change(serviceEntry('auto', 'f', ['i.ex']))
    expect(of('f')).toEqual(pair('i.ex', 1))
  })

  test('is not answered is made once more with the same addresses', async () => {
    room = await ControlRoom.open(namespace('auto'), serviceEntry('auto', 'e', ['h.ex']))
    room.server.api({ kind: 'ServiceEntry', subresource: 'status', answer: 500, times: 2 })
    await room.start('a', { allocation: ranges })
    await room.advance(4_000)
    expect(of('e')).toEqual(pair('h.ex', 1))
  })
})

test('it is used as soon as it is written: the host is found by its address', async () => {
  await open(serviceEntry('auto', 'e', ['h.ex']))
  expect(room.replicas[0]!.pushes.at(-1)).toContain('auto/h.ex')
  const found = room.replicas[0]!.address.store.source('type.googleapis.com/istio.workload.Address')!.lookup(
    '/240.240.0.1',
  )
  expect(found.map((resource) => resource.name)).toContain('auto/h.ex')
})

describe('as recorded', () => {
  const folder = casesFolder('address')
  const cases = folder === undefined ? [] : listCases(folder).filter((path) => path.includes('/auto-addresses-'))
  // Of one the addresses were written by hand, and of one allocation was off.
  const played = cases.filter((path) => !/-by-hand|-off/.test(path))
  if (played.length === 0) {
    console.warn('SKIPPED: no recorded cases of allocated addresses')
    test.skip('there are none', () => undefined)
    return
  }
  test.each(played.map((path) => [path.split('/').at(-2) ?? '', path]))(
    '%s',
    async (_, path) => {
      const { steps, settings } = JSON.parse(readFileSync(path, 'utf8'))
      const env = settings.env ?? {}
      room = await ControlRoom.open()
      const allocation = {
        ipv4Prefix: env.PILOT_IP_AUTOALLOCATE_IPV4_PREFIX ?? ranges.ipv4Prefix,
        ipv6Prefix: env.PILOT_IP_AUTOALLOCATE_IPV6_PREFIX ?? ranges.ipv6Prefix,
      }
      await room.start('a', { allocation })
      for (const { step, upsert, delete: gone } of steps) {
        for (const { kind, namespace: ns, name } of gone) room.server.remove({ kind, namespace: ns, name })
        const entries = upsert.filter(({ kind }: Json) => kind === 'ServiceEntry')
        // What a person did: everything but the list of addresses. Those that only came to be moved are not touched by a person.
        for (const object of upsert) {
          const { namespace: ns, name } = object.metadata
          const present = room.server.get(object.kind, ns, name)
          const { addresses: _, ...others } = object.status ?? {}
          const kept = present?.['status']?.addresses === undefined ? {} : { addresses: present['status'].addresses }
          const next = { ...others, ...kept }
          room.server.upsert(
            Object.keys(next).length === 0 ? { ...object, status: undefined } : { ...object, status: next },
          )
        }
        await room.advance(4_000)
        for (const { metadata, status: recorded } of entries) {
          const wanted = recorded?.addresses?.map(({ host, value }: Json) => `${String(host)}=${String(value)}`)
          // The recorded control plane never allocates for an entry whose list it once emptied; ours does.
          const isOnceEmptied = path.includes('-status-has-conditions/') && step === '4'
          expect([step, metadata.name, of_(metadata)]).toEqual([
            step,
            metadata.name,
            isOnceEmptied ? pair('m.auto3', 1) : wanted,
          ])
        }
      }
    },
    60_000,
  )

  function of_({ namespace: ns, name }: Json): readonly string[] | undefined {
    return room.addresses(ns, name)
  }
})
