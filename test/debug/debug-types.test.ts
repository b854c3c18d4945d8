// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { createDebugTypes } from '../../src/debug/debug-types.js'
import { decodeEntry } from '../../src/wire/entry.js'
import { ADDRESS_TYPE } from '../../src/wire/messages.js'
import { loadProtos } from '../../src/wire/protos.js'
import type { DebugAnswer } from '../../src/xds/debug-types.js'
import { createShop, makeClient } from '../ctl/room.js'

const watch = {
  typeUrl: ADDRESS_TYPE,
  wildcard: true,
  names: [],
  sentNonce: '',
  ackedNonce: '',
  sentAtMs: 0,
  lastError: '',
}
const types = createDebugTypes({
  store: createShop(),
  clients: () => [
    makeClient({ watches: [watch, { ...watch, typeUrl: 'x', sentNonce: 'n', sentAtMs: 1_500, lastError: 'no' }] }),
  ],
  held: () => new Map(),
  systemNamespace: 'istio-system',
  replica: 'addressd-0',
  build: { version: '0.1.0', revision: 'r' },
})
const admin = ['spiffe://cluster.local/ns/istio-system/sa/reader']

function bodies(answer: DebugAnswer): readonly (readonly string[])[] {
  return answer.entries.map((entry) => {
    const { name, typeUrl, body } = decodeEntry(entry)
    return [name, typeUrl, Buffer.from(body).toString()]
  })
}

test('istio.io/debug answers with the page as it is over HTTP', async () => {
  expect(bodies(await types.answer('istio.io/debug', ['push_status?pretty'], admin))).toEqual([
    ['push_status?pretty', 'istio.io/debug', '{}\n'],
  ])
  const [page] = bodies(await types.answer('istio.io/debug', ['ambientz'], admin))
  expect(Object.keys(JSON.parse(page?.[2] ?? ''))).toEqual(['workloads', 'services', 'policies'])
})

test('istio.io/debug/config_dump takes the name of a proxy', async () => {
  expect(bodies(await types.answer('istio.io/debug/config_dump', ['ztunnel-a'], admin))).toEqual([
    ['ztunnel-a', 'istio.io/debug/config_dump', '{}'],
  ])
})

test('istio.io/debug/syncz answers one ClientConfig a client, and says who answers', async () => {
  const answer = await types.answer('istio.io/debug/syncz', [], admin)
  expect(JSON.parse(answer.controlPlane)).toEqual({
    Component: 'addressd',
    ID: 'addressd-0',
    Info: { version: '0.1.0', revision: 'r' },
  })
  const configs = answer.entries.map((entry) => {
    const { name, typeUrl, body } = decodeEntry(entry)
    return [name, typeUrl, loadProtos().messages.clientConfig.decode(body)]
  })
  expect(configs).toMatchObject([
    [
      'ztunnel-a.istio-system',
      'type.googleapis.com/envoy.service.status.v3.ClientConfig',
      {
        node: {
          id: 'ztunnel~10.0.0.9~ztunnel-a.istio-system~istio-system.svc.cluster.local',
          metadata: {
            fields: {
              CLUSTER_ID: { stringValue: 'Kubernetes' },
              NAMESPACE: { stringValue: 'istio-system' },
              ISTIO_VERSION: { stringValue: '' },
            },
          },
        },
        generic_xds_configs: [
          { type_url: ADDRESS_TYPE, config_status: 'NOT_SENT' },
          {
            type_url: 'x',
            config_status: 'ERROR',
            last_updated: { seconds: '1', nanos: 500_000_000 },
            error_state: { details: 'no' },
          },
        ],
      },
    ],
  ])
})

test('a debug type that nobody makes is answered empty', async () => {
  expect(await types.answer('istio.io/debug/other', ['x'], admin)).toEqual({ entries: [], controlPlane: '' })
})

test('a page that is not there is answered with a page that says so', async () => {
  expect(bodies(await types.answer('istio.io/debug', ['wat?x=1'], admin))).toEqual([
    ['wat?x=1', 'istio.io/debug', 'there is no debug page "wat"\n'],
  ])
})

describe('refused, with a status:', () => {
  const someone = ['spiffe://cluster.local/ns/shop/sa/istio-system']
  test.each([
    ['no identity', { typeUrl: 'istio.io/debug/syncz', identities: [] }, [16, 'authentication required']],
    [
      'an identity of another namespace',
      { typeUrl: 'istio.io/debug/syncz', identities: someone },
      [7, `the debug info is not available for current identity: ${someone.join()}`],
    ],
    ['no request', { names: [] }, [3, 'exactly one debug request is required']],
    ['two requests', { names: ['syncz', 'adsz'] }, [3, 'exactly one debug request is required']],
  ])('%s', async (_what, asked, [status, message]) => {
    const { typeUrl, names, identities } = { typeUrl: 'istio.io/debug', names: [], identities: admin, ...asked }
    await expect(types.answer(typeUrl, names, identities)).rejects.toMatchObject({ status, message })
  })
})
