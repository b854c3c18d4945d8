// SPDX-License-Identifier: Apache-2.0
import { expect, test } from '@jest/globals'
import { Outage } from '../../src/kube/outage.js'

test('a server that is away is news once for all who read from it, again after a minute, and at once after it answered', () => {
  const outage = new Outage()
  const asked = [0, 1, 500, 59_999, 60_000, 60_001].map((atMs) => outage.isNews('connection refused', atMs))
  expect(asked).toEqual([true, false, false, false, true, false])
  expect([outage.isNews('no route', 60_002), outage.isNews('no route', 60_003)]).toEqual([true, false])
  outage.end()
  expect(outage.isNews('no route', 60_004)).toBe(true)
})
