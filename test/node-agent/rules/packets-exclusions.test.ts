// SPDX-License-Identifier: Apache-2.0
// What a pod's annotations exclude goes uncaptured, and nothing else does, with every backend.

import { afterAll, beforeAll, describe, expect } from '@jest/globals'
import { silentLogger } from '../../../src/base/log.js'
import { openNetnsFile } from '../../../src/node-agent/netns/handle.js'
import { type NetnsWorkers, createNetnsWorkers } from '../../../src/node-agent/netns/workers.js'
import { parsePodOverrides } from '../../../src/node-agent/rules/overrides.js'
import { testWith } from '../../support/optional.js'
import { createPacketRoom, probeAddress4, probeAddress6 } from '../../support/packet-room.js'
import { createTestRules, testBackends } from '../../support/rule-backends.js'

let workers: NetnsWorkers
beforeAll(() => {
  workers = createNetnsWorkers({ log: silentLogger })
})
afterAll(() => workers.close())

const annotations = {
  'addressd.io/exclude-inbound-ports': '8080',
  'addressd.io/exclude-outbound-cidrs': '10.99.0.0/24, fd00:99::/64',
}
const wanted: Readonly<Record<string, string>> = {
  'peer 10.244.1.5 8080': 'pod:8080',
  'peer fd00:244::5 8080': 'pod:8080',
  'peer 10.244.1.5 53': 'pod:15006',
  'peer fd00:244::5 53': 'pod:15006',
  'pod 10.99.0.2 80': 'peer:80',
  'pod fd00:99::2 80': 'peer:80',
  'pod 10.244.1.1 80': 'pod:15001',
  'pod fd00:244::1 80': 'pod:15001',
  'pod 10.99.0.2 53': 'pod:15053',
}

describe.each(testBackends)('exclusions with $name', (backend) => {
  testWith('root', backend.missing())(
    'leave the named ports and prefixes alone, but for DNS',
    async () => {
      const room = createPacketRoom('excl')
      const netns = openNetnsFile(room.pod.path)
      try {
        const defaults = { ipv6: true, dnsCapture: true, probeAddress4, probeAddress6 }
        const { options } = parsePodOverrides({ namespace: 'shop', name: 'web', annotations }, defaults)
        const rules = await createTestRules(backend, workers)
        await rules.apply(netns, options)
        expect(await rules.check(netns, options)).toBe('complete')
        await room.start()
        const seen: Record<string, unknown> = {}
        for (const key of Object.keys(wanted)) {
          const [from = '', dst = '', port] = key.split(' ')
          const { lands, answered } = await room.send({ from, proto: 'tcp', dst, port: Number(port) })
          seen[key] = answered === true ? lands : 'unanswered'
        }
        expect(seen).toEqual(wanted)
      } finally {
        netns.close()
        room.close()
      }
    },
    120_000,
  )
})
