// SPDX-License-Identifier: Apache-2.0
// The taint of nodes whose agent is not ready: when it goes, and what stays.

import { afterEach, expect, test } from '@jest/globals'
import type { Json } from '../support/fake-apiserver-store.js'
import { ControlRoom, namespace } from './room.js'

let room: ControlRoom
const taint = { key: 'cni.istio.io/not-ready', effect: 'NoSchedule' }
const other = { key: 'gpu', value: 'a100', effect: 'NoExecute' }

afterEach(async () => {
  await room.close()
})

const node = (name: string, ...taints: readonly Json[]): Json => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name },
  spec: taints.length === 0 ? {} : { taints },
})
const agent = (name: string, nodeName: string, ready: boolean, more: Json = {}): Json => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, namespace: 'kube-system', labels: { 'k8s-app': 'istio-cni-node' }, ...more },
  spec: { nodeName, containers: [] },
  status: { phase: 'Running', conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }] },
})

async function open(...objects: readonly Json[]): Promise<void> {
  room = await ControlRoom.open(namespace('kube-system'), ...objects)
  await room.start('a', { untaint: { taint: taint.key, namespace: 'kube-system' } })
  await room.advance(1_000)
}
const taints = (name: string): unknown => room.server.get('Node', undefined, name)!['spec'].taints

test('it goes when the agent of the node is ready, others stay', async () => {
  await open(node('n1', other, taint), node('n2', taint), agent('a1', 'n1', false), agent('a2', 'n2', true))
  expect([taints('n1'), taints('n2')]).toEqual([[other, taint], []])
  await room.change(agent('a1', 'n1', true))
  expect(taints('n1')).toEqual([other])
  expect(room.writes()).toEqual(['patch Node n2', 'patch Node n1'])
  expect(room.server.writes.at(-1)?.body).toEqual([
    { op: 'test', path: '/spec/taints', value: [other, taint] },
    { op: 'replace', path: '/spec/taints', value: [other] },
  ])
})

test('it stays while only pods of other labels or namespaces are ready', async () => {
  await open(
    node('n1', taint),
    agent('a1', 'n1', true, { labels: { 'k8s-app': 'other' } }),
    agent('a2', 'n1', true, { namespace: 'shop' }),
  )
  expect([taints('n1'), room.writes()]).toEqual([[taint], []])
})

test('a node that is tainted later is cleared too; one without the taint is left alone', async () => {
  await open(node('n1'), agent('a1', 'n1', true))
  expect(room.writes()).toEqual([])
  await room.change(node('n1', taint))
  expect([taints('n1'), room.writes()]).toEqual([[], ['patch Node n1']])
})

test('taints that change at the same time are read again, and none of them is lost', async () => {
  room = await ControlRoom.open(namespace('kube-system'), node('n1', taint), agent('a1', 'n1', true))
  room.server.api({ verb: 'patch', kind: 'Node', answer: 422, times: 2 })
  await room.start('a', { untaint: { taint: taint.key, namespace: 'kube-system' } })
  room.server.upsert(node('n1', taint, other))
  await room.advance(10_000)
  expect(taints('n1')).toEqual([other])
})
