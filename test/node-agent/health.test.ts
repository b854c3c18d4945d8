// SPDX-License-Identifier: Apache-2.0
// The pages that kubelet probes.

import { expect, test } from '@jest/globals'
import type { AdminReply, AdminRequest } from '../../src/base/admin-http.js'
import { createHealthRoutes } from '../../src/node-agent/health.js'

test('the agent is always healthy, and ready when nothing is missing', async () => {
  const missing: string[] = ['the probe set could not be made', 'no plugin']
  const routes = createHealthRoutes(() => missing)
  const ask = (path: string): AdminReply | Promise<AdminReply> | undefined =>
    routes.find((route) => route.path === path)?.handle({} as AdminRequest)
  expect(await ask('/healthz')).toMatchObject({ status: 200 })
  expect(await ask('/readyz')).toMatchObject({
    status: 503,
    body: 'not ready: the probe set could not be made, no plugin\n',
  })
  missing.length = 0
  expect(await ask('/readyz')).toMatchObject({ status: 200 })
})
