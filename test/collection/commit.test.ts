// SPDX-License-Identifier: Apache-2.0
// Who is called around a commit, in which order and how often.

import { describe, expect, test } from '@jest/globals'
import { createWatch, row } from './watch.js'

describe('listeners', () => {
  test('see every table in its new state, in creation order, and afterCommit comes last', () => {
    const watch = createWatch()
    const a = watch.source('a')
    const b = watch.derive('b', a, (input) => `${input.value}!`)
    const calls: string[] = []
    const state = (): string => `${a.get('k')?.value ?? '-'} ${b.get('k')?.value ?? '-'}`
    watch.graph.afterCommit(() => calls.push(`after: ${state()}`))
    watch.graph.onCommit(b, () => calls.push(`b: ${state()}`))
    watch.graph.onCommit(a, () => calls.push(`a: ${state()}`))
    a.set('k', row('k', '1'))
    watch.commit()
    expect(calls).toEqual(['a: 1 1!', 'b: 1 1!', 'after: 1 1!'])
  })

  test('are not called without changes; afterCommit always is', () => {
    const watch = createWatch()
    const a = watch.source('a')
    const calls: string[] = []
    watch.graph.onCommit(a, () => calls.push('a'))
    watch.graph.afterCommit(() => calls.push('after'))
    watch.commit()
    expect(calls).toEqual(['after'])
  })

  test('that throw are reported and keep nobody else from being called', () => {
    const watch = createWatch()
    const a = watch.source('a')
    const calls: string[] = []
    const bad = (): never => {
      throw new Error('listener broke')
    }
    watch.graph.onCommit(a, bad)
    watch.graph.onCommit(a, (changes) => calls.push(`second ${changes.length}`))
    watch.graph.afterCommit(bad)
    watch.graph.afterCommit(() => calls.push('after'))
    a.set('k', row('k', '1'))
    expect(watch.commit().changed).toBe(true)
    expect(calls).toEqual(['second 1', 'after'])
    expect(watch.failures).toEqual(['a : listener broke', ' : listener broke'])
    a.set('k', row('k', '2'))
    watch.commit()
    expect(calls).toEqual(['second 1', 'after', 'second 1', 'after'])
  })

  test('may set rows: these belong to the next commit and wake again', () => {
    const watch = createWatch()
    const a = watch.source('a')
    const b = watch.source('b')
    let wakes = 0
    watch.graph.onDirty(() => wakes++)
    watch.graph.onCommit(a, () => b.set('k', row('k', 'from a')))
    a.set('k', row('k', '1'))
    expect(watch.commit().told).toEqual({ a: ['k: - -> 1'] })
    expect(wakes).toBe(2)
    expect(watch.commit().told).toEqual({ b: ['k: - -> from a'] })
    expect(wakes).toBe(2)
  })

  test('that commit themselves are refused and reported', () => {
    const watch = createWatch()
    const a = watch.source('a')
    watch.graph.onCommit(a, () => watch.graph.commit())
    a.set('k', row('k', '1'))
    expect(watch.commit().changed).toBe(true)
    expect(watch.failures).toEqual(['a : commit() was called by a transform or a listener of a commit'])
    expect(watch.commit().changed).toBe(false)
  })
})

describe('onDirty', () => {
  test('is called once for all that happens until the commit, and at once when something has happened already', () => {
    const watch = createWatch()
    const a = watch.source('a')
    const domain = watch.graph.setting('domain', 1)
    const wakes: string[] = []
    watch.graph.onDirty(() => wakes.push('first'))
    a.set('1', row('1', ''))
    a.set('2', row('2', ''))
    domain.set(2)
    watch.graph.onDirty(() => wakes.push('second'))
    expect(wakes).toEqual(['first', 'second'])
    watch.commit()
    domain.set(3)
    expect(wakes).toEqual(['first', 'second', 'first', 'second'])
  })
})
