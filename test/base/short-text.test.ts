// SPDX-License-Identifier: Apache-2.0
import { expect, test } from '@jest/globals'
import { shortenText } from '../../src/base/short-text.js'

test.each([
  ['short', 10, 'short'],
  ['exactly ten', 11, 'exactly ten'],
  ['longer than that', 6, 'longer…'],
  ['', 0, ''],
  ['a', 0, '…'],
  ['ab😀', 3, 'ab\ufffd…'],
  ['ab😀', 4, 'ab😀'],
  ['half \ud83d here', 100, 'half \ufffd here'],
])('%j in %d characters is %j', (text, most, short) => {
  expect(shortenText(text, most)).toBe(short)
})
