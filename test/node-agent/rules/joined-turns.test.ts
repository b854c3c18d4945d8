// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { type Failures, JoinedTurns } from '../../../src/node-agent/rules/joined-turns.js'

interface Item {
  readonly name: string
}

class Room {
  readonly turns = new JoinedTurns()
  readonly done: string[] = []
  readonly failing = new Set<string>()
  readonly put = this.#together('put')
  readonly drop = this.#together('drop')

  ask(kind: 'put' | 'drop', name: string): Promise<void> {
    return this.turns.join<Item>({ name }, this[kind])
  }

  look(): Promise<void> {
    return this.turns.run(async () => {
      await Promise.resolve()
      this.done.push('look')
    })
  }

  #together(kind: string): (items: readonly Item[]) => Promise<Failures<Item>> {
    return async (items) => {
      await Promise.resolve()
      this.done.push(`${kind} ${items.map(({ name }) => name).join(' ')}`)
      return new Map(items.filter(({ name }) => this.failing.has(name)).map((item) => [item, new Error(item.name)]))
    }
  }
}

describe('turns that are joined', () => {
  test('those of a kind that wait behind each other are one', async () => {
    const room = new Room()
    await Promise.all([room.look(), room.ask('put', 'a'), room.ask('put', 'b'), room.ask('put', 'c')])
    expect(room.done).toEqual(['look', 'put a b c'])
  })

  test('whatever comes in between keeps its place', async () => {
    const room = new Room()
    await Promise.all([
      room.look(),
      room.ask('put', 'a'),
      room.ask('drop', 'a'),
      room.ask('put', 'b'),
      room.look(),
      room.ask('put', 'c'),
      room.ask('put', 'd'),
    ])
    expect(room.done).toEqual(['look', 'put a', 'drop a', 'put b', 'look', 'put c d'])
  })

  test('one that has begun takes nobody along any more', async () => {
    const room = new Room()
    const first = room.ask('put', 'a')
    await Promise.resolve()
    await Promise.resolve()
    await Promise.all([first, room.ask('put', 'b'), room.ask('put', 'c')])
    expect(room.done).toEqual(['put a', 'put b c'])
  })

  test('each is told of its own failure, and of that of the whole', async () => {
    const room = new Room()
    room.failing.add('b')
    const fails = async (): Promise<Failures<Item>> => {
      await Promise.resolve()
      throw new Error('all')
    }
    const outcomes = await Promise.allSettled([
      room.ask('put', 'a'),
      room.ask('put', 'b'),
      room.turns.join({ name: 'c' }, fails),
      room.turns.join({ name: 'd' }, fails),
      room.ask('put', 'e'),
    ])
    expect(outcomes.map((one) => (one.status === 'fulfilled' ? 'done' : (one.reason as Error).message))).toEqual([
      'done',
      'b',
      'all',
      'all',
      'done',
    ])
  })
})
