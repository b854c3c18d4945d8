// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals'
import { systemClock } from '../../src/base/clock.js'

beforeEach(() => {
  jest.useFakeTimers()
})
afterEach(() => {
  jest.useRealTimers()
})

const day = 24 * 3_600_000

test.each([0, 1, 20, 0x7fff_ffff, 0x7fff_ffff + 1, 100 * day, 400 * day])(
  'a timer of %d ms fires once, not before',
  (delayMs) => {
    let fired = 0
    systemClock.after(delayMs, () => fired++)
    if (delayMs > 0) jest.advanceTimersByTime(Math.ceil(delayMs) - 1)
    expect(fired).toBe(0)
    jest.advanceTimersByTime(2)
    expect(fired).toBe(1)
    jest.advanceTimersByTime(500 * day)
    expect(fired).toBe(1)
  },
)

test('a timer of Infinity never fires', () => {
  let fired = 0
  systemClock.after(Infinity, () => fired++)
  jest.advanceTimersByTime(10_000 * day)
  expect(fired).toBe(0)
})

test.each([10, 100 * day])('a timer of %d ms that is cancelled on its way never fires', (delayMs) => {
  let fired = 0
  const timer = systemClock.after(delayMs, () => fired++)
  jest.advanceTimersByTime(delayMs * 0.9)
  timer.cancel()
  timer.cancel()
  jest.advanceTimersByTime(delayMs * 2)
  expect([fired, jest.getTimerCount()]).toEqual([0, 0])
})
