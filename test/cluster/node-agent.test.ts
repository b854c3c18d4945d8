// SPDX-License-Identifier: Apache-2.0
// The life of pods on a node, with a real API server that grants what the chart grants: into the mesh by label and by the plugin, and out again.

import { afterAll, beforeAll, expect } from '@jest/globals'
import { apiServerStartTimeoutMs, startApiServer, type ApiServer } from '../support/apiserver.js'
import { hostParts } from '../support/host-parts.js'
import { findPlugin } from '../support/native-plugin.js'
import { testWith } from '../support/optional.js'
import { installNodeAccount, nodePod } from './node-account.js'
import { NodeClusterRoom, type PodView } from './node-room.js'
import { ClusterObjects, type ObjectRef } from './objects.js'

const lacking = hostParts.netns ?? hostParts.nft ?? hostParts.built ?? findPlugin()
const started = lacking === undefined ? await startApiServer({ authorization: 'RBAC' }) : { unavailable: lacking }
const missing = 'unavailable' in started ? started.unavailable : undefined
const testReal = testWith(lacking === undefined ? 'api-server' : 'root', missing)
const api = started as ApiServer
const objects = new ClusterObjects((...request) => api.request(...request))
let room: NodeClusterRoom

const ambient = { 'istio.io/dataplane-mode': 'ambient' }
const at = (name: string): ObjectRef => ({ kind: 'Pod', namespace: 'shop', name })
const inMesh = (...probed: string[]): PodView => ({ mark: 'enabled', hasRules: true, isServed: true, probed })
const outside: PodView = { mark: undefined, hasRules: false, isServed: false, probed: [] }
const denials = (): readonly object[] =>
  room.log.records.filter(({ level, fields }) => level === 'error' || String(fields['error']).includes('403'))

beforeAll(async () => {
  if (missing !== undefined) return
  const kubeconfig = await installNodeAccount(api)
  await objects.create({ kind: 'Namespace', metadata: { name: 'shop' } })
  await objects.create(nodePod('labelled', ['10.1.0.1', 'fd00:1::1']))
  await objects.create(nodePod('early', ['10.1.0.2'], { labels: ambient }))
  await objects.create(nodePod('planned', [], { labels: ambient }))
  await objects.create(nodePod('short', ['10.1.0.4'], { labels: ambient }))
  await objects.create(nodePod('far', ['10.2.0.1'], { labels: ambient, node: 'node-2' }))
  room = new NodeClusterRoom(api, kubeconfig)
  await room.lodge({
    labelled: ['10.1.0.1', 'fd00:1::1'],
    early: ['10.1.0.2'],
    planned: ['10.1.0.3'],
    short: ['10.1.0.4'],
    far: ['10.2.0.1'],
  })
  room.ztunnel.start()
  await room.start()
}, apiServerStartTimeoutMs)

afterAll(async () => {
  if (missing !== undefined) return
  await room.close()
  await api.stop()
}, 60_000)

testReal('pods that run with the label when the agent comes are enrolled, and it is ready', async () => {
  expect(await room.lookUntil('early', inMesh('10.1.0.2'))).toEqual(inMesh('10.1.0.2'))
  expect(await room.lookUntil('short', inMesh('10.1.0.4'))).toEqual(inMesh('10.1.0.4'))
  expect(room.node.ready()).toBe(true)
})

testReal('a running pod joins when it is labelled, and leaves when it is not any more', async () => {
  expect(await room.look('labelled')).toEqual(outside)
  await room.label('labelled', 'ambient')
  const wanted = inMesh('10.1.0.1', 'fd00:1::1')
  expect(await room.lookUntil('labelled', wanted)).toEqual(wanted)
  await room.label('labelled', null)
  expect(await room.lookUntil('labelled', outside)).toEqual(outside)
  expect((await room.read('labelled')).metadata.annotations).toBeUndefined()
})

testReal(
  'a pod that starts is in the mesh when its plugin returns, and out when its sandbox is taken down',
  async () => {
    expect(await room.look('planned')).toEqual(outside)
    const run = await room.runtime('ADD', 'planned', ['10.1.0.3'])
    expect([run.exit, run.output]).toEqual([0, run.prevResult])
    expect(await room.look('planned')).toEqual(inMesh('10.1.0.3'))
    await objects.patchStatus(at('planned'), nodePod('planned', ['10.1.0.3'])['status'])
    expect(await room.runtime('DEL', 'planned', [])).toMatchObject({ exit: 0, output: '' })
    // Its namespace is the runtime's to take down, with all rules in it.
    expect(await room.lookUntil('planned', { ...outside, hasRules: true })).toEqual({ ...outside, hasRules: true })
  },
)

testReal('a pod that has ended is let go of, and so is one that is deleted', async () => {
  await objects.patchStatus(at('short'), { phase: 'Succeeded' })
  const ended = { ...outside, hasRules: true }
  expect(await room.lookUntil('short', ended)).toEqual(ended)
  await objects.remove(at('short'))
  await room.label('labelled', 'ambient')
  const wanted = inMesh('10.1.0.1', 'fd00:1::1')
  expect(await room.lookUntil('labelled', wanted)).toEqual(wanted)
  await objects.remove(at('labelled'))
  const gone = { ...ended, mark: 'no pod' }
  expect(await room.lookUntil('labelled', gone)).toEqual(gone)
})

testReal('an agent that comes back finds its pods as they are, and writes nothing', async () => {
  const before = (await room.read('early')).metadata.resourceVersion
  await room.stop()
  await room.start()
  expect(await room.lookUntil('early', inMesh('10.1.0.2'))).toEqual(inMesh('10.1.0.2'))
  await room.node.parts?.agent.idle()
  expect((await room.read('early')).metadata.resourceVersion).toBe(before)
})

testReal('pods of other nodes are left alone, and nothing was denied', async () => {
  expect(await room.look('far')).toEqual(outside)
  expect(denials()).toEqual([])
})
