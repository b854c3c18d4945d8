// SPDX-License-Identifier: Apache-2.0
import { describe, test } from '@jest/globals'
import { strictEqual } from 'node:assert'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { isSameRecord } from '../../src/kube/inputs.js'

const leaf = fc.constantFrom<unknown>(undefined, 0, 1, '', 'a', true, false, {}, [])
const { row } = fc.letrec<{ row: unknown }>((tie) => ({
  row: fc.oneof(
    { depthSize: 'small' },
    leaf,
    fc.array(tie('row'), { maxLength: 2 }),
    fc.dictionary(fc.constantFrom('a', 'b', '__proto__', 'toString'), tie('row'), { noNullPrototype: true }),
  ),
}))

describe('two rows of one kind', () => {
  test('are the same when all they hold is', () => {
    fc.assert(fc.property(row, row, (a, b) => strictEqual(isSameRecord(a, b), isDeepStrictEqual(a, b))))
    fc.assert(fc.property(row, (a) => isSameRecord(a, structuredClone(a))))
  })
})
