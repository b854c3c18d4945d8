// SPDX-License-Identifier: Apache-2.0
import { expect, test } from '@jest/globals'
import { createGraph } from '../../src/collection/graph.js'
import { createInputs } from '../../src/kube/inputs.js'
import type { NodeRecord } from '../../src/kube/records.js'
import { observeInputs } from '../../src/main/observed-inputs.js'

const node = (name: string, zone: string): NodeRecord => ({
  cluster: 'c',
  name,
  region: 'r',
  zone,
  subzone: '',
  taints: [],
})

test('only what really changes is told, and it reaches the table behind', () => {
  const inputs = createInputs(createGraph())
  const told: unknown[] = []
  const { Node, Pod } = observeInputs(inputs, (...change) => told.push(change))
  Node.set('c/a', node('a', '1'))
  Node.set('c/a', node('a', '1'))
  Node.set('c/a', node('a', '2'))
  Node.delete('c/b')
  Node.delete('c/a')
  Node.replace(new Map([['c/x', node('x', '1')]]))
  Node.replace(new Map())
  Pod.replace(new Map())
  expect(told).toEqual([
    ['Node', 'write', 1],
    ['Node', 'write', 1],
    ['Node', 'delete', 1],
    ['Node', 'write', 1],
    ['Node', 'write', 0],
  ])
  Node.set('c/y', node('y', '1'))
  expect([inputs.Node.size, Node.size, Node.get('c/y'), [...Node.keys()]]).toEqual([1, 1, node('y', '1'), ['c/y']])
})
