// SPDX-License-Identifier: Apache-2.0
import { expect, test } from '@jest/globals'
import { Watchers } from '../../src/debug/watchers.js'
import { tick } from '../support/fake-clock.js'

class Target {
  readonly written: number[] = []
  takes = true
  open = true
  ready: () => void = () => undefined
  write(answer: number): boolean {
    this.written.push(answer)
    return this.takes
  }
  whenReady(ready: () => void): void {
    this.ready = ready
  }
  isOpen(): boolean {
    return this.open
  }
}

test('the first answer comes at once, then one for any number of wakes, and none for an equal one', async () => {
  const watchers = new Watchers<number>()
  const target = new Target()
  let made = 0
  let value = 1
  watchers.add(target, () => (made++, value))
  expect(target.written).toEqual([1])
  value = 2
  watchers.wake()
  watchers.wake()
  value = 3
  await tick()
  expect([target.written, made]).toEqual([[1, 3], 2])
  watchers.wake()
  await tick()
  expect([target.written, made]).toEqual([[1, 3], 3])
})

test('one that does not read is written to when it reads again, with what is true then', async () => {
  const watchers = new Watchers<number>()
  const target = new Target()
  target.takes = false
  let value = 1
  watchers.add(target, () => value)
  for (value of [2, 3, 4]) {
    watchers.wake()
    await tick()
  }
  expect(target.written).toEqual([1])
  target.takes = true
  target.ready()
  expect(target.written).toEqual([1, 4])
})

test('one that left is not asked for', async () => {
  const watchers = new Watchers<number>()
  const [stopped, closed] = [new Target(), new Target()]
  let value = 1
  const watcher = watchers.add(stopped, () => value)
  watchers.add(closed, () => value)
  watcher.stop()
  closed.open = false
  value = 2
  watchers.wake()
  await tick()
  expect([stopped.written, closed.written, watchers.size]).toEqual([[1], [1], 1])
})
