// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { selectValue } from '../../../src/node-agent/plugin-protocol/top-level.js'

function valueOf(json: string, key: string): string | undefined {
  const bytes = Buffer.from(json)
  const span = selectValue(bytes, key)
  return span && bytes.toString('utf8', span.start, span.end)
}

describe('the bytes of a value', () => {
  test('are exactly those between the blanks around it', () => {
    expect(valueOf('{"a":1, "prevResult" : {"x": [ "}" ], "y":"\\"]"}\n , "b":2}', 'prevResult')).toBe(
      '{"x": [ "}" ], "y":"\\"]"}',
    )
  })

  test('of one key inside another value are not taken for it', () => {
    expect(valueOf('{"a":{"prevResult":1},"b":["prevResult",{"prevResult":2}]}', 'prevResult')).toBeUndefined()
  })

  test('are of the last of several equal keys, however they are written', () => {
    expect(valueOf('{"k":1,"\\u006b":2 }', 'k')).toBe('2')
  })

  test('are there for every kind of value', () => {
    for (const value of ['"a,b"', '-1.5e3', 'true', 'null', '[]', '{}', '[[1],{"a":"{"}]', '"\\\\"']) {
      expect(valueOf(`{"z":0,"k":${value}}`, 'k')).toBe(value)
    }
    expect(valueOf('{}', 'k')).toBeUndefined()
  })

  test('parse to what JSON.parse has for that key, in any object', () => {
    const object = fc.dictionary(fc.oneof(fc.constant('k'), fc.string()), fc.jsonValue(), { noNullPrototype: true })
    fc.assert(
      fc.property(object, fc.constantFrom(0, 1, 3), (value, indent) => {
        const text = valueOf(JSON.stringify(value, undefined, indent), 'k')
        const expected: unknown = Object.hasOwn(value, 'k') ? JSON.parse(JSON.stringify(value['k'])) : undefined
        expect(text === undefined ? undefined : JSON.parse(text)).toEqual(expected)
      }),
    )
  })
})
