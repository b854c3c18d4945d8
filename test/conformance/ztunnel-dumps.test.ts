// SPDX-License-Identifier: Apache-2.0
// Recorded dumps of a ztunnel, against what our bytes mean: no ztunnel is needed, so the meaning of the bytes is held everywhere.

import { describe, expect, test } from '@jest/globals'
import { Room } from '../address/room.js'
import { toExpected } from '../peer/expected.js'
import { casesFolder } from './folder.js'
import { readDumps } from './ztunnel-dumps.js'

const folder = casesFolder('ztunnel')

describe('recorded dumps of a ztunnel, read from our bytes', () => {
  if (folder === undefined) {
    process.stderr.write('SKIPPED: recorded-dumps: there is no ztunnel/ among the recorded cases\n')
    test.skip('ztunnel/ is missing', () => undefined)
  }
  for (const { name, about, settings, env, steps } of folder === undefined ? [] : readDumps(folder)) {
    test(`${name}: ${about}`, () => {
      const room = new Room({ ...settings, revision: '' })
      const node = env['XDS_ON_DEMAND'] === 'true' ? env['NODE_NAME'] : undefined
      for (const step of steps) {
        room.delete(step.delete)
        room.set(step.upsert)
        room.commit()
        const held = toExpected(room.address.store, node)
        expect({ step: step.step, ...held }).toEqual({ step: step.step, ...step.held })
      }
    })
  }
})
