// SPDX-License-Identifier: Apache-2.0
// The address book against a control plane that is a function: every message is seen, and time is moved by hand.

import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { Retryable } from '../../../src/base/errors.js'
import { Book, type BookOptions, type Send } from '../../../src/node-agent/addresses/book.js'
import type { DeltaResource } from '../../../src/node-agent/addresses/messages.js'
import { decodeEntry } from '../../../src/wire/entry.js'
import { ADDRESS_TYPE, AUTHORIZATION_TYPE } from '../../../src/wire/messages.js'
import type { ServiceMessage, WorkloadMessage } from '../../../src/wire/messages.js'
import { FakeClock, tick } from '../../support/fake-clock.js'
import { ip, makeService, makeWorkload, ToyStore } from '../../support/toy-store.js'
import { lone, range, web, webA, webB } from './room.js'

type Ask = Parameters<Send>[0]

function open(options: Partial<BookOptions> = {}) {
  const clock = new FakeClock()
  const book = new Book({
    clock,
    nodeName: 'node-1',
    mostEntries: 100,
    foundMs: 60_000,
    nobodyMs: 5_000,
    answerMs: 1_000,
    ...options,
  })
  const sent: Ask[] = []
  const send: Send = (ask) => sent.push(ask)
  let nonce = 0
  return {
    clock,
    book,
    sent,
    first: () => book.open(send),
    /** A response with these, and with these names removed. */
    say(messages: readonly (ServiceMessage | WorkloadMessage)[], removed: readonly string[] = []): void {
      const store = new ToyStore()
      store.put(...messages)
      const resources = [...store.addresses.all()].map(({ name, version, aliases, entry }): DeltaResource => {
        return { name, version, aliases, body: decodeEntry(entry ?? new Uint8Array()).body }
      })
      book.take({ typeUrl: ADDRESS_TYPE, nonce: `n${++nonce}`, resources, removed })
    },
    ask: async (...keys: string[]) => {
      const looked = await book.look(keys, () => keys.map((key) => book.held.matches(key).map(({ name }) => name)))
      return [looked.standing, ...looked.value]
    },
    /** Requests since this was asked last, acknowledgements left out. */
    requests: () => sent.splice(0).filter(({ nonce: acknowledged }) => acknowledged === undefined),
  }
}

/** Connected, with the node's own workload. */
function connected(options: Partial<BookOptions> = {}) {
  const room = open(options)
  room.first()
  room.say([webA])
  room.sent.length = 0
  return room
}

describe('what is said to the control plane', () => {
  test('a stream begins with a subscription to nothing, and with all that is held and was asked for', async () => {
    const room = open()
    expect(room.first()).toEqual({
      typeUrl: ADDRESS_TYPE,
      subscribe: ['*'],
      unsubscribe: ['*'],
      initialVersions: new Map(),
    })
    room.say([webA])
    const found = room.ask('/10.0.0.9', '/10.0.0.77')
    await tick()
    room.say([lone], ['/10.0.0.9', '/10.0.0.77'])
    await found
    room.book.close()
    const versions = room.first().initialVersions
    expect([...(versions ?? [])].map(([name, version]) => [name, version !== '']).sort()).toEqual([
      ['/10.0.0.77', false],
      ['/10.0.0.9', false],
      [lone.uid, true],
      [webA.uid, true],
    ])
  })

  test('every response is acknowledged, one of a type that nobody asked for too', () => {
    const room = open()
    room.first()
    room.say([webA])
    room.book.take({ typeUrl: AUTHORIZATION_TYPE, nonce: 'x', resources: [], removed: [] })
    expect(room.sent).toEqual([
      { typeUrl: ADDRESS_TYPE, nonce: 'n1' },
      { typeUrl: AUTHORIZATION_TYPE, nonce: 'x' },
    ])
  })

  test('a key is asked for once, whoever waits for it, and keys of one moment together', async () => {
    const room = connected()
    const answers = [room.ask('/10.0.0.9'), room.ask('/10.0.0.9', lone.uid), room.ask('/10.0.0.77')]
    await tick()
    expect(room.requests()).toEqual([{ typeUrl: ADDRESS_TYPE, subscribe: ['/10.0.0.9', lone.uid, '/10.0.0.77'] }])
    room.say([lone], ['/10.0.0.9', '/10.0.0.77'])
    expect(await Promise.all(answers)).toEqual([
      ['current', [lone.uid]],
      ['current', [lone.uid], [lone.uid]],
      ['current', []],
    ])
    expect(await room.ask('/10.0.0.9')).toEqual(['current', [lone.uid]])
    expect(room.requests()).toEqual([])
  })

  test('what was removed and nobody asked for by name is given back', () => {
    const room = connected()
    room.say([], [webA.uid])
    expect(room.requests()).toEqual([{ typeUrl: ADDRESS_TYPE, unsubscribe: [webA.uid] }])
    expect(room.book.held.size).toBe(0)
  })
})

describe('time', () => {
  test('nobody holds for a short time, looked at or not, and is then asked again', async () => {
    const room = connected()
    const first = room.ask('/10.0.0.77')
    await tick()
    room.say([], ['/10.0.0.77'])
    await first
    room.requests()
    await room.clock.advance(4_000)
    expect(await room.ask('/10.0.0.77')).toEqual(['current', []])
    await room.clock.advance(1_001)
    const second = room.ask('/10.0.0.77')
    await tick()
    expect(room.requests()).toEqual([{ typeUrl: ADDRESS_TYPE, subscribe: ['/10.0.0.77'] }])
    room.say([lone, { ...lone, uid: 'x//Pod/shop/new', name: 'new', addresses: [ip('10.0.0.77')] }], ['/10.0.0.77'])
    expect(await second).toEqual(['current', ['x//Pod/shop/new']])
  })

  test('what is found holds for as long as somebody looks, and is then let go of and given back', async () => {
    const room = connected()
    const first = room.ask('/10.96.0.10')
    await tick()
    room.say([web, webA, webB], ['/10.96.0.10'])
    await first
    for (let i = 0; i < 5; i++) {
      await room.clock.advance(50_000)
      room.book.expire()
      expect(await room.ask('/10.96.0.10')).toMatchObject(['current', [expect.anything()]])
    }
    room.requests()
    await room.clock.advance(60_001)
    room.book.expire()
    const [given, ...more] = room.requests()
    expect(more).toEqual([])
    expect([...(given?.unsubscribe ?? [])].sort()).toEqual(
      ['/10.96.0.10', webB.uid, 'shop/web.shop.svc.cluster.local'].sort(),
    )
    // The workload of the node itself stays, though the service brought it, too.
    expect([...room.book.held.all()].map(({ name }) => name)).toEqual([webA.uid])
  })

  test('while the control plane is away nothing becomes too old', async () => {
    const room = connected()
    const first = room.ask('/10.0.0.9', '/10.0.0.77')
    await tick()
    room.say([lone], ['/10.0.0.9', '/10.0.0.77'])
    await first
    room.book.close()
    await room.clock.advance(3_600_000)
    room.book.expire()
    expect(await room.ask('/10.0.0.9', '/10.0.0.77')).toEqual(['stale', [lone.uid], []])
    expect(room.book.ageMs).toBe(3_600_000)
    expect(await room.ask('/10.0.0.78')).toEqual(['unknown', []])
    room.first()
    expect((await room.ask('/10.0.0.9'))[0]).toBe('stale')
    room.say([])
    expect(room.book.ageMs).toBe(0)
    room.book.expire()
    expect(room.book.asked.size).toBe(0)
  })

  test('a question that is not answered is given up in time, and is sent again when asked again', async () => {
    const room = connected()
    const late = room.ask('/10.0.0.9')
    await room.clock.advance(1_000)
    expect(await late).toEqual(['late', []])
    room.requests()
    const again = room.ask('/10.0.0.9')
    await tick()
    expect(room.requests()).toEqual([{ typeUrl: ADDRESS_TYPE, subscribe: ['/10.0.0.9'] }])
    room.say([lone], ['/10.0.0.9'])
    expect(await again).toEqual(['current', [lone.uid]])
    expect(room.clock.pending).toBe(0)
  })

  test('who waits when the stream ends is answered with what was known', async () => {
    const room = connected()
    const own = room.ask('/10.0.0.1')
    const other = room.ask('/10.0.0.9')
    room.book.close()
    expect([await own, await other]).toEqual([
      ['stale', [webA.uid]],
      ['unknown', []],
    ])
  })

  test('who gives up waiting leaves nothing behind', async () => {
    const room = connected()
    const end = new AbortController()
    const looked = room.book.look(['/10.0.0.9'], () => 0, end.signal)
    end.abort(new Error('enough'))
    await expect(looked).rejects.toThrow('enough')
    await expect(room.book.look(['/10.0.0.9'], () => 0, end.signal)).rejects.toThrow('enough')
    expect(room.clock.pending).toBe(0)
  })
})

describe('the bound', () => {
  test('the longest unused goes first, with what only it had brought', async () => {
    const room = connected({ mostEntries: 4 })
    const ask = async (uid: string): Promise<void> => {
      const looked = room.ask(uid)
      await tick()
      room.say([{ ...lone, uid, name: uid }])
      expect(await looked).toEqual(['current', [uid]])
    }
    await ask('a')
    await ask('b')
    await room.ask('a')
    room.requests()
    await ask('c')
    expect(room.requests()).toEqual([
      { typeUrl: ADDRESS_TYPE, subscribe: ['c'] },
      { typeUrl: ADDRESS_TYPE, unsubscribe: ['b'] },
    ])
    expect([...room.book.held.all()].map(({ name }) => name).sort()).toEqual([webA.uid, 'a', 'c'])
  })

  test('an answer that is larger than all that may be kept is given, and kept not', async () => {
    const room = connected({ mostEntries: 10 })
    const members = Array.from({ length: 50 }, (_, i) => ({ ...webB, name: `m-${i}`, uid: `m-${i}` }))
    const looked = room.ask('/10.96.0.10')
    await tick()
    room.say([web, ...members], ['/10.96.0.10'])
    expect(await looked).toEqual(['current', ['shop/web.shop.svc.cluster.local']])
    expect([...room.book.held.all()].map(({ name }) => name)).toEqual([webA.uid])
    expect(room.book.asked.size).toBe(0)
    expect(room.requests().at(-1)?.unsubscribe).toHaveLength(52)
  })

  test('more questions than can be kept are refused while they wait', async () => {
    const room = connected({ mostEntries: 2 })
    const waiting = [room.ask('x'), room.ask('y')]
    await expect(room.ask('z')).rejects.toThrow(Retryable)
    room.book.close()
    expect((await Promise.all(waiting)).map(([standing]) => standing)).toEqual(['unknown', 'unknown'])
  })

  test('workloads of the node itself do not count and do not go', () => {
    const room = connected({ mostEntries: 2 })
    room.say(Array.from({ length: 50 }, (_, i) => makeWorkload({ name: `own-${i}` })))
    expect(room.book.held.ownSize).toBe(51)
    expect(room.requests()).toEqual([])
  })

  test('whatever is asked, changes and goes, what is held has a reason, and the counts are right', () => {
    const step = fc.oneof(
      fc.record({ ask: fc.nat(30) }),
      fc.record({ put: fc.nat(30), node: fc.constantFrom('node-1', 'node-2'), member: fc.boolean() }),
      fc.record({ remove: fc.nat(30) }),
      fc.record({ waitMs: fc.nat(90_000) }),
      fc.constant({ lose: true }),
    )
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const room = connected({ mostEntries: 12 })
        for (const one of steps) {
          if ('ask' in one)
            void room.ask(`uid-${one.ask}`).catch(() => undefined) // too many wait: that is an answer
          else if ('put' in one) {
            const services = one.member ? webA.services : new Map<string, never>()
            room.say([makeWorkload({ name: `p-${one.put}`, uid: `uid-${one.put}`, node: one.node, services })])
          } else if ('remove' in one) room.say([], [`uid-${one.remove}`])
          else if ('waitMs' in one) {
            void room.clock.advance(one.waitMs)
            room.book.expire()
          } else {
            room.book.close()
            room.first()
          }
          const { held, asked } = room.book
          const all = [...held.all()]
          expect(held.ownSize).toBe(all.filter((each) => held.isOwn(each)).length)
          expect(asked.size + held.size - held.ownSize).toBeLessThanOrEqual(12)
          expect(asked.nobodySize).toBe([...asked.keys()].filter((key) => held.matches(key).length === 0).length)
        }
      }),
      { numRuns: 100 },
    )
  })
})

describe('what belongs together', () => {
  test('an address inside a range is found by the service of the range, and lost with it', async () => {
    const room = connected()
    const looked = room.ask('/172.20.1.1')
    await tick()
    room.say([range], ['/172.20.1.1'])
    expect(await looked).toEqual(['current', ['edge/legacy.example.com']])
    room.say([], ['edge/legacy.example.com'])
    expect(await room.ask('/172.20.1.1')).toEqual(['current', []])
    expect(room.book.asked.nobodySize).toBe(1)
  })

  test('members go with their service, and one that leaves it goes alone', async () => {
    const room = connected()
    const service = makeService({ name: 'web' })
    const key = 'shop/web.shop.svc.cluster.local'
    const looked = room.ask(key)
    await tick()
    room.say([service, webB, { ...webB, name: 'web-c', uid: 'web-c' }])
    await looked
    room.requests()
    room.say([{ ...webB, services: new Map() }])
    expect(room.requests()).toEqual([{ typeUrl: ADDRESS_TYPE, unsubscribe: [webB.uid] }])
    room.say([], [key])
    expect(room.requests()).toEqual([{ typeUrl: ADDRESS_TYPE, unsubscribe: ['web-c'] }])
    expect(await room.ask(key)).toEqual(['current', []])
  })

  test('an address that is somebody else’s by now is found there [aliases]', async () => {
    const room = connected()
    const looked = room.ask('/10.0.0.9')
    await tick()
    room.say([lone], ['/10.0.0.9'])
    await looked
    room.say([
      { ...lone, addresses: [ip('10.0.0.10')] },
      { ...webA, addresses: [ip('10.0.0.9')] },
    ])
    expect(await room.ask('/10.0.0.9')).toEqual(['current', [webA.uid]])
    expect([...room.book.held.all()].map(({ name }) => name)).toEqual([webA.uid])
  })
})
