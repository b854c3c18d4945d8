// SPDX-License-Identifier: Apache-2.0
// Recorded answers of a control plane about policies, case by case: bytes, pushes, and who lists them. The conditions that were recorded beside them are not
// compared here.

import { afterAll, describe, test } from '@jest/globals'
import { casesFolder } from './folder.js'
import { play, readCases } from './recorded.js'

const folder = casesFolder('authorization')
let compared = 0

describe('recorded policies', () => {
  if (folder === undefined) {
    console.warn('no authorization/ among the recorded cases: nothing to compare')
    test.skip('authorization/ is missing', () => undefined)
  }
  for (const recorded of folder === undefined ? [] : readCases(folder)) {
    const { name, about, skipReason } = recorded
    if (skipReason === undefined)
      test(`${name}: ${about}`, () => {
        compared += play(recorded).authorization
      })
    else {
      console.warn(`SKIPPED: recorded policies ${name}: ${skipReason}`)
      test.skip(`${name} (${skipReason})`, () => undefined)
    }
  }
  afterAll(() => {
    if (folder !== undefined) console.info(`${compared} policies compared`)
  })
})
