// SPDX-License-Identifier: Apache-2.0
// IP text: what is an address, letter by letter, and its one printed form.

import { isIPv4 } from 'node:net'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { formatIp, isIp, parseIp, toCanonicalIp } from '../../src/base/ip.js'

describe('IPv4', () => {
  test.each(['0.0.0.0', '10.0.0.5', '255.255.255.255', '1.20.100.249'])(
    '%s is an address and printed as it is',
    (text) => {
      const bytes = parseIp(text)
      expect(bytes).toEqual(Uint8Array.from(text.split('.'), Number))
      expect(formatIp(bytes ?? new Uint8Array())).toBe(text)
      expect([isIp(text), toCanonicalIp(text)]).toEqual([true, text])
    },
  )

  test.each([
    ...['', '.', '...', '1', '1.2.3', '1.2.3.', '.1.2.3', '1..2.3', '1.2.3.4.', '1.2.3.4.5', '256.1.1.1', '1.1.1.1000'],
    ...['01.2.3.4', '1.2.3.00', ' 1.2.3.4', '1.2.3.4 ', '1.2.3.4/32', '1.2.3.4%eth0', '+1.2.3.4', '1.2.3.a', '1.2.3.٤'],
  ])('"%s" is none', (text) => {
    expect([parseIp(text), isIp(text), toCanonicalIp(text)]).toEqual([undefined, false, undefined])
  })

  test('whatever is made of digits and dots is judged as Node judges it', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom('0', '1', '2', '5', '6', '9', '.'), maxLength: 15 }), (text) => {
        expect(isIp(text)).toBe(isIPv4(text))
      }),
      { numRuns: 2_000 },
    )
    fc.assert(fc.property(fc.ipV4(), (text) => expect(toCanonicalIp(text)).toBe(text)))
  })
})

test.each([
  ['::1', '::1'],
  ['2001:DB8::0:1', '2001:db8::1'],
  ['::ffff:1.2.3.4', '::ffff:1.2.3.4'],
  ['fe80::1%eth0', 'fe80::1'],
])('IPv6 %s is printed as %s', (text, printed) => {
  expect([isIp(text), toCanonicalIp(text)]).toEqual([true, printed])
})

test.each([':', '1::2::3', '1:2:3:4:5:6:7', '12345::', 'g::1', '1.2.3.4::'])('"%s" is no IPv6 address', (text) => {
  expect([parseIp(text), isIp(text), toCanonicalIp(text)]).toEqual([undefined, false, undefined])
})
