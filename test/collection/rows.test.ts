// SPDX-License-Identifier: Apache-2.0
// Where rows of several inputs meet: groups, unions, and keys that two rows give.

import { describe, expect, test } from '@jest/globals'
import { createWatch, nothing, row, rowOptions, type Row } from './watch.js'

describe('distinct', () => {
  const build = () => {
    const watch = createWatch()
    const pods = watch.source('pods')
    const groups = watch.graph.distinct('groups', pods, (pod) =>
      pod.value === '' ? undefined : ([pod.value, row(pod.value, 'group')] as const),
    )
    watch.watched(groups)
    watch.derive('out', groups, (group) => group.key.toUpperCase())
    return { ...watch, pods, groups }
  }

  test('has one row for any number of members and runs what reads it once', () => {
    const { pods, commit } = build()
    for (const key of ['1', '2', '3']) pods.set(key, row(key, 'x'))
    pods.set('none', row('none', ''))
    const { runs, told } = commit()
    expect(runs).toEqual(['out x'])
    expect(told['groups']).toEqual(['x: - -> group'])
  })

  test('keeps the row until the last member leaves', () => {
    const { pods, commit } = build()
    pods.set('1', row('1', 'x'))
    pods.set('2', row('2', 'x'))
    commit()
    pods.delete('1')
    expect(commit().told).toEqual({ pods: ['1: x -> -'] })
    pods.set('2', row('2', 'y'))
    expect(commit().told).toEqual({
      pods: ['2: x -> y'],
      groups: ['x: group -> -', 'y: - -> group'],
      out: ['x: X -> -', 'y: - -> Y'],
    })
  })

  test('says nothing of a group that one member leaves as another joins, and keeps its row object', () => {
    const { pods, groups, commit } = build()
    pods.set('1', row('1', 'x'))
    commit()
    const held = groups.get('x')
    pods.delete('1')
    pods.set('2', row('2', 'x'))
    expect(commit()).toEqual({ changed: true, runs: [], told: { pods: ['1: x -> -', '2: - -> x'] } })
    expect(groups.get('x')).toBe(held)
  })

  test('leaves out a row whose group cannot be told, reports it once, and takes it in when it can', () => {
    const watch = createWatch()
    const pods = watch.source('pods')
    const groups = watch.graph.distinct('groups', pods, (pod) => {
      if (pod.value.startsWith('bad')) throw new Error('no group')
      return [pod.value, pod.value] as const
    })
    pods.set('1', row('1', 'bad'))
    watch.commit()
    pods.set('1', row('1', 'bad still'))
    watch.commit()
    expect([groups.size, watch.failures]).toEqual([0, ['groups 1: no group']])
    pods.set('1', row('1', 'good'))
    watch.commit()
    expect([...groups.keys()]).toEqual(['good'])
  })
})

describe('a union', () => {
  const build = () => {
    const watch = createWatch()
    const first = watch.source('first')
    const second = watch.source('second')
    const both = watch.watched(watch.graph.union('both', first, second))
    watch.derive('out', both, (each) => each.value)
    return { ...watch, first, second, both }
  }

  test('shows the earlier part where both have a key, whatever came first', () => {
    const { first, second, commit } = build()
    second.set('k', row('k', 'second'))
    second.set('only', row('only', 'second'))
    expect(commit().told['both']).toEqual(['k: - -> second', 'only: - -> second'])
    first.set('k', row('k', 'first'))
    expect(commit().told['both']).toEqual(['k: second -> first'])
    second.set('k', row('k', 'second again'))
    expect(commit()).toEqual({ changed: true, runs: [], told: { second: ['k: second -> second again'] } })
    first.delete('k')
    expect(commit().told['both']).toEqual(['k: first -> second again'])
  })

  test('says nothing when an equal row moves from part to part', () => {
    const { first, second, both, commit } = build()
    second.set('k', row('k', 'v'))
    commit()
    const held = both.get('k')
    second.delete('k')
    first.set('k', row('k', 'v'))
    expect(commit()).toEqual({ changed: true, runs: [], told: { first: ['k: - -> v'], second: ['k: v -> -'] } })
    expect(both.get('k')).toBe(held)
  })

  test('is indexed like any other', () => {
    const { first, second, both, commit, byValue } = build()
    const index = byValue(both)
    second.set('k', row('k', 'v'))
    commit()
    expect(index.lookup('v')).toEqual([row('k', 'v')])
    first.set('k', row('k', 'w'))
    commit()
    expect([index.lookup('v'), index.lookup('w')]).toEqual([[], [row('k', 'w')]])
  })
})

describe('two rows that give the same key', () => {
  const build = () => {
    const watch = createWatch()
    const rows = watch.source('rows')
    // A row "key value" of each word pair: "k=1" gives row k with value 1.
    const out = watch.deriveMany('out', rows, (input) =>
      input.value
        .split(' ')
        .filter((word) => word !== '')
        .map((word) => row(word.split('=')[0]!, word.split('=')[1]!)),
    )
    return { ...watch, rows, out }
  }

  test('the lowest input key stays, whichever came first', () => {
    for (const order of [
      ['a', 'b', 'c'],
      ['c', 'b', 'a'],
      ['b', 'c', 'a'],
    ]) {
      const { rows, out, commit } = build()
      for (const key of order) {
        rows.set(key, row(key, `k=${key}`))
        commit()
      }
      expect([...out.values()]).toEqual([row('k', 'a')])
    }
  })

  test('the loser appears when the winner goes, changes its mind, or no longer gives the key', () => {
    const { rows, commit, failures } = build()
    rows.set('a', row('a', 'k=a'))
    rows.set('b', row('b', 'k=b'))
    expect(commit().told['out']).toEqual(['k: - -> a'])
    expect(failures).toEqual(['out b: gives a row under k, which a gives too and keeps'])
    rows.set('b', row('b', 'k=b2'))
    expect(commit().told['out']).toEqual(undefined)
    rows.set('a', row('a', 'j=a'))
    expect(commit().told['out']).toEqual(['j: - -> a', 'k: a -> b2'])
    rows.set('a', row('a', 'k=a'))
    expect(commit().told['out']).toEqual(['j: a -> -', 'k: b2 -> a'])
    rows.delete('a')
    expect(commit().told['out']).toEqual(['k: a -> b2'])
    rows.delete('b')
    expect(commit().told['out']).toEqual(['k: b2 -> -'])
  })

  test('is told of the former holder when a lower row takes the key', () => {
    const { rows, commit, failures } = build()
    rows.set('b', row('b', 'k=b'))
    commit()
    rows.set('a', row('a', 'k=a'))
    expect(commit().told['out']).toEqual(['k: b -> a'])
    expect(failures).toEqual(['out b: gives a row under k, which a gives too and keeps'])
  })

  test('the key may be the own key of either', () => {
    const { rows, out, commit } = build()
    rows.set('k', row('k', 'k=own'))
    commit()
    rows.set('z', row('z', 'k=z'))
    expect(commit().told['out']).toBeUndefined()
    rows.set('a', row('a', 'k=a'))
    expect(commit().told['out']).toEqual(['k: own -> a'])
    rows.delete('a')
    expect(commit().told['out']).toEqual(['k: a -> own'])
    rows.delete('k')
    expect(commit().told['out']).toEqual(['k: own -> z'])
    rows.set('k', row('k', 'k=own'))
    expect(commit().told['out']).toEqual(['k: z -> own'])
    rows.set('k', row('k', ''))
    expect(commit().told['out']).toEqual(['k: own -> z'])
    rows.delete('z')
    rows.delete('k')
    expect([commit().told['out'], out.size]).toEqual([['k: z -> -'], 0])
  })

  test('a key handed over within one commit is a change, not a contest', () => {
    for (const [from, to] of [
      ['a', 'b'],
      ['b', 'a'],
    ] as const) {
      const { rows, commit, failures } = build()
      rows.set(from, row(from, 'k=old'))
      commit()
      rows.set('b', row('b', to === 'b' ? 'k=new' : ''))
      rows.set('a', row('a', to === 'a' ? 'k=new' : ''))
      expect(commit().told['out']).toEqual(['k: old -> new'])
      rows.set(to, row(to, ''))
      rows.set(from, row(from, 'k=new'))
      expect(commit().told['out']).toBeUndefined()
      expect(failures).toEqual([])
    }
  })

  test('one row that gives a key twice fails', () => {
    const { rows, out, commit, failures } = build()
    rows.set('a', row('a', 'k=1'))
    commit()
    rows.set('a', row('a', 'k=2 j=1 k=3'))
    commit()
    expect([[...out.values()], failures]).toEqual([[row('k', '1')], ['out a: gives two rows under k']])
  })
})

describe('a transform that throws', () => {
  const build = () => {
    const watch = createWatch()
    const other = watch.source('other')
    const rows = watch.source('rows')
    watch.derive('out', rows, (input, read) => {
      const trouble = read.one(other, input.key)
      if (trouble !== undefined) throw new Error(trouble.value)
      return input.value
    })
    rows.set('1', row('1', 'a'))
    rows.set('2', row('2', 'b'))
    watch.commit()
    return { ...watch, other, rows }
  }

  test('keeps its last good row, disturbs no other, and is reported once', () => {
    const { other, rows, commit, failures } = build()
    other.set('1', row('1', 'broken'))
    rows.set('2', row('2', 'c'))
    expect(commit()).toEqual({
      changed: true,
      runs: ['out 1', 'out 2'],
      told: { other: ['1: - -> broken'], rows: ['2: b -> c'], out: ['2: b -> c'] },
    })
    rows.set('1', row('1', 'a2'))
    expect(commit()).toEqual({ changed: true, runs: ['out 1'], told: { rows: ['1: a -> a2'] } })
    expect(failures).toEqual(['out 1: broken'])
  })

  test('is reported again with another message, or after it has done well', () => {
    const { other, commit, failures } = build()
    for (const value of ['broken', 'worse', undefined, 'worse']) {
      if (value === undefined) other.delete('1')
      else other.set('1', row('1', value))
      commit()
    }
    expect(failures).toEqual(['out 1: broken', 'out 1: worse', 'out 1: worse'])
  })

  test('is tried again when something it read changes', () => {
    const { other, rows, commit } = build()
    other.set('1', row('1', 'broken'))
    rows.set('1', row('1', 'a2'))
    commit()
    expect(commit()).toEqual(nothing)
    other.delete('1')
    expect(commit()).toEqual({
      changed: true,
      runs: ['out 1'],
      told: { other: ['1: broken -> -'], out: ['1: a -> a2'] },
    })
  })

  test('gives its last good row up when its input goes', () => {
    const { other, rows, commit } = build()
    other.set('1', row('1', 'broken'))
    commit()
    rows.delete('1')
    expect(commit().told['out']).toEqual(['1: a -> -'])
  })

  test('in its key is the same; in its equality the row counts as changed', () => {
    const watch = createWatch()
    const rows = watch.source('rows')
    const out = watch.graph.derive<Row, Row>('out', rows, (input) => row(input.key, input.value), {
      key: (each) => {
        if (each.value === 'no key') throw new Error('no key')
        return each.key
      },
      equal: (a, b) => {
        if (b.value === 'no equality') throw new Error('no equality')
        return rowOptions.equal(a, b)
      },
    })
    for (const value of ['a', 'no key', 'no equality']) {
      rows.set('1', row('1', value))
      watch.commit()
    }
    expect(out.get('1')).toEqual(row('1', 'no equality'))
    expect(new Set(watch.failures)).toEqual(new Set(['out 1: no key', 'out : no equality']))
  })
})

describe('when every row is gone', () => {
  test('nothing is left of reads, terms, groups, owners and failures', () => {
    const watch = createWatch()
    const pods = watch.source('pods')
    const byValue = watch.byValue(pods)
    const domain = watch.graph.setting('domain', 'd')
    const groups = watch.graph.distinct('groups', pods, (pod) => [pod.value, row(pod.value, 'group')])
    const members = watch.derive('members', groups, (group, read) => String(read.many(byValue, group.key).length))
    const out = watch.deriveMany('out', pods, (pod, read) => {
      if (pod.value === 'g3') throw new Error('no good')
      const size = read.one(members, pod.value)?.value ?? ''
      read.one(members, `missing ${pod.key}`)
      read.many(byValue, 'missing')
      return [row(`x ${pod.value}`, size + read.setting(domain)), row(`y ${pod.key}`, '')]
    })
    const all = watch.graph.union('all', out, pods)
    watch.byValue(all)
    for (let round = 0; round < 3; round++) {
      for (let each = 0; each < 200; each++) pods.set(`p${each}`, row(`p${each}`, `g${(each + round) % 7}`))
      watch.commit()
    }
    expect(watch.graph.footprint()).toMatchObject({ slots: 207 })
    for (let each = 0; each < 100; each++) pods.delete(`p${each}`)
    watch.commit()
    pods.replace(new Map())
    watch.commit()
    expect(watch.graph.footprint()).toEqual({ rows: 0, slots: 0, cells: 0, reads: 0, rest: 0 })
  })
})
