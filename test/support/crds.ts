// SPDX-License-Identifier: Apache-2.0
// Installs CustomResourceDefinitions from a folder of manifests into a test API server and waits until it serves them.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseAllDocuments } from 'yaml'
import type { ApiRequest } from './apiserver-client.js'

interface Definition {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string }
  readonly spec: {
    readonly group: string
    readonly names: { readonly plural: string }
    readonly versions: readonly { readonly name: string; readonly served: boolean }[]
  }
}

const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
const timeoutMs = 60_000

/** All definitions in the .yaml, .yml and .json files of a folder; other objects there are passed over. */
export function readDefinitions(folder: string): readonly Definition[] {
  const files = readdirSync(folder).filter((file) => /\.(ya?ml|json)$/.test(file))
  const found: Definition[] = []
  for (const file of files.sort()) {
    for (const document of parseAllDocuments(readFileSync(join(folder, file), 'utf8'))) {
      const object = document.toJS() as Definition | null
      if (object?.kind === 'CustomResourceDefinition') found.push(object)
    }
  }
  return found
}

/** Creates the definitions of the folder (those that exist stay as they are); resolves with their names when each is Established and answers a list. */
export async function installDefinitions(folder: string, request: ApiRequest): Promise<readonly string[]> {
  const definitions = readDefinitions(folder)
  if (definitions.length === 0) throw new Error(`${folder} holds no CustomResourceDefinition`)
  await Promise.all(
    definitions.map(async (definition) => {
      const answer = await request('POST', path, definition)
      if (answer.status !== 201 && answer.status !== 409) {
        throw new Error(`${definition.metadata.name}: ${answer.status} ${answer.body.toString()}`)
      }
    }),
  )
  const deadline = performance.now() + timeoutMs
  for (const definition of definitions) await waitUntilServed(definition, request, deadline)
  return definitions.map((definition) => definition.metadata.name)
}

async function waitUntilServed(definition: Definition, request: ApiRequest, deadline: number): Promise<void> {
  const { group, names, versions } = definition.spec
  for (;;) {
    const conditions = ((await request('GET', `${path}/${definition.metadata.name}`)).json().status?.conditions ??
      []) as readonly { type: string; status: string }[]
    if (conditions.some((condition) => condition.type === 'Established' && condition.status === 'True')) break
    await sleepUntil(deadline, `${definition.metadata.name} is not Established`)
  }
  // Established comes a moment before the paths are served.
  for (const version of versions) {
    if (!version.served) continue
    while ((await request('GET', `/apis/${group}/${version.name}/${names.plural}?limit=1`)).status !== 200) {
      await sleepUntil(deadline, `${definition.metadata.name} is not served as ${version.name}`)
    }
  }
}

async function sleepUntil(deadline: number, problem: string): Promise<void> {
  if (performance.now() > deadline) throw new Error(`${problem} after ${timeoutMs / 1000} s`)
  await sleep(50)
}
