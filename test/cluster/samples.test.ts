// SPDX-License-Identifier: Apache-2.0
// The sample mesh in a real API server means the same as the sample mesh in a folder. With our definitions of the custom kinds always,
// and with those of the folder that CRDS_DIR names.

import { describe, expect } from '@jest/globals'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseAllDocuments } from 'yaml'
import { systemClock } from '../../src/base/clock.js'
import { silentLogger } from '../../src/base/log.js'
import { kinds } from '../../src/kube/inputs.js'
import { startServer } from '../../src/main/serve.js'
import { startApiServer, type ApiServer } from '../support/apiserver.js'
import { findApiServer } from '../support/apiserver-binary.js'
import { testWith } from '../support/optional.js'
import type { ReceivedResource } from '../support/xds-client.js'
import { RoomClient } from './client.js'
import { ClusterObjects, type Manifest } from './objects.js'
import { ClusterRoom, readSettings } from './room.js'

const root = fileURLToPath(new URL('../../', import.meta.url))
const samples = join(root, 'samples')
const realDefinitions = process.env['CRDS_DIR']
const programs = await findApiServer()
const missing = 'unavailable' in programs ? programs.unavailable : undefined

/** What an API server has made itself. */
const itsOwn = 'default/kubernetes.default.svc.cluster.local'

/** Every manifest of the folder, in an order in which an API server takes them. */
function readSamples(): readonly Manifest[] {
  const files = readdirSync(samples, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.yaml'))
  const manifests = files
    .sort()
    .flatMap((file) => parseAllDocuments(readFileSync(join(samples, file), 'utf8')))
    .map((document) => document.toJS() as Manifest)
  return manifests.sort((a, b) => kinds.indexOf(a.kind) - kinds.indexOf(b.kind))
}

interface Seen {
  /** What a client of everything holds. */
  readonly all: ReadonlyMap<string, ReceivedResource>
  /** What a client is told that asks for each name and each address there is, by key. */
  readonly answers: Readonly<Record<string, readonly string[]>>
  readonly aliases: ReadonlyMap<string, readonly string[]>
}

/** An address inside a range, an address and a name that nobody has. */
const besides = ['net-1/203.0.113.200', 'net-1/10.20.99.99', 'bank/nobody.example']

async function look(port: number): Promise<Seen> {
  const everything = await RoomClient.connect(port, ['*'])
  const all = everything.held
  everything.close()
  const named = await RoomClient.connect(port, [...all.keys()])
  const aliases = new Map([...named.held].map(([name, { aliases }]) => [name, aliases]))
  named.close()
  const answers: Record<string, readonly string[]> = {}
  for (const alias of new Set([...aliases.values(), ...besides].flat())) {
    const asking = await RoomClient.connect(port, [alias])
    const { sent, removed } = asking.news
    answers[alias] = [...sent, ...removed.map((name) => `-${name}`)]
    asking.close()
  }
  return { all, answers, aliases }
}

async function lookAtFolder(): Promise<Seen> {
  const server = await startServer({
    settings: readSettings(['--files', samples]),
    clock: systemClock,
    log: silentLogger,
  })
  try {
    await server.started
    return await look(server.bound.grpc!.port)
  } finally {
    await server.stop()
  }
}

async function lookAtCluster(api: ApiServer): Promise<Seen> {
  const objects = new ClusterObjects(api.request)
  for (const manifest of readSamples()) await objects.create(manifest)
  const room = await ClusterRoom.open(api)
  try {
    await room.server.started
    const seen = await look(room.port)
    expect(room.log.records.filter(({ level }) => level === 'warn' || level === 'error')).toEqual([])
    return seen
  } finally {
    await room.close()
  }
}

const without = <V>(map: ReadonlyMap<string, V>): Map<string, V> => {
  return new Map([...map].filter(([name]) => name !== itsOwn))
}

async function compare(crdsFolder: string): Promise<void> {
  const api = await startApiServer({ crdsFolder })
  if ('unavailable' in api) throw new Error(api.unavailable)
  try {
    const cluster = await lookAtCluster(api)
    const folder = await lookAtFolder()
    expect([...cluster.all.keys()].filter((name) => !folder.all.has(name))).toEqual([itsOwn])
    expect(folder.all.size).toBeGreaterThan(15)
    expect(without(cluster.all)).toEqual(folder.all)
    expect(without(cluster.aliases)).toEqual(folder.aliases)
    const foreign = new Set(cluster.aliases.get(itsOwn))
    const asked = Object.entries(cluster.answers).filter(([alias]) => !foreign.has(alias))
    expect(Object.keys(folder.answers).length).toBeGreaterThan(15)
    expect(Object.fromEntries(asked)).toEqual(folder.answers)
  } finally {
    await api.stop()
  }
}

describe('the sample mesh gives the same names, versions, bytes, aliases and lookups from a folder and from a real API server', () => {
  testWith('api-server', missing)('with our own definitions of the custom kinds', () =>
    compare(join(root, 'charts/addressd/crds')),
  )

  const noDefinitions = realDefinitions === undefined ? 'CRDS_DIR does not name a folder of definitions' : undefined
  const maybe = missing === undefined ? testWith('crds', noDefinitions) : testWith('api-server', missing)
  maybe('with the definitions of CRDS_DIR', () => compare(realDefinitions!))
})
