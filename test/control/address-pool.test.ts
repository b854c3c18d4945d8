// SPDX-License-Identifier: Apache-2.0
import { expect, test } from '@jest/globals'
import { AddressPool } from '../../src/control/address-pool.js'

const take = (pool: AddressPool, times: number): readonly (string | undefined)[] =>
  Array.from({ length: times }, () => pool.take())

test('addresses come in ascending order, after the network itself, the last one too, and then no more [I1]', () => {
  expect(take(new AddressPool('10.250.0.0/30'), 4)).toEqual(['10.250.0.1', '10.250.0.2', '10.250.0.3', undefined])
  expect(take(new AddressPool('2001:2::/48'), 2)).toEqual(['2001:2::1', '2001:2::2'])
})

test('host bits of the prefix do not matter; one of full length has none to give', () => {
  expect(take(new AddressPool('10.0.0.9/29'), 1)).toEqual(['10.0.0.9'])
  expect(take(new AddressPool('10.0.0.13/30'), 1)).toEqual(['10.0.0.13'])
  expect(take(new AddressPool('10.0.0.1/32'), 1)).toEqual([undefined])
})

test('what is in use is passed over; what is not of the range counts for nothing', () => {
  const pool = new AddressPool('10.0.0.0/29')
  for (const text of ['10.0.0.1', '10.0.0.3', '10.0.0.0', '10.0.1.2', '::ffff:10.0.0.2', 'host', '']) pool.use(text)
  expect(take(pool, 2)).toEqual(['10.0.0.2', '10.0.0.4'])
})

test('what is given back comes next, the lowest first; beyond the place that was reached it waits its turn [I1]', () => {
  const pool = new AddressPool('10.0.0.0/29')
  take(pool, 4)
  for (const text of ['10.0.0.3', '10.0.0.1', '10.0.0.1', '10.0.0.6']) pool.free(text)
  expect(take(pool, 4)).toEqual(['10.0.0.1', '10.0.0.3', '10.0.0.5', '10.0.0.6'])
  expect(take(pool, 2)).toEqual(['10.0.0.7', undefined])
  pool.free('10.0.0.2')
  expect(take(pool, 2)).toEqual(['10.0.0.2', undefined])
})

test('a text that is no prefix is refused', () => {
  expect(() => new AddressPool('10.0.0.0')).toThrow('"10.0.0.0" is not a prefix')
})
