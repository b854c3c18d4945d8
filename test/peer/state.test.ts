// SPDX-License-Identifier: Apache-2.0
// A real ztunnel that is told everything holds what our bytes mean after every kind of change, and rejects nothing.

import { afterEach, describe, expect } from '@jest/globals'
import { objectKey } from '../../src/kube/records.js'
import type { KubeObject, ObjectName } from '../address/room.js'
import { casesFolder } from '../conformance/folder.js'
import { readCases, type RecordedCase } from '../conformance/recorded.js'
import { testWith } from '../support/optional.js'
import { nameOf, namespace, pod } from './objects.js'
import { expectHeld, expectReady, Room } from './room.js'
import { script } from './script.js'
import { until, whyNoZtunnel, type Ztunnel } from './ztunnel.js'

const maybe = testWith('ztunnel', whyNoZtunnel())

let room: Room | undefined
let beats = 0
afterEach(async () => {
  await room?.close()
  room = undefined
})

async function start(
  objects: readonly KubeObject[],
  env: Record<string, string> = {},
  flags: string[] = [],
): Promise<Ztunnel> {
  room = await Room.open(objects, { env, flags })
  const ztunnel = room.startZtunnel(await room.openSpace(), {
    PROXY_MODE: 'dedicated',
    PROXY_WORKLOAD_INFO: 'a/web/web',
    AUTH_TOKEN: await room.token('istio-system', 'ztunnel'),
  })
  await expectReady(ztunnel)
  return ztunnel
}

/** One change, a pod that tells that it was taken, and the comparison. */
async function change(
  ztunnel: Ztunnel,
  objects: readonly KubeObject[],
  gone: readonly ObjectName[] = [],
): Promise<void> {
  const ip = `10.99.${++beats >> 8}.${beats & 255}`
  room!.change([...objects, pod('beat/beat', { ip })], gone)
  const { served } = room!.server.parts
  const key = objectKey(room!.clusterId, 'beat', 'beat')
  await until(
    () => Promise.resolve(served.inputs.Pod.get(key)?.ips[0] === ip && !served.isPending),
    () => 'addressd to see a change',
  )
  await expectHeld(ztunnel, () => room!.expected())
}

async function expectNoRejects(): Promise<void> {
  const families = await room!.server.parts.registry.getMetricsAsJSON()
  const rejects = families.find(({ name }) => name.startsWith('pilot_total_xds_rejects'))
  expect({ rejects: rejects?.values ?? [] }).toEqual({ rejects: [] })
  const complaints = room!.log.records.filter(({ level }) => level === 'error')
  expect(complaints).toEqual([])
}

describe('a real ztunnel', () => {
  maybe('is ready with an empty mesh', async () => {
    const ztunnel = await start([])
    expect(await ztunnel.held()).toEqual({ workloads: [], services: [], policies: [], stagedServices: {} })
  })

  maybe(
    `holds what we serve after each of ${script.length} changes`,
    async () => {
      const ztunnel = await start([namespace('a')])
      for (const [what, objects, gone = []] of script) {
        try {
          await change(ztunnel, objects, gone.map(nameOf))
        } catch (error) {
          throw new Error(`after "${what}"`, { cause: error })
        }
      }
      expect((await ztunnel.held()).workloads.length).toBe(1)
      await expectNoRejects()
    },
    180_000,
  )
})

/** The settings that make the options of a case. */
function toSettings({ options }: RecordedCase): { env: Record<string, string>; flags: string[] } {
  return {
    env: {
      REVISION: options.revision ?? '',
      PILOT_AUTO_ALLOW_WAYPOINT_POLICY: String(options.autoAllowWaypointPolicy),
      AMBIENT_ENABLE_DRY_RUN_AUTHORIZATION_POLICY: String(options.dryRunPolicies),
      PILOT_ENABLE_SERVICEENTRY_SELECT_PODS: String(options.serviceEntrySelectsPods),
      PILOT_ENABLE_K8S_SELECT_WORKLOAD_ENTRIES: String(options.serviceSelectsWorkloadEntries),
      PILOT_ENABLE_IP_AUTOALLOCATE: String(options.ipAutoallocate),
    },
    flags: [
      ...['--clusterID', options.clusterId ?? '', '--namespace', options.systemNamespace ?? ''],
      ...['--domain', options.domain ?? ''],
    ],
  }
}

const kinds = ['address', 'authorization']
const recorded = kinds.flatMap((kind) => {
  const folder = casesFolder(kind)
  return folder === undefined ? [] : readCases(folder).filter(({ skipReason }) => skipReason === undefined)
})
const groups = new Map<string, RecordedCase[]>()
for (const one of recorded) {
  const key = JSON.stringify(toSettings(one))
  groups.set(key, [...(groups.get(key) ?? []), one])
}

describe('a real ztunnel through all recorded steps', () => {
  for (const cases of groups.values()) {
    maybe(
      `holds what we serve: ${cases.length} cases from ${cases[0]!.name} on`,
      async () => {
        const { env, flags } = toSettings(cases[0]!)
        const ztunnel = await start([], env, flags)
        let gone: readonly ObjectName[] = []
        for (const { name, steps } of cases) {
          const held = new Map<string, ObjectName>()
          for (const step of steps) {
            try {
              await change(ztunnel, step.upsert, [...gone, ...step.delete])
            } catch (error) {
              throw new Error(`in case ${name}, step ${step.step}`, { cause: error })
            }
            for (const object of step.upsert) held.set(JSON.stringify(nameOf(object)), nameOf(object))
            gone = []
          }
          gone = [...held.values()]
        }
        await expectNoRejects()
      },
      600_000,
    )
  }
})
