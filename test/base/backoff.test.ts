// SPDX-License-Identifier: Apache-2.0
import { expect, test } from '@jest/globals'
import { createBackoff } from '../../src/base/backoff.js'

test('pauses double up to the longest one and start over after a success', () => {
  const backoff = createBackoff({ initialMs: 100, maxMs: 1_000, random: () => 0 })
  expect([1, 2, 3, 4, 5, 6].map(() => backoff.next())).toEqual([100, 200, 400, 800, 1_000, 1_000])
  backoff.reset()
  expect(backoff.next()).toBe(100)
})

test('chance shortens a pause by at most its part', () => {
  const backoff = createBackoff({ initialMs: 100, maxMs: 1_000, factor: 3, jitter: 0.2, random: () => 0.5 })
  expect([1, 2, 3].map(() => backoff.next())).toEqual([90, 270, 810])
})

test('the longest pause holds even for the first', () => {
  expect(createBackoff({ initialMs: 5_000, maxMs: 1_000, random: () => 0 }).next()).toBe(1_000)
})
