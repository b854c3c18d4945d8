// SPDX-License-Identifier: Apache-2.0
// Which rows run and what is told, by the shape of the graph. Whole commits are compared: no run and no change more than these.

import { describe, expect, test } from '@jest/globals'
import { createWatch, joined, nothing, row } from './watch.js'

describe('a chain', () => {
  const build = () => {
    const watch = createWatch()
    const a = watch.source('a')
    const b = watch.derive('b', a, (input) => input.value.slice(0, 1))
    const c = watch.derive('c', b, (input) => `${input.value}!`)
    a.set('1', row('1', 'xy'))
    a.set('2', row('2', 'zz'))
    return { ...watch, a, b, c }
  }

  test('is built in one commit, each row once, table by table', () => {
    expect(build().commit()).toEqual({
      changed: true,
      runs: ['b 1', 'b 2', 'c 1', 'c 2'],
      told: { a: ['1: - -> xy', '2: - -> zz'], b: ['1: - -> x', '2: - -> z'], c: ['1: - -> x!', '2: - -> z!'] },
    })
  })

  test('runs only the row that changed', () => {
    const { a, commit } = build()
    commit()
    a.set('2', row('2', 'q'))
    expect(commit()).toEqual({
      changed: true,
      runs: ['b 2', 'c 2'],
      told: { a: ['2: zz -> q'], b: ['2: z -> q'], c: ['2: z! -> q!'] },
    })
  })

  test('ends where an output is equal to the last', () => {
    const { a, commit } = build()
    commit()
    a.set('1', row('1', 'x other'))
    expect(commit()).toEqual({ changed: true, runs: ['b 1'], told: { a: ['1: xy -> x other'] } })
  })

  test('takes a deleted row out of every table', () => {
    const { a, commit } = build()
    commit()
    a.delete('1')
    expect(commit()).toEqual({
      changed: true,
      runs: [],
      told: { a: ['1: xy -> -'], b: ['1: x -> -'], c: ['1: x! -> -'] },
    })
  })

  test('does nothing when nothing was set', () => {
    const { commit } = build()
    commit()
    expect(commit()).toEqual(nothing)
  })
})

describe('a diamond', () => {
  test('runs its bottom row once and never sees one side old and the other new', () => {
    const watch = createWatch()
    const top = watch.source('top')
    const left = watch.derive('left', top, (input) => `l${input.value}`)
    const right = watch.derive('right', top, (input) => `r${input.value}`)
    watch.derive('bottom', left, (input, read) => `${input.value}/${read.one(right, input.key)?.value ?? '?'}`)
    top.set('k', row('k', '1'))
    watch.commit()
    top.set('k', row('k', '2'))
    expect(watch.commit()).toEqual({
      changed: true,
      runs: ['left k', 'right k', 'bottom k'],
      told: { top: ['k: 1 -> 2'], left: ['k: l1 -> l2'], right: ['k: r1 -> r2'], bottom: ['k: l1/r1 -> l2/r2'] },
    })
  })
})

describe('a read by key', () => {
  test('of a row that is missing is answered when the row appears, changes and goes', () => {
    const watch = createWatch()
    const names = watch.source('names')
    const rows = watch.source('rows')
    watch.derive('out', rows, (input, read) => read.one(names, input.value)?.value ?? 'nobody')
    rows.set('1', row('1', 'n'))
    rows.set('2', row('2', 'other'))
    expect(watch.commit().told['out']).toEqual(['1: - -> nobody', '2: - -> nobody'])
    names.set('n', row('n', 'Ann'))
    expect(watch.commit()).toEqual({
      changed: true,
      runs: ['out 1'],
      told: { names: ['n: - -> Ann'], out: ['1: nobody -> Ann'] },
    })
    names.delete('n')
    expect(watch.commit()).toEqual({
      changed: true,
      runs: ['out 1'],
      told: { names: ['n: Ann -> -'], out: ['1: Ann -> nobody'] },
    })
  })

  test('that is no longer made no longer runs the row', () => {
    const watch = createWatch()
    const names = watch.source('names')
    const rows = watch.source('rows')
    watch.derive('out', rows, (input, read) => read.one(names, input.value)?.value)
    rows.set('1', row('1', 'n'))
    watch.commit()
    rows.set('1', row('1', 'm'))
    watch.commit()
    names.set('n', row('n', 'Ann'))
    expect(watch.commit()).toEqual({ changed: true, runs: [], told: { names: ['n: - -> Ann'] } })
    names.set('m', row('m', 'Mo'))
    expect(watch.commit().runs).toEqual(['out 1'])
  })

  test('made twice by a row counts once, also among hundreds', () => {
    const watch = createWatch()
    const names = watch.source('names')
    const rows = watch.source('rows')
    watch.derive('out', rows, (_input, read) => {
      for (let round = 0; round < 2; round++) for (let each = 0; each < 300; each++) read.one(names, `n${each}`)
      return String(names.size)
    })
    rows.set('1', row('1', ''))
    watch.commit()
    expect(watch.graph.footprint().reads).toBe(300)
    names.set('n7', row('n7', ''))
    names.set('n299', row('n299', ''))
    expect(watch.commit().runs).toEqual(['out 1'])
  })

  test('of a table made later, of another graph, or after the run is an error of that row', () => {
    const watch = createWatch()
    const rows = watch.source('rows')
    const elsewhere = createWatch().source('elsewhere')
    let kept: (() => unknown) | undefined
    watch.derive('out', rows, (input, read) => {
      kept = () => read.one(rows, 'x')
      return read.one(input.value === 'later' ? later : elsewhere, 'x')?.value
    })
    const later = watch.source('later')
    rows.set('1', row('1', 'later'))
    rows.set('2', row('2', 'elsewhere'))
    watch.commit()
    expect(watch.failures).toEqual([
      'out 1: out reads later, which is made after it',
      'out 2: out reads elsewhere, which belongs to another graph',
    ])
    expect(kept).toThrow('rows is read after the transform has returned')
  })
})

describe('fan-in by index term', () => {
  const build = () => {
    const watch = createWatch()
    const members = watch.source('members')
    const byGroup = watch.byValue(members)
    const groups = watch.source('groups')
    watch.derive('out', groups, (input, read) => joined(read.many(byGroup, input.key)))
    for (const key of ['red', 'blue', 'none']) groups.set(key, row(key, ''))
    members.set('a', row('a', 'red'))
    members.set('b', row('b', 'red'))
    members.set('c', row('c', 'blue'))
    return { ...watch, members, byGroup, groups }
  }

  test('joins the rows of each term', () => {
    expect(build().commit().told['out']).toEqual(['blue: - -> c', 'none: - -> ', 'red: - -> a+b'])
  })

  test('a row that joins runs the readers of its term alone', () => {
    const { members, commit } = build()
    commit()
    members.set('d', row('d', 'none'))
    expect(commit()).toEqual({
      changed: true,
      runs: ['out none'],
      told: { members: ['d: - -> none'], out: ['none:  -> d'] },
    })
  })

  test('a row whose term moves runs the readers of both terms', () => {
    const { members, byGroup, commit } = build()
    commit()
    members.set('a', row('a', 'blue'))
    expect(commit()).toEqual({
      changed: true,
      runs: ['out red', 'out blue'],
      told: { members: ['a: red -> blue'], out: ['blue: c -> a+c', 'red: a+b -> b'] },
    })
    expect(byGroup.lookup('red')).toEqual([row('b', 'red')])
  })

  test('a row that changes under the same term runs the readers of that term', () => {
    const watch = createWatch()
    const members = watch.source('members')
    const byFirst = members.index('first letter', (member) => [member.value.slice(0, 1), member.value.slice(0, 1)])
    const groups = watch.source('groups')
    watch.derive('out', groups, (input, read) => {
      const values = read.many(byFirst, input.key).map((member) => member.value)
      return values.sort().join()
    })
    groups.set('r', row('r', ''))
    members.set('a', row('a', 'r1'))
    expect(watch.commit().told['out']).toEqual(['r: - -> r1'])
    members.set('a', row('a', 'r2'))
    expect(watch.commit()).toEqual({
      changed: true,
      runs: ['out r'],
      told: { members: ['a: r1 -> r2'], out: ['r: r1 -> r2'] },
    })
  })

  test('many events of many members run each reader once', () => {
    const { members, commit } = build()
    commit()
    for (let each = 0; each < 100; each++) members.set(`m${each}`, row(`m${each}`, 'red'))
    for (let each = 0; each < 90; each++) members.delete(`m${each}`)
    const { runs, told } = commit()
    expect(runs).toEqual(['out red'])
    expect(told['out']).toEqual(['red: a+b -> a+b+m90+m91+m92+m93+m94+m95+m96+m97+m98+m99'])
  })

  test('an index made after the rows holds them all', () => {
    const { members } = build()
    const late = members.index('all', () => ['all'])
    expect(joined(late.lookup('all'))).toBe('a+b+c')
    expect(late.lookup('nothing')).toEqual([])
  })

  test('a looked-up list is the caller’s own: later commits do not change it', () => {
    const { members, byGroup, commit } = build()
    commit()
    const red = byGroup.lookup('red')
    members.delete('a')
    commit()
    expect(joined(red)).toBe('a+b')
  })

  test('a row whose terms cannot be told is filed nowhere and reported once', () => {
    const watch = createWatch()
    const rows = watch.source('rows')
    const index = rows.index('picky', (input) => {
      if (input.value === 'bad') throw new Error('no terms')
      return [input.value]
    })
    rows.set('1', row('1', 'bad'))
    rows.set('2', row('2', 'good'))
    watch.commit()
    rows.set('1', row('1', 'good'))
    watch.commit()
    expect(joined(index.lookup('good'))).toBe('1+2')
    rows.set('1', row('1', 'bad'))
    rows.delete('1')
    watch.commit()
    expect(joined(index.lookup('good'))).toBe('2')
    expect(watch.failures).toEqual(['rows/picky 1: no terms', 'rows/picky 1: no terms'])
  })
})

describe('a setting', () => {
  test('that changes runs all who read it and nobody else', () => {
    const watch = createWatch()
    const domain = watch.graph.setting('domain', 'one')
    const rows = watch.source('rows')
    watch.derive('out', rows, (input, read) => (input.value === 'reads' ? read.setting(domain) : 'fixed'))
    for (const key of ['1', '2']) rows.set(key, row(key, 'reads'))
    rows.set('3', row('3', 'does not'))
    watch.commit()
    domain.set('two')
    expect(domain.get()).toBe('two')
    expect(watch.commit()).toEqual({
      changed: true,
      runs: ['out 1', 'out 2'],
      told: { out: ['1: one -> two', '2: one -> two'] },
    })
  })

  test('set to an equal value, or there and back, runs nobody', () => {
    const watch = createWatch()
    const rows = watch.source('rows')
    const domain = watch.graph.setting('domain', { name: 'one' }, (a, b) => a.name === b.name)
    watch.derive('out', rows, (_input, read) => read.setting(domain).name)
    rows.set('1', row('1', ''))
    watch.commit()
    domain.set({ name: 'one' })
    expect(watch.commit()).toEqual(nothing)
    domain.set({ name: 'two' })
    domain.set({ name: 'one' })
    expect(watch.commit()).toEqual(nothing)
  })
})

describe('one row to many', () => {
  test('tells only the rows that differ', () => {
    const watch = createWatch()
    const lists = watch.source('lists')
    watch.deriveMany('items', lists, (input) => input.value.split(' ').map((item) => row(item.slice(0, 1), item)))
    lists.set('l', row('l', 'a1 b1 c1'))
    watch.commit()
    lists.set('l', row('l', 'c1 b2 d1'))
    expect(watch.commit().told['items']).toEqual(['a: a1 -> -', 'b: b1 -> b2', 'd: - -> d1'])
    lists.delete('l')
    expect(watch.commit().told['items']).toEqual(['b: b2 -> -', 'c: c1 -> -', 'd: d1 -> -'])
  })
})

describe('a table made when its input already has rows', () => {
  test('is filled by the next commit and then follows', () => {
    const watch = createWatch()
    const rows = watch.source('rows')
    rows.set('1', row('1', 'a'))
    watch.commit()
    rows.set('2', row('2', 'b'))
    let wakes = 0
    watch.graph.onDirty(() => wakes++)
    watch.derive('late', rows, (input) => input.value)
    watch.watched(watch.graph.union('both', rows))
    watch.watched(watch.graph.distinct('groups', rows, (each) => [each.value, row(each.value, 'group')]))
    expect(wakes).toBe(1)
    expect(watch.commit().told).toEqual({
      rows: ['2: - -> b'],
      late: ['1: - -> a', '2: - -> b'],
      both: ['1: - -> a', '2: - -> b'],
      groups: ['a: - -> group', 'b: - -> group'],
    })
    rows.delete('1')
    expect(watch.commit().told).toEqual({
      rows: ['1: a -> -'],
      late: ['1: a -> -'],
      both: ['1: a -> -'],
      groups: ['a: group -> -'],
    })
  })
})
