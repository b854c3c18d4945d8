// SPDX-License-Identifier: Apache-2.0
// Recorded cases of addresses and policies, and how one is played: each step as one change, then what was pushed, what a client now holds, what look-ups
// find; and that a fresh start on the same objects says the same. Knows no case by name.

import { readFileSync } from 'node:fs'
import { expect } from '@jest/globals'
import type { AddressOptions } from '../../src/address/options.js'
import { parseBoolean } from '../../src/base/go-values.js'
import { ADDRESS_TYPE, AUTHORIZATION_TYPE } from '../../src/wire/messages.js'
import type { ResourceSource } from '../../src/xds/source.js'
import { bodyOf, Room, type KubeObject, type ObjectName, type Pushed } from '../address/room.js'
import { expand } from './expand.mjs'
import { listCases } from './folder.js'

interface Recorded {
  /** Policies have none. */
  readonly version?: string
  readonly aliases?: readonly string[]
  readonly hex: string
}

type State = ReadonlyMap<string, Recorded>

interface Pushes {
  readonly must: readonly string[]
  readonly may: readonly string[]
  readonly removed: readonly string[]
}

interface ByKind<T> {
  readonly address: T
  readonly authorization: T
}

interface Step {
  readonly step: string
  readonly upsert: readonly KubeObject[]
  readonly delete: readonly ObjectName[]
  readonly remote?: unknown
  readonly full: ByKind<State>
  readonly pushes: ByKind<Pushes>
  readonly restarted: ByKind<State>
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
  readonly deviation?: unknown
}

export interface RecordedCase {
  readonly name: string
  readonly about: string
  readonly options: Partial<AddressOptions>
  readonly steps: readonly Step[]
  /** Why it needs what is not built; undefined when it can be played. */
  readonly skipReason: string | undefined
}

/** Every case of a folder, by name. */
export function readCases(folder: string): readonly RecordedCase[] {
  return listCases(folder).map((path) => {
    const recorded = JSON.parse(readFileSync(path, 'utf8')) as Case
    const steps = expand(recorded) as unknown as readonly Step[]
    const { name, about } = recorded
    return { name, about, options: toOptions(recorded), steps, skipReason: toSkipReason(recorded, steps) }
  })
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

function toSkipReason(recorded: Case, steps: readonly Step[]): string | undefined {
  if (steps.some((step) => step.remote !== undefined)) return 'it has two clusters'
  if (recorded.settings.env?.['AMBIENT_ENABLE_MULTI_NETWORK'] === 'true') return 'it needs the multi-network mode'
  return undefined
}

/** Plays the case; gives how many names of each kind were compared. */
export function play({ options, steps }: RecordedCase): ByKind<number> {
  const counts = { address: 0, authorization: 0 }
  const room = new Room(options)
  const objects = new Objects()
  room.commit()
  for (const step of steps) {
    room.delete(step.delete)
    room.set(step.upsert)
    room.commit()
    counts.address += step.full.address.size
    counts.authorization += step.full.authorization.size
    const now = { step: step.step, address: toState(room.source), authorization: toState(room.policies) }
    expect(now).toEqual({ step: step.step, ...toRecordedStates(step.full) })
    checkPushes(step.step, room.pushed(ADDRESS_TYPE), step.pushes.address)
    checkPushes(step.step, room.pushed(AUTHORIZATION_TYPE), step.pushes.authorization)
    checkPoliciesResolve(room)
    for (const { keys, resources, removed } of step.lookups)
      expect({ step: step.step, keys, answer: ask(room, keys) }).toEqual({
        step: step.step,
        keys,
        answer: {
          resources: Object.fromEntries(resources.map((r) => [r.name, toSorted(r.aliases ?? [])] as const).sort()),
          removed: toSorted(removed),
        },
      })
    objects.take(step)
    const fresh = new Room(options)
    fresh.apply(...objects.all())
    const restarted = { step: step.step, address: toState(fresh.source), authorization: toState(fresh.policies) }
    expect(restarted).toEqual({ step: step.step, ...toRecordedStates(step.restarted) })
  }
  return counts
}

function checkPushes(step: string, pushed: Pushed, { must, may, removed }: Pushes): void {
  expect({
    step,
    missing: must.filter((name) => !pushed.changed.includes(name)),
    unasked: pushed.changed.filter((name) => !may.includes(name)),
    removed: pushed.removed,
  }).toEqual({ step, missing: [], unasked: [], removed: toSorted(removed) })
}

/** A name that leads nowhere is a policy that nobody enforces. */
export function checkPoliciesResolve(room: Room): void {
  const lost = [...room.source.all()].flatMap(({ name, needs = [] }) =>
    needs.filter((policy) => room.policies.get(policy) === undefined).map((policy) => `${name}: ${policy}`),
  )
  expect(lost).toEqual([])
}

const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')
const toSorted = (names: Iterable<string>): readonly string[] => [...names].sort()

type Texts = Readonly<Record<string, string>>

function toState(source: ResourceSource): Texts {
  return Object.fromEntries([...source.all()].map((r) => [r.name, `${r.version} ${hexOf(bodyOf(r))}`] as const).sort())
}

function toRecordedStates(full: ByKind<State>): ByKind<Texts> {
  const toTexts = (state: State): Texts =>
    Object.fromEntries([...state].map(([name, r]) => [name, `${r.version ?? ''} ${r.hex}`] as const).sort())
  return { address: toTexts(full.address), authorization: toTexts(full.authorization) }
}

/** The answer to an explicit request of these keys by a node without pods. */
function ask(room: Room, keys: readonly string[]): unknown {
  const found = new Map<string, readonly string[]>()
  const removed = new Set<string>()
  for (const key of keys) {
    const resources = room.source.lookup(key)
    for (const resource of resources) found.set(resource.name, toSorted(resource.aliases))
    if (!resources.some((resource) => resource.name === key)) removed.add(key)
  }
  return { resources: Object.fromEntries([...found].sort()), removed: toSorted(removed) }
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
