// SPDX-License-Identifier: Apache-2.0
// What a source lets through, and when: only the two ends of the time between commits count.

import { describe, expect, test } from '@jest/globals'
import { createWatch, joined, nothing, row } from './watch.js'

const build = () => {
  const watch = createWatch()
  const source = watch.source('source')
  const byValue = watch.byValue(source)
  const groups = watch.source('groups')
  for (const key of ['A', 'B']) groups.set(key, row(key, ''))
  watch.derive('copy', source, (input) => input.value)
  watch.derive('members', groups, (input, read) => joined(read.many(byValue, input.key)))
  source.set('k', row('k', 'A'))
  watch.commit()
  return { ...watch, source, byValue }
}

describe('there and back', () => {
  test('an equal row set again is nothing and wakes nobody', () => {
    const { source, commit, graph } = build()
    let wakes = 0
    graph.onDirty(() => wakes++)
    const held = source.get('k')
    source.set('k', row('k', 'A'))
    expect(source.get('k')).toBe(held)
    expect(wakes).toBe(0)
    expect(commit()).toEqual(nothing)
  })

  test('A, B, A again is nothing, and the old row object stays', () => {
    const { source, commit } = build()
    const held = source.get('k')
    source.set('k', row('k', 'B'))
    source.set('k', row('k', 'A'))
    expect(source.get('k')).toBe(held)
    expect(commit()).toEqual(nothing)
  })

  test('A, B, C is one change from A to C', () => {
    const { source, commit } = build()
    source.set('k', row('k', 'B'))
    source.set('k', row('k', 'C'))
    expect(commit()).toEqual({
      changed: true,
      runs: ['copy k', 'members A'],
      told: { source: ['k: A -> C'], copy: ['k: A -> C'], members: ['A: k -> '] },
    })
  })

  test('deleted and set again equal is nothing', () => {
    const { source, commit, byValue } = build()
    source.delete('k')
    expect(byValue.lookup('A')).toEqual([])
    source.set('k', row('k', 'A'))
    expect(commit()).toEqual(nothing)
    expect(byValue.lookup('A')).toEqual([row('k', 'A')])
  })

  test('deleted and set again different is one change', () => {
    const { source, commit } = build()
    source.delete('k')
    source.set('k', row('k', 'B'))
    expect(commit().told).toEqual({ source: ['k: A -> B'], copy: ['k: A -> B'], members: ['A: k -> ', 'B:  -> k'] })
  })

  test('a row that comes and goes between two commits was never there', () => {
    const { source, commit } = build()
    source.set('new', row('new', 'A'))
    source.delete('new')
    source.delete('never')
    expect(commit()).toEqual(nothing)
  })
})

describe('replace', () => {
  test('upserts what is listed, deletes the rest, and tells nothing of what is equal', () => {
    const { source, commit } = build()
    source.set('same', row('same', 'A'))
    source.set('gone', row('gone', 'A'))
    commit()
    source.replace(
      new Map([
        ['k', row('k', 'B')],
        ['same', row('same', 'A')],
        ['new', row('new', 'B')],
      ]),
    )
    expect(commit()).toEqual({
      changed: true,
      runs: ['copy k', 'copy new', 'members A', 'members B'],
      told: {
        source: ['gone: A -> -', 'k: A -> B', 'new: - -> B'],
        copy: ['gone: A -> -', 'k: A -> B', 'new: - -> B'],
        members: ['A: gone+k+same -> same', 'B:  -> k+new'],
      },
    })
  })

  test('of an equal list is nothing; of an empty one deletes all', () => {
    const { source, commit } = build()
    source.replace(new Map([['k', row('k', 'A')]]))
    expect(commit()).toEqual(nothing)
    source.replace(new Map())
    expect(commit().told['source']).toEqual(['k: A -> -'])
    expect(source.size).toBe(0)
  })

  test('never passes through emptiness, not even for who looks between the calls', () => {
    const { source } = build()
    source.set('k2', row('k2', 'A'))
    const sizes: number[] = []
    const seen = new Proxy(
      new Map([
        ['k', row('k', 'A')],
        ['k3', row('k3', 'A')],
      ]),
      {
        get(target, property) {
          sizes.push(source.size)
          const value: unknown = Reflect.get(target, property, target)
          return typeof value === 'function' ? value.bind(target) : value
        },
      },
    )
    source.replace(seen)
    expect(Math.min(...sizes)).toBe(2)
    expect([...source.keys()].sort()).toEqual(['k', 'k3'])
  })
})

describe('a source between commits', () => {
  test('shows what was set at once, in its indexes too; what is derived follows at the commit', () => {
    const { source, byValue, graph, commit } = build()
    const copy = graph.derive('copy again', source, (input) => input, {
      key: (out) => out.key,
      equal: (a, b) => a.value === b.value,
    })
    commit()
    source.set('k', row('k', 'B'))
    expect([source.get('k'), byValue.lookup('B'), copy.get('k')]).toEqual([
      row('k', 'B'),
      [row('k', 'B')],
      row('k', 'A'),
    ])
    commit()
    expect(copy.get('k')).toEqual(row('k', 'B'))
    expect([...copy.keys(), ...copy.values(), copy.size]).toEqual(['k', row('k', 'B'), 1])
  })

  test('that a transform writes to refuses', () => {
    const { source, derive, commit, failures } = build()
    derive('writer', source, (input) => {
      source.set('other', row('other', 'A'))
      return input.value
    })
    commit()
    expect(failures).toEqual(['writer k: a transform writes to source: transforms only read'])
    expect([...source.keys()]).toEqual(['k'])
  })
})
