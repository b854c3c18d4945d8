// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { isPlaintextAddress, parseTarget } from '../../../src/node-agent/addresses/target.js'

describe('the address of a control plane', () => {
  test.each([
    ['istiod.istio-system.svc:15012', false],
    ['localhost:15010', true],
    ['[::1]:15010', true],
    ['127.0.0.1:31415', false],
    ['http://127.0.0.1:31415', true],
    ['http://localhost:15012', true],
    ['https://localhost:15010', false],
    ['https://localhost:15010/', false],
    ['localhost:115010', false],
  ])('%s: plaintext is %s', (text, isPlaintext) => {
    expect(isPlaintextAddress(text)).toBe(isPlaintext)
  })

  test('is the same with a scheme before it and without', () => {
    const target = { authority: '127.0.0.1:31415', host: '127.0.0.1', isPlaintext: true }
    expect(parseTarget('http://127.0.0.1:31415', true)).toEqual(target)
    expect(parseTarget('127.0.0.1:31415', true)).toEqual(target)
    expect(parseTarget('https://127.0.0.1:31415/', false)).toEqual({ ...target, isPlaintext: false })
  })
})
