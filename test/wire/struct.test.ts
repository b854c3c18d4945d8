// SPDX-License-Identifier: Apache-2.0
import { expect, test } from '@jest/globals'
import { fromStruct, toStruct } from '../../src/wire/struct.js'

test('JSON survives the way through a Struct, and undefined members are left out', () => {
  const json = { a: 'x', b: 0, c: false, d: null, e: [1, 'two', [], {}], f: { g: { h: '' } } }
  expect(fromStruct(toStruct({ ...json, gone: undefined }))).toEqual(json)
})

test('values are told apart by the member they stand in', () => {
  expect(toStruct({ a: '1', b: 1, c: true, d: null, e: [1], f: {} })).toEqual({
    fields: {
      a: { stringValue: '1' },
      b: { numberValue: 1 },
      c: { boolValue: true },
      d: { nullValue: 'NULL_VALUE' },
      e: { listValue: { values: [{ numberValue: 1 }] } },
      f: { structValue: { fields: {} } },
    },
  })
})
