// SPDX-License-Identifier: Apache-2.0
// Recorded dumps of a ztunnel: objects in steps, the environment it ran with, and what it said that it held after each. For those who play them with a
// real one and for those who have none.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { KubeObject, ObjectName } from '../address/room.js'
import { toHeld, type Held } from '../peer/ztunnel.js'

export interface DumpStep {
  readonly step: string
  readonly upsert: readonly KubeObject[]
  readonly delete: readonly ObjectName[]
  readonly held: Held
}

export interface DumpCase {
  readonly name: string
  readonly about: string
  readonly settings: { readonly clusterId: string; readonly systemNamespace: string; readonly domain: string }
  /** Environment of the ztunnel. */
  readonly env: Readonly<Record<string, string>>
  readonly steps: readonly DumpStep[]
}

/** Every case of a folder, by name. Throws when there is none. */
export function readDumps(folder: string): readonly DumpCase[] {
  const names = readdirSync(folder).filter((name) => existsSync(join(folder, name, 'config_dump.json')))
  if (names.length === 0) throw new Error(`${folder} holds no recorded dump`)
  return names.sort().map((name) => {
    const read = (file: string): any => JSON.parse(readFileSync(join(folder, name, file), 'utf8'))
    const { about, settings, ztunnel, steps } = read('case.json')
    const dumps: readonly any[] = read('config_dump.json')
    return {
      name,
      about,
      settings,
      env: ztunnel,
      steps: steps.map((step: any) => ({
        step: step.step,
        upsert: step.upsert ?? [],
        delete: step.delete ?? [],
        held: toHeld(dumps.find((dump) => dump.step === step.step)),
      })),
    }
  })
}
