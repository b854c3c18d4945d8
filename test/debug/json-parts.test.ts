// SPDX-License-Identifier: Apache-2.0
import { expect, test } from '@jest/globals'
import { formatArrays } from '../../src/debug/json-parts.js'

async function format(page: Readonly<Record<string, readonly unknown[]>>, isPretty: boolean): Promise<string[]> {
  const arrays = Object.entries(page).map(([name, elements]) => ({ name, elements }))
  const parts: string[] = []
  for await (const part of formatArrays(arrays, isPretty)) parts.push(part)
  return parts
}

test.each([[{}], [{ a: [] }], [{ a: [1] }], [{ a: [], b: [{ x: [1, 2], y: {} }, 'two\nlines'], c: [[]] }]])(
  'the layout is that of JSON.stringify: %j',
  async (page) => {
    expect((await format(page, false)).join('')).toBe(JSON.stringify(page))
    expect((await format(page, true)).join('')).toBe(`${JSON.stringify(page, undefined, 2)}\n`)
  },
)

test('a large page comes in parts, none much larger than 64 KiB', async () => {
  const page = { a: Array.from({ length: 300 }, (_, i) => `${'x'.repeat(1000)}${i}`) }
  const parts = await format(page, false)
  expect(parts.join('')).toBe(JSON.stringify(page))
  expect(parts.length).toBeGreaterThan(4)
  expect(Math.max(...parts.map((part) => part.length))).toBeLessThan(67_000)
})
