// SPDX-License-Identifier: Apache-2.0
// Recorded answers of a control plane about addresses, case by case, with the policies that stood beside them.

import { afterAll, describe, test } from '@jest/globals'
import { casesFolder } from './folder.js'
import { play, readCases } from './recorded.js'

const folder = casesFolder('address')
const skipped: string[] = []
const compared = { address: 0, authorization: 0 }

describe('recorded addresses', () => {
  if (folder === undefined) {
    console.warn('no address/ among the recorded cases: nothing to compare')
    test.skip('address/ is missing', () => undefined)
  }
  for (const recorded of folder === undefined ? [] : readCases(folder)) {
    const { name, skipReason } = recorded
    if (skipReason === undefined)
      test(name, () => {
        const { address, authorization } = play(recorded)
        compared.address += address
        compared.authorization += authorization
      })
    else {
      skipped.push(`${name}: ${skipReason}`)
      test.skip(`${name} (${skipReason})`, () => undefined)
    }
  }
  afterAll(() => {
    if (skipped.length > 0) console.warn(`${skipped.length} cases not run: ${skipped.join('; ')}`)
    console.info(`${compared.address} addresses and ${compared.authorization} policies compared`)
  })
})
