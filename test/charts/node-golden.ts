// SPDX-License-Identifier: Apache-2.0
// The sets of values that the chart of the node agent is rendered with in tests, and what it renders to, as golden.ts has it for the server's.

import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { readManifests, selectKind, type Manifest } from './golden.js'

export const nodeChart = fileURLToPath(new URL('../../charts/addressd-node', import.meta.url))
export const nodeValueSets = ['node-defaults', 'node-alone', 'node-of-istio-cni', 'node-all'] as const
export type NodeValueSet = (typeof nodeValueSets)[number]

export function toNodeGoldenPath(set: NodeValueSet): string {
  return fileURLToPath(new URL(`golden/${set}.yaml`, import.meta.url))
}

/** Arguments for helm: none for the defaults. */
export function toNodeValueFlags(set: NodeValueSet): readonly string[] {
  const file = fileURLToPath(new URL(`values/${set}.yaml`, import.meta.url))
  return existsSync(file) ? ['--values', file] : []
}

export function readNodeGolden(set: NodeValueSet): readonly Manifest[] {
  return readManifests(readFileSync(toNodeGoldenPath(set), 'utf8'))
}

export function selectAgent(objects: readonly Manifest[]): Manifest {
  return selectKind(objects, 'DaemonSet').spec.template.spec.containers[0]
}
