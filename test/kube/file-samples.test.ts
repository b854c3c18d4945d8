// SPDX-License-Identifier: Apache-2.0
// The sample mesh is read whole and without a complaint.

import { expect, test } from '@jest/globals'
import { fileURLToPath } from 'node:url'
import { createGraph } from '../../src/collection/graph.js'
import { createFileFeed } from '../../src/kube/file-feed.js'
import { createInputs, kinds } from '../../src/kube/inputs.js'
import { FakeClock } from '../support/fake-clock.js'
import { collectingLogger, type Line } from './file-room.js'

const folder = fileURLToPath(new URL('../../samples', import.meta.url))

test('every object of the samples becomes a row, nothing is passed over and nothing is warned of', async () => {
  const inputs = createInputs(createGraph())
  const lines: Line[] = []
  const stop = new AbortController()
  const feed = createFileFeed({
    folder,
    inputs,
    cluster: 'c1',
    systemNamespace: 'istio-system',
    clock: new FakeClock(),
    log: collectingLogger(lines),
  })
  const running = feed.run(stop.signal)
  await feed.synced
  expect(feed.pending()).toEqual([])
  stop.abort()
  await running
  expect(lines).toEqual([{ level: 'info', fields: { folder, objects: 29 }, message: 'manifests taken in' }])
  expect(Object.fromEntries(kinds.map((kind) => [kind, [...inputs[kind].keys()].sort()]))).toEqual({
    Namespace: ['c1/bank', 'c1/istio-system', 'c1/shop'],
    Node: ['c1/node-a', 'c1/node-b'],
    ConfigMap: [],
    GatewayClass: ['c1/istio-waypoint'],
    Gateway: ['c1/bank/waypoint'],
    Service: [
      'c1/bank/ledger',
      'c1/bank/waypoint',
      'c1/shop/cart',
      'c1/shop/orders-archive',
      'c1/shop/sessions',
      'c1/shop/storefront',
    ],
    ServiceEntry: ['c1/bank/card-network', 'c1/bank/partner-banks', 'c1/bank/vault'],
    WorkloadEntry: ['c1/bank/vault-vm'],
    AuthorizationPolicy: ['c1/bank/ledger-callers'],
    PeerAuthentication: ['c1/bank/default'],
    EndpointSlice: ['c1/shop/cart-ipv4', 'c1/shop/orders-archive-1'],
    Pod: [
      'c1/bank/ledger-0',
      'c1/bank/settlement-29387520-x7k2p',
      'c1/bank/waypoint-7f8d9c6b5-2m4nv',
      'c1/istio-system/node-probe-t5j8w',
      'c1/shop/cart-0',
      'c1/shop/cart-1',
      'c1/shop/sessions-0',
      'c1/shop/storefront-6c9f7d5b8-4kxqz',
    ],
  })
})

test('no two things of the samples have the same address, but for the Gateway and its Service', async () => {
  const inputs = createInputs(createGraph())
  const stop = new AbortController()
  const feed = createFileFeed({
    folder,
    inputs,
    cluster: 'c1',
    systemNamespace: 'istio-system',
    clock: new FakeClock(),
    log: collectingLogger([]),
  })
  const running = feed.run(stop.signal)
  await feed.synced
  stop.abort()
  await running
  const addresses = [
    ...[...inputs.Pod.values()].flatMap((p) => p.ips),
    ...[...inputs.Service.values()].flatMap((s) => s.clusterIps),
    ...[...inputs.ServiceEntry.values()].flatMap((s) => [...s.addresses, ...s.statusAddresses.map((a) => a.value)]),
    ...[...inputs.WorkloadEntry.values()].map((w) => w.spec.address),
  ]
  expect(new Set(addresses).size).toBe(addresses.length)
  const gateway = inputs.Gateway.get('c1/bank/waypoint')
  expect(gateway?.addresses).toEqual([
    { type: 'IPAddress', value: inputs.Service.get('c1/bank/waypoint')?.clusterIps[0] },
  ])
})
