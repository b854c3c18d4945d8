// SPDX-License-Identifier: Apache-2.0
import { afterEach, expect, test } from '@jest/globals'
import { runCtl } from '../../src/ctl/ctl.js'
import { FakeClock } from '../support/fake-clock.js'
import type { ToyStore } from '../support/toy-store.js'
import { createShop, openRoom, webB, type Room } from './room.js'

let room: Room
afterEach(() => room.stop())

/** A run that goes on until it is interrupted; `next` gives what was printed next, an entry a call of stdout or stderr. */
class Watching {
  readonly clock = new FakeClock()
  readonly #interrupt = new AbortController()
  readonly #printed: string[] = []
  readonly #code: Promise<number>
  #wake: () => void = () => undefined

  constructor(address: string, ...argv: readonly string[]) {
    const print = (text: string): void => {
      this.#printed.push(text)
      this.#wake()
    }
    this.#code = runCtl(['whatis', ...argv, '--watch'], {
      stdout: print,
      stderr: (text) => print(`! ${text}`),
      env: { ADDRESSD_SERVER: address },
      signal: this.#interrupt.signal,
      clock: this.clock,
    })
  }

  async next(): Promise<string> {
    while (this.#printed.length === 0) await new Promise<void>((resolve) => (this.#wake = resolve))
    return this.#printed.shift() ?? ''
  }

  /** Exit code, and what was printed and never taken. */
  async interrupt(): Promise<readonly [number, readonly string[]]> {
    this.#interrupt.abort()
    return [await this.#code, this.#printed]
  }
}

async function open(): Promise<ToyStore> {
  const store = createShop()
  room = await openRoom(store)
  return store
}

function healthOf(text: string): string | undefined {
  return /Health: +(\w+)/.exec(text)?.[1]
}

test('each change is printed, other changes are not, and an interrupt ends it well', async () => {
  const store = await open()
  const watching = new Watching(room.address, '10.0.0.2')
  expect(healthOf(await watching.next())).toBe('unhealthy')
  store.put({ ...webB, status: 0 })
  const second = await watching.next()
  expect([second.split('\n')[0], healthOf(second)]).toEqual(['---', 'healthy'])
  store.remove('edge/legacy.example.com')
  store.remove(webB.uid)
  expect(await watching.next()).toBe('---\nnobody has 10.0.0.2\n')
  expect(await watching.interrupt()).toEqual([0, []])
})

test('what nobody has is waited for', async () => {
  const store = await open()
  store.remove(webB.uid)
  const watching = new Watching(room.address, 'shop/web-b')
  expect(await watching.next()).toBe('nobody has shop/web-b\n')
  store.put(webB)
  expect(await watching.next()).toMatch(/^---\nWorkload shop\/web-b\n/)
  expect(await watching.interrupt()).toEqual([0, []])
})

test('a service is printed again when a member of it changes', async () => {
  const store = await open()
  const watching = new Watching(room.address, '10.96.0.10')
  expect(await watching.next()).toContain('1 of 2 healthy')
  store.put({ ...webB, status: 0 })
  expect(await watching.next()).toContain('2 of 2 healthy')
  expect(await watching.interrupt()).toEqual([0, []])
})

test('as JSON each answer is one line', async () => {
  const store = await open()
  const watching = new Watching(room.address, 'shop/web-b', '-o', 'json')
  const first = await watching.next()
  expect(first.indexOf('\n')).toBe(first.length - 1)
  expect(JSON.parse(first)).toMatchObject({ question: 'shop/web-b', found: [{ kind: 'workload', healthy: false }] })
  store.remove(webB.uid)
  expect(JSON.parse(await watching.next())).toEqual({ question: 'shop/web-b', form: 'name', found: [] })
  expect(await watching.interrupt()).toEqual([0, []])
})

test('a server that goes away is said and asked again; what it still says the same is not printed twice', async () => {
  const store = await open()
  const watching = new Watching(room.address, '10.0.0.2')
  expect(healthOf(await watching.next())).toBe('unhealthy')
  room.stop()
  expect(await watching.next()).toMatch(
    new RegExp(`^! addressctl: ${room.address} is away: .*; asking again in 500 ms\n$`),
  )
  const asked = { is: false }
  const explain = (): undefined => void (asked.is = true)
  room = await openRoom(store, { port: Number(room.address.split(':')[1]), explainer: { explain } })
  while (!asked.is) await watching.clock.advance(10_000)
  store.put({ ...webB, status: 0 })
  expect(healthOf(await nextAnswer(watching))).toBe('healthy')
  expect(await watching.interrupt()).toEqual([0, []])
})

/** Passes over what is said while the server is away. */
async function nextAnswer(watching: Watching): Promise<string> {
  for (;;) {
    const text = await watching.next()
    if (!text.startsWith('!')) return text
  }
}

test('a watcher that leaves is forgotten', async () => {
  const store = await open()
  const first = new Watching(room.address, '10.0.0.2')
  await first.next()
  expect(await first.interrupt()).toEqual([0, []])
  const second = new Watching(room.address, '10.0.0.2')
  expect(healthOf(await second.next())).toBe('unhealthy')
  store.put({ ...webB, status: 0 })
  expect(healthOf(await second.next())).toBe('healthy')
  expect(await second.interrupt()).toEqual([0, []])
})
