// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { RevisionLog } from '../../src/xds/revision-log.js'

describe('a revision log', () => {
  test('gives names by their last change, each once', () => {
    const log = new RevisionLog()
    log.record(1, ['a', 'b'])
    log.record(2, ['c', 'a', 'a'])
    expect([log.since(0), log.since(1), log.since(2)]).toEqual([['b', 'c', 'a'], ['c', 'a'], []])
  })

  test('forgets what nobody lacks', () => {
    const log = new RevisionLog()
    log.record(1, ['a', 'b'])
    log.record(2, ['a'])
    log.forget(1)
    expect([log.since(0), log.size]).toEqual([['a'], 1])
    log.forget(2)
    expect([log.since(0), log.size]).toEqual([[], 0])
  })

  test('does not grow with changes of the same names', () => {
    const log = new RevisionLog()
    for (let revision = 1; revision <= 100_000; revision++) log.record(revision, [`n${revision % 10}`])
    expect(log.size).toBe(10)
    expect(log.since(99_998)).toEqual(['n9', 'n0'])
  })
})
