// SPDX-License-Identifier: Apache-2.0
import { expect, test } from '@jest/globals'
import { EventEmitter } from 'node:events'
import { createShutdown } from '../../src/base/shutdown.js'

test('the first signal asks to finish, the second to end at once', () => {
  const emitter = new EventEmitter()
  const shutdown = createShutdown(emitter)
  emitter.emit('SIGTERM', 'SIGTERM')
  expect([shutdown.graceful.aborted, shutdown.now.aborted]).toEqual([true, false])
  expect(shutdown.graceful.reason).toEqual(new Error('SIGTERM'))
  emitter.emit('SIGINT', 'SIGINT')
  expect([shutdown.graceful.aborted, shutdown.now.aborted]).toEqual([true, true])
  expect(shutdown.now.reason).toEqual(new Error('SIGINT again'))
})

test('to end at once is also to finish', () => {
  const shutdown = createShutdown()
  shutdown.force('no time')
  expect([shutdown.graceful.aborted, shutdown.now.aborted]).toEqual([true, true])
})

test('the end of the owner asks to finish, before and after', () => {
  const owner = new AbortController()
  const before = createShutdown(undefined, owner.signal)
  owner.abort()
  const after = createShutdown(undefined, owner.signal)
  expect([before.graceful.aborted, after.graceful.aborted, before.now.aborted]).toEqual([true, true, false])
})

test('no handler stays behind', () => {
  const emitter = new EventEmitter()
  const shutdown = createShutdown(emitter)
  expect(emitter.eventNames()).toEqual(['SIGTERM', 'SIGINT'])
  shutdown.dispose()
  expect(emitter.eventNames()).toEqual([])
  expect(shutdown.graceful.aborted).toBe(false)
})
