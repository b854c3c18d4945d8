// SPDX-License-Identifier: Apache-2.0
// Recorded answers of a control plane, case by case: what is pushed, what a client then holds, what look-ups find; and that a fresh start says the same.
// Knows no case by name. Policies are not served yet: their names are counted and not compared.

import { readFileSync } from 'node:fs'
import { describe, test, expect, afterAll } from '@jest/globals'
import { parseBoolean } from '../../src/base/go-values.js'
import type { AddressOptions } from '../../src/address/options.js'
import { bodyOf, Room, type KubeObject, type ObjectName } from '../address/room.js'
import { expand } from './expand.mjs'
import { casesFolder, listCases } from './folder.js'

interface Recorded {
  readonly version: string
  readonly aliases?: readonly string[]
  readonly hex: string
}

interface Step {
  readonly step: string
  readonly upsert: readonly KubeObject[]
  readonly delete: readonly ObjectName[]
  readonly remote?: unknown
  readonly full: {
    readonly address: ReadonlyMap<string, Recorded>
    readonly authorization: ReadonlyMap<string, unknown>
  }
  readonly pushes: {
    readonly address: {
      readonly must: readonly string[]
      readonly may: readonly string[]
      readonly removed: readonly string[]
    }
  }
  readonly restarted: { readonly address: ReadonlyMap<string, Recorded> }
  readonly lookups: readonly {
    readonly keys: readonly string[]
    readonly resources: readonly { readonly name: string; readonly aliases?: readonly string[] }[]
    readonly removed: readonly string[]
  }[]
}

interface Case {
  readonly name: string
  readonly about: string
  readonly settings: {
    readonly clusterId: string
    readonly systemNamespace: string
    readonly revision?: string
    readonly domain: string
    readonly env?: Readonly<Record<string, string>>
  }
}

const folder = casesFolder('address')
const cases = folder === undefined ? [] : listCases(folder).map(readCase)
const skipped: string[] = []
let policyNames = 0

function readCase(path: string): { readonly name: string; readonly case: Case; readonly steps: readonly Step[] } {
  const recorded = JSON.parse(readFileSync(path, 'utf8')) as Case
  return { name: recorded.name, case: recorded, steps: expand(recorded) as unknown as readonly Step[] }
}

function toOptions({ settings }: Case): Partial<AddressOptions> {
  const flag = (name: string, absent: boolean): boolean =>
    settings.env?.[name] === undefined ? absent : parseBoolean(settings.env[name])
  return {
    clusterId: settings.clusterId,
    systemNamespace: settings.systemNamespace,
    revision: settings.revision ?? 'default',
    domain: settings.domain,
    autoAllowWaypointPolicy: flag('PILOT_AUTO_ALLOW_WAYPOINT_POLICY', false),
    dryRunPolicies: flag('AMBIENT_ENABLE_DRY_RUN_AUTHORIZATION_POLICY', false),
    serviceEntrySelectsPods: flag('PILOT_ENABLE_SERVICEENTRY_SELECT_PODS', true),
    serviceSelectsWorkloadEntries: flag('PILOT_ENABLE_K8S_SELECT_WORKLOAD_ENTRIES', true),
    ipAutoallocate: flag('PILOT_ENABLE_IP_AUTOALLOCATE', true),
  }
}

/** Why a case needs what is not built; undefined when it can be run. */
function toSkipReason(recorded: Case, steps: readonly Step[]): string | undefined {
  if (steps.some((step) => step.remote !== undefined)) return 'it has two clusters'
  if (recorded.settings.env?.AMBIENT_ENABLE_MULTI_NETWORK === 'true') return 'it needs the multi-network mode'
  return undefined
}

const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')
const sorted = (names: Iterable<string>): readonly string[] => [...names].sort()

function toState(room: Room): Readonly<Record<string, string>> {
  return Object.fromEntries(
    [...room.source.all()].map((r) => [r.name, `${r.version} ${hexOf(bodyOf(r))}`] as const).sort(),
  )
}

function toRecordedState(full: ReadonlyMap<string, Recorded>): Readonly<Record<string, string>> {
  return Object.fromEntries([...full].map(([name, r]) => [name, `${r.version} ${r.hex}`] as const).sort())
}

/** The answer to an explicit request of these keys by a node without pods. */
function ask(room: Room, keys: readonly string[]): unknown {
  const found = new Map<string, readonly string[]>()
  const removed = new Set<string>()
  for (const key of keys) {
    const resources = room.source.lookup(key)
    for (const resource of resources) found.set(resource.name, sorted(resource.aliases))
    if (!resources.some((resource) => resource.name === key)) removed.add(key)
  }
  return { resources: Object.fromEntries([...found].sort()), removed: sorted(removed) }
}

class Objects {
  readonly #held = new Map<string, KubeObject>()

  take(step: Step): void {
    for (const { apiVersion, kind, namespace = '', name } of step.delete)
      this.#held.delete(formatKey(apiVersion, kind, namespace, name))
    for (const object of step.upsert) {
      const { apiVersion, kind, metadata } = object
      this.#held.set(formatKey(apiVersion, kind, metadata.namespace ?? '', metadata.name), object)
    }
  }

  all(): readonly KubeObject[] {
    return [...this.#held.values()]
  }
}

function formatKey(apiVersion: string, kind: string, namespace: string, name: string): string {
  return [apiVersion.split('/').slice(0, -1).join('/'), kind, namespace, name].join(' ')
}

function run(recorded: Case, steps: readonly Step[]): void {
  const options = toOptions(recorded)
  const room = new Room(options)
  const objects = new Objects()
  room.commit()
  for (const step of steps) {
    policyNames += step.full.authorization.size
    room.delete(step.delete)
    room.set(step.upsert)
    const pushed = room.commit()
    const { must, may, removed } = step.pushes.address
    expect({ step: step.step, state: toState(room) }).toEqual({
      step: step.step,
      state: toRecordedState(step.full.address),
    })
    expect({
      step: step.step,
      missing: must.filter((name) => !pushed.changed.includes(name)),
      unasked: pushed.changed.filter((name) => !may.includes(name)),
      removed: sorted(pushed.removed),
    }).toEqual({ step: step.step, missing: [], unasked: [], removed: sorted(removed) })
    for (const { keys, resources, removed: unknown } of step.lookups)
      expect({ step: step.step, keys, answer: ask(room, keys) }).toEqual({
        step: step.step,
        keys,
        answer: {
          resources: Object.fromEntries(resources.map((r) => [r.name, sorted(r.aliases ?? [])] as const).sort()),
          removed: sorted(unknown),
        },
      })
    objects.take(step)
    const fresh = new Room(options)
    fresh.apply(...objects.all())
    expect({ step: step.step, restarted: toState(fresh) }).toEqual({
      step: step.step,
      restarted: toRecordedState(step.restarted.address),
    })
  }
}

describe('recorded addresses', () => {
  if (folder === undefined) {
    console.warn('no address/ among the recorded cases: nothing to compare')
    test.skip('address/ is missing', () => undefined)
  }
  for (const { name, case: recorded, steps } of cases) {
    const reason = toSkipReason(recorded, steps)
    if (reason === undefined) test(name, () => run(recorded, steps))
    else {
      skipped.push(`${name}: ${reason}`)
      test.skip(`${name} (${reason})`, () => undefined)
    }
  }
  afterAll(() => {
    if (skipped.length > 0) console.warn(`${skipped.length} cases not run: ${skipped.join('; ')}`)
    console.warn(`${policyNames} names of policies are recorded in these cases and were not compared`)
  })
})
