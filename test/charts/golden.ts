// SPDX-License-Identifier: Apache-2.0
// The sets of values that the chart is rendered with in tests, and what it renders to: one file each in golden/, written anew by
// `TEST_WRITE_GOLDEN=1` where helm is. Tests that look at objects read those files, so that they run without helm.

import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseAllDocuments } from 'yaml'

/** An object of Kubernetes, whatever its kind. */
export type Manifest = any

export const chart = fileURLToPath(new URL('../../charts/addressd', import.meta.url))
export const namespace = 'istio-system'

export const valueSets = ['defaults', 'single', 'beside-istiod', 'of-istiod', 'all'] as const
export type ValueSet = (typeof valueSets)[number]

export function toGoldenPath(set: ValueSet): string {
  return fileURLToPath(new URL(`golden/${set}.yaml`, import.meta.url))
}

/** Arguments for helm: none for the defaults. */
export function toValueFlags(set: ValueSet): readonly string[] {
  const file = fileURLToPath(new URL(`values/${set}.yaml`, import.meta.url))
  return existsSync(file) ? ['--values', file] : []
}

export function readManifests(text: string): readonly Manifest[] {
  return parseAllDocuments(text)
    .map((document) => document.toJS())
    .filter((object) => object !== null)
}

export function readGolden(set: ValueSet): readonly Manifest[] {
  return readManifests(readFileSync(toGoldenPath(set), 'utf8'))
}

/** The only object of a kind; throws when there is none. */
export function selectKind(objects: readonly Manifest[], kind: string): Manifest {
  const found = objects.filter((object) => object.kind === kind)
  if (found.length !== 1) throw new Error(`${found.length} objects are a ${kind}, not one`)
  return found[0]
}

export function selectContainer(objects: readonly Manifest[]): Manifest {
  return selectKind(objects, 'Deployment').spec.template.spec.containers[0]
}
