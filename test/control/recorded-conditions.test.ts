// SPDX-License-Identifier: Apache-2.0
// The conditions that a control plane wrote on the objects of recorded cases, and ours on the same objects: type, status and reason. The sentences are
// our own. Written conditions are fed back, as they would come from the API server, and then nothing is left to write.

import { afterAll, describe, expect, test } from '@jest/globals'
import { readFileSync } from 'node:fs'
import type { Read } from '../../src/collection/types.js'
import { formatStatusWriteKey, type StatusWrite, type StatusWrites } from '../../src/control/conditions.js'
import { createPolicyWrites } from '../../src/control/policy-conditions.js'
import {
  createServiceEntryWrites,
  createServiceWrites,
  createWorkloadEntryWrites,
} from '../../src/control/waypoint-conditions.js'
import { resourceTypes } from '../../src/kube/resources.js'
import { Room, type KubeObject, type ObjectName } from '../address/room.js'
import { casesFolder, listCases } from '../conformance/folder.js'
import { readCases } from '../conformance/recorded.js'

interface Condition {
  readonly type: string
  readonly status: string
  readonly reason: string
}

interface Step {
  readonly step: string
  readonly upsert: readonly KubeObject[]
  readonly delete: readonly ObjectName[]
  /** What stands on which object after the step; absent in cases of addresses, where the objects themselves show it. */
  readonly conditions?: Readonly<Record<string, readonly Condition[]>>
}

type Conditions = Readonly<Record<string, readonly string[]>>

const peek: Read = {
  one: (from, key) => from.get(key),
  many: (from, term) => from.lookup(term),
  setting: (from) => from.get(),
}
const nameOf = ({ kind, metadata }: KubeObject): string => `${kind}/${metadata.namespace ?? ''}/${metadata.name}`
const format = ({ type, status, reason }: Condition): string => `${type} ${status} ${reason}`
const ownTypes = (kind: string): readonly string[] =>
  kind in resourceTypes ? resourceTypes[kind as keyof typeof resourceTypes].conditions : []

class StatusRoom {
  readonly #room: Room
  readonly #writes: StatusWrites
  readonly #objects = new Map<string, KubeObject>()
  readonly #written = new Map<string, readonly Condition[]>()

  constructor(options: ConstructorParameters<typeof Room>[0]) {
    this.#room = new Room(options)
    const { graph, address } = this.#room
    this.#writes = graph.union(
      'writes',
      createServiceWrites(graph, address.domain),
      createServiceEntryWrites(graph, address.domain),
      createWorkloadEntryWrites(graph, address.domain),
      createPolicyWrites(graph, address.domain),
    )
    this.#room.commit()
  }

  take(step: Step): void {
    for (const ref of step.delete) {
      const key = `${ref.kind}/${ref.namespace ?? ''}/${ref.name}`
      this.#objects.delete(key)
      this.#written.delete(key)
    }
    this.#room.delete(step.delete)
    for (const object of step.upsert) {
      const key = nameOf(object)
      if (this.#objects.get(key)?.metadata['uid'] !== object.metadata['uid']) this.#written.delete(key)
      this.#objects.set(key, object)
      this.#feed(key)
    }
    this.#room.commit()
    for (const write of [...this.#writes.values()]) this.#write(write)
    this.#room.commit()
    expect([...this.#writes.values()].map(formatStatusWriteKey)).toEqual([])
  }

  conditions(): Conditions {
    return Object.fromEntries(
      [...this.#written].filter(([, list]) => list.length > 0).map(([key, list]) => [key, list.map(format).sort()]),
    )
  }

  /** Objects that are not seen any more keep what they were told before the recording began. */
  isSeen(key: string): boolean {
    const [, namespace = ''] = key.split('/')
    const { discovery, options } = this.#room.address.domain
    return discovery.isSeen(peek, { cluster: options.clusterId, namespace })
  }

  #write({ kind, namespace, name, types, wanted }: StatusWrite): void {
    const key = `${kind}/${namespace}/${name}`
    const others = (this.#written.get(key) ?? []).filter(({ type }) => !types.includes(type))
    this.#written.set(key, [...others, ...wanted])
    this.#feed(key)
  }

  /** The object with the conditions that we wrote, and none that others wrote. */
  #feed(key: string): void {
    const object = this.#objects.get(key)
    if (object === undefined) return
    const isOurs = ownTypes(object.kind).length > 0
    const status = isOurs
      ? { ...(object['status'] as object | undefined), conditions: this.#written.get(key) ?? [] }
      : object['status']
    this.#room.set([{ ...object, status }])
  }
}

/** What the recorded objects say of themselves, as far as it is told of the kinds that we write to. */
class RecordedObjects {
  readonly #objects = new Map<string, KubeObject>()

  take(step: Step): void {
    for (const { kind, namespace = '', name } of step.delete) this.#objects.delete(`${kind}/${namespace}/${name}`)
    for (const object of step.upsert) this.#objects.set(nameOf(object), object)
  }

  conditions(): Conditions {
    return Object.fromEntries(
      [...this.#objects].flatMap(([key, object]) => {
        const all = ((object['status'] as any)?.conditions ?? []) as readonly Condition[]
        const own = all.filter(({ type }) => ownTypes(object.kind).includes(type))
        return own.length === 0 ? [] : [[key, own.map(format).sort()]]
      }),
    )
  }

  /** Hosts with and without a wildcard: whichever host was looked at last had the word. */
  isMixed(key: string): boolean {
    const hosts = ((this.#objects.get(key)?.['spec'] as any)?.hosts ?? []) as readonly string[]
    return hosts.some((host) => host.startsWith('*')) && hosts.some((host) => !host.startsWith('*'))
  }
}

const select = (conditions: Conditions, isSeen: (key: string) => boolean, isDropped: (key: string) => boolean) =>
  Object.fromEntries(
    Object.entries(conditions)
      .filter(([key]) => isSeen(key))
      .map(
        ([key, list]) =>
          [key, isDropped(key) ? list.filter((text) => !text.startsWith('istio.io/WaypointMissing')) : list] as const,
      )
      .filter(([, list]) => list.length > 0),
  )

let compared = 0

for (const part of ['authorization', 'address']) {
  const folder = casesFolder(part)
  describe(`recorded conditions of ${part}`, () => {
    if (folder === undefined) {
      console.warn(`no ${part}/ among the recorded cases: nothing to compare`)
      test.skip(`${part}/ is missing`, () => undefined)
      return
    }
    const raw = new Map(listCases(folder).map((path) => [path, JSON.parse(readFileSync(path, 'utf8'))]))
    for (const { name, options, skipReason } of readCases(folder)) {
      const { steps, settings, deviation } = [...raw.values()].find((c) => c.name === name)
      const isOff = settings.env?.AMBIENT_ENABLE_STATUS === 'false'
      if (skipReason !== undefined || isOff) {
        console.warn(`SKIPPED: recorded conditions of ${name}: ${skipReason ?? 'none were written'}`)
        test.skip(`${name} (${skipReason ?? 'none were written'})`, () => undefined)
        continue
      }
      test(name, () => {
        const room = new StatusRoom(options)
        const recorded = new RecordedObjects()
        for (const step of steps as readonly Step[]) {
          room.take(step)
          recorded.take(step)
          const wanted =
            part === 'address'
              ? recorded.conditions()
              : Object.fromEntries(
                  Object.entries(step.conditions ?? {}).map(([key, list]) => [key, list.map(format).sort()]),
                )
          // The recorded control plane did not notice this change; its conditions are as old as its answers.
          if (deviation?.quirk === 'q21' && step.step in deviation.expect) continue
          const toComparable = (conditions: Conditions): object => ({
            step: step.step,
            ...select(
              conditions,
              (key) => room.isSeen(key),
              (key) => recorded.isMixed(key),
            ),
          })
          expect(toComparable(room.conditions())).toEqual(toComparable(wanted))
          compared += Object.keys(wanted).length
        }
      })
    }
  })
}

afterAll(() => console.info(`${compared} objects with conditions compared`))
