// SPDX-License-Identifier: Apache-2.0
// Recorded dumps of a ztunnel that was told by another control plane: a real one that is told by us holds the same, step by step.

import { afterEach, describe, expect } from '@jest/globals'
import { casesFolder } from '../conformance/folder.js'
import { readDumps, type DumpCase } from '../conformance/ztunnel-dumps.js'
import { testWith } from '../support/optional.js'
import { expectHeld, expectReady, Room } from './room.js'
import { whyNoZtunnel, type Ztunnel } from './ztunnel.js'

const folder = casesFolder('ztunnel')
const maybe = testWith('ztunnel', whyNoZtunnel() ?? (folder === undefined ? 'no recorded dumps' : undefined))

let room: Room | undefined
afterEach(async () => {
  await room?.close()
  room = undefined
})

async function start(objects: DumpCase['steps'][0]['upsert'], { env, settings }: DumpCase): Promise<Ztunnel> {
  const flags = [
    '--clusterID',
    settings.clusterId,
    '--namespace',
    settings.systemNamespace,
    '--domain',
    settings.domain,
  ]
  room = await Room.open(objects, { flags })
  // The names of another server are no concern of ours.
  const { ALT_XDS_HOSTNAME: _xds, ALT_CA_HOSTNAME: _ca, ...rest } = env
  const ztunnel = room.startZtunnel(await room.openSpace(), {
    ...rest,
    AUTH_TOKEN: await room.token('istio-system', 'ztunnel'),
  })
  await expectReady(ztunnel)
  return ztunnel
}

describe('recorded dumps, held by a real ztunnel', () => {
  for (const recorded of folder === undefined ? [] : readDumps(folder)) {
    const { name, about, steps } = recorded
    maybe(`${name}: ${about}`, async () => {
      const [first, ...later] = steps
      const ztunnel = await start(first!.upsert, recorded)
      await expectHeld(ztunnel, () => first!.held)
      for (const step of later) {
        room!.change(step.upsert, step.delete)
        await expectHeld(ztunnel, () => step.held)
      }
      // One that starts now holds the same.
      await room!.close()
      const objects = new Map<string, DumpCase['steps'][0]['upsert'][0]>()
      for (const { upsert, delete: gone } of steps) {
        for (const { kind, namespace, name: which } of gone) objects.delete(`${kind} ${namespace} ${which}`)
        for (const object of upsert) {
          objects.set(`${object.kind} ${object.metadata.namespace} ${object.metadata.name}`, object)
        }
      }
      const fresh = await start([...objects.values()], recorded)
      await expectHeld(fresh, () => steps.at(-1)!.held)
      expect(room!.log.records.filter(({ level }) => level === 'error')).toEqual([])
    })
  }
})
