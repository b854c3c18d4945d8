// SPDX-License-Identifier: Apache-2.0
import { expect, test } from '@jest/globals'
import { createDebounce } from '../../src/base/debounce.js'
import { FakeClock } from '../support/fake-clock.js'

function start(quietMs: number, maxMs: number) {
  const clock = new FakeClock()
  const runs: { at: number; waitedMs: number }[] = []
  const debounce = createDebounce({
    clock,
    quietMs,
    maxMs,
    run: (waitedMs) => runs.push({ at: clock.monotonic(), waitedMs }),
  })
  return { clock, runs, debounce }
}

test('one touch runs once, after the quiet time', async () => {
  const { clock, runs, debounce } = start(10, 100)
  debounce.touch()
  expect(debounce.pending).toBe(true)
  await clock.advance(9)
  expect(runs).toEqual([])
  await clock.advance(1)
  expect(runs).toEqual([{ at: 10, waitedMs: 10 }])
  expect(debounce.pending).toBe(false)
  await clock.advance(1_000)
  expect(runs).toHaveLength(1)
})

test('each touch starts the quiet time anew', async () => {
  const { clock, runs, debounce } = start(10, 100)
  for (let i = 0; i < 3; i++) {
    debounce.touch()
    await clock.advance(6)
  }
  await clock.advance(20)
  expect(runs).toEqual([{ at: 22, waitedMs: 22 }])
})

test('touches that never pause run at the latest after the longest time, again and again', async () => {
  const { clock, runs, debounce } = start(10, 30)
  for (let i = 0; i < 16; i++) {
    debounce.touch()
    await clock.advance(5)
  }
  await clock.advance(50)
  expect(runs.map((run) => run.waitedMs)).toEqual([30, 30, 25])
  expect(runs.map((run) => run.at)).toEqual([30, 60, 85])
})

test('what a run touches belongs to the next run', async () => {
  const clock = new FakeClock()
  const at: number[] = []
  const debounce = createDebounce({
    clock,
    quietMs: 10,
    maxMs: 100,
    run() {
      at.push(clock.monotonic())
      if (at.length < 3) {
        debounce.touch()
        debounce.flush()
      }
    },
  })
  debounce.touch()
  await clock.advance(100)
  expect(at).toEqual([10, 20, 30])
})

test('a run that throws does not lose what was touched in the meantime', async () => {
  const clock = new FakeClock()
  let runs = 0
  const debounce = createDebounce({
    clock,
    quietMs: 10,
    maxMs: 100,
    run() {
      runs++
      if (runs > 1) return
      debounce.touch()
      throw new Error('first run fails')
    },
  })
  debounce.touch()
  expect(() => debounce.flush()).toThrow('first run fails')
  await clock.advance(10)
  expect(runs).toBe(2)
})

test('flush runs at once, and only when something is pending', async () => {
  const { clock, runs, debounce } = start(10, 100)
  debounce.flush()
  debounce.touch()
  await clock.advance(4)
  debounce.flush()
  debounce.flush()
  await clock.advance(100)
  expect(runs).toEqual([{ at: 4, waitedMs: 4 }])
})

test('after stop nothing runs any more and no timer is left', async () => {
  const { clock, runs, debounce } = start(10, 100)
  debounce.touch()
  debounce.stop()
  debounce.touch()
  expect(clock.pending).toBe(0)
  await clock.advance(100)
  expect(runs).toEqual([])
})
