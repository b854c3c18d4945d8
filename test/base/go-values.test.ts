// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { InvalidInput } from '../../src/base/errors.js'
import { parseBoolean, parseDuration, parseInteger } from '../../src/base/go-values.js'

describe('durations as Go writes them', () => {
  const good: readonly [text: string, ms: number][] = [
    ['0', 0],
    ['+0', 0],
    ['-0', 0],
    ['20ms', 20],
    ['1m30s', 90_000],
    ['1.5h', 5_400_000],
    ['.5s', 500],
    ['5.s', 5_000],
    ['-2s', -2_000],
    ['+2s', 2_000],
    ['1h1m1s1ms', 3_661_001],
    ['250us', 0.25],
    ['250\u00b5s', 0.25],
    ['250\u03bcs', 0.25],
    ['1000000ns', 1],
    ['0s', 0],
    ['2562047h47m16.854775807s', 9_223_372_036_854.775],
  ]
  test.each(good)('%s is %d ms', (text, ms) => {
    expect(parseDuration(text)).toBeCloseTo(ms, 3)
  })

  test.each([
    '',
    '-',
    '10',
    '10 ms',
    ' 10ms',
    '10ms ',
    '1d',
    '1S',
    'ms',
    '.s',
    '1..5s',
    '1e3s',
    '--1s',
    '3000000h',
    'x',
  ])('%j is refused', (text) => {
    expect(() => parseDuration(text)).toThrow(InvalidInput)
  })
})

describe('booleans as Go writes them', () => {
  test.each(['1', 't', 'T', 'true', 'TRUE', 'True'])('%s is true', (text) => {
    expect(parseBoolean(text)).toBe(true)
  })
  test.each(['0', 'f', 'F', 'false', 'FALSE', 'False'])('%s is false', (text) => {
    expect(parseBoolean(text)).toBe(false)
  })
  test.each(['', 'tRUE', 'yes', 'on', '2', ' true', 'toString', '__proto__'])('%j is refused', (text) => {
    expect(() => parseBoolean(text)).toThrow(InvalidInput)
  })
})

describe('integers as Go writes them', () => {
  test.each([
    ['0', 0],
    ['-0', 0],
    ['007', 7],
    ['+42', 42],
    ['-42', -42],
    ['67108864', 67_108_864],
  ])('%s is %d', (text, value) => {
    expect(parseInteger(text)).toBe(value)
  })
  test.each(['', '+', '1.0', '1e3', '0x10', '1_000', ' 1', '9007199254740993', '12px'])('%j is refused', (text) => {
    expect(() => parseInteger(text)).toThrow(InvalidInput)
  })
})
