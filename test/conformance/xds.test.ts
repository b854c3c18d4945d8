// SPDX-License-Identifier: Apache-2.0
// Recorded conversations on discovery streams, turn by turn, over real sockets against the real server with the real domain behind it.
// Knows no case by name.

import { readFileSync } from 'node:fs'
import { afterAll, describe, expect, test } from '@jest/globals'
import { Registry } from 'prom-client'
import { systemClock } from '../../src/base/clock.js'
import { silentLogger } from '../../src/base/log.js'
import { createXdsServer } from '../../src/xds/server.js'
import type { XdsServer } from '../../src/xds/server.js'
import { Room, bodyOf } from '../address/room.js'
import type { KubeObject, ObjectName } from '../address/room.js'
import { XdsClient } from '../support/xds-client.js'
import type { NodeFields, ReceivedResponse, RequestFields } from '../support/xds-client.js'
import { casesFolder, listCases } from './folder.js'

interface RecordedResource {
  readonly name: string
  readonly version?: string
  readonly aliases?: readonly string[]
  readonly hex?: string
}

interface RecordedResponse {
  readonly type?: string
  readonly resources?: readonly (RecordedResource | string)[]
  readonly removed?: readonly string[] | null
  readonly error?: { readonly code: number }
}

interface Turn {
  readonly apply?: readonly KubeObject[]
  readonly delete?: readonly ObjectName[]
  readonly client?: string
  readonly send?: Readonly<Record<string, any>> & { readonly type: string }
  readonly reconnect?: unknown
  readonly recv?: readonly RecordedResponse[]
  readonly deviation?: { readonly expect: readonly (readonly RecordedResponse[])[] }
}

interface Conversation {
  readonly name: string
  readonly about: string
  readonly settings: { readonly clusterId: string; readonly systemNamespace: string; readonly domain: string }
  readonly clients: Readonly<
    Record<string, { readonly node: NodeFields; readonly ack: 'auto' | 'manual'; readonly stream?: string }>
  >
  readonly turns: readonly Turn[]
}

const folder = casesFolder('xds')
const cases =
  folder === undefined ? [] : listCases(folder).map((path) => JSON.parse(readFileSync(path, 'utf8')) as Conversation)
let compared = 0
let policies = 0

class Talk {
  readonly room: Room
  readonly server: XdsServer
  readonly #conversation: Conversation
  readonly #clients = new Map<string, XdsClient>()
  readonly #read = new Map<string, number>()
  #port = 0

  constructor(conversation: Conversation) {
    this.#conversation = conversation
    const { clusterId, systemNamespace, domain } = conversation.settings
    this.room = new Room({ clusterId, systemNamespace, domain, revision: 'default' })
    this.server = createXdsServer({
      store: this.room.address.store,
      clock: systemClock,
      log: silentLogger,
      registry: new Registry(),
    })
  }

  async listen(): Promise<void> {
    this.#port = (await this.server.listen({ host: '127.0.0.1', port: 0 })).port
  }

  async close(): Promise<void> {
    for (const client of this.#clients.values()) client.destroy()
    await this.server.close()
  }

  client(name: string): XdsClient {
    const open = this.#clients.get(name)
    if (open !== undefined) return open
    const { node, ack, stream } = this.#conversation.clients[name]!
    const made = new XdsClient({ port: this.#port, node, ack, sotw: stream === 'sotw' })
    this.#clients.set(name, made)
    this.#read.set(name, 0)
    return made
  }

  drop(name: string): void {
    this.#clients.get(name)?.destroy()
    this.#clients.delete(name)
  }

  send(name: string, fields: Readonly<Record<string, any>> & { readonly type: string }): void {
    const client = this.client(name)
    const nonce = fields['response_nonce'] as string | undefined
    const known: Record<string, unknown> = {
      type: fields.type,
      subscribe: fields['resource_names_subscribe'],
      unsubscribe: fields['resource_names_unsubscribe'],
      initial: fields['initial_resource_versions'],
      names: fields['resource_names'],
      error: fields['error_detail'],
      node: fields['node'],
      nonce: nonce === undefined ? undefined : this.#nonce(client, fields.type, nonce),
    }
    const given = Object.fromEntries(Object.entries(known).filter(([, value]) => value !== undefined))
    client.send(given as unknown as RequestFields)
  }

  #nonce(client: XdsClient, type: string, text: string): string {
    if (text === '$last') return client.responses.findLast((response) => response.type === type)?.nonce ?? ''
    return text.startsWith('$') ? (client.responses[Number(text.slice(1)) - 1]?.nonce ?? '') : text
  }

  /** Round trips until nothing moves any more, on the wire or behind it. */
  async settle(): Promise<void> {
    let quiet = 0
    let seen = -1
    while (quiet < 4) {
      for (const client of this.#clients.values()) await client.ping()
      for (let i = 0; i < 10; i++) await new Promise((resolve) => setImmediate(resolve))
      const now = this.server.activity() + [...this.#clients.values()].reduce((sum, client) => sum + client.received, 0)
      quiet = now === seen && !this.server.busy() ? quiet + 1 : 0
      seen = now
    }
  }

  /** What came since the last look. */
  receive(name: string): ReceivedResponse[] {
    const client = this.client(name)
    const fresh = client.responses.slice(this.#read.get(name) ?? 0)
    this.#read.set(name, client.responses.length)
    return fresh
  }

  isSotw(name: string): boolean {
    return this.#conversation.clients[name]?.stream === 'sotw'
  }
}

function toSorted<T>(items: readonly T[], key: (item: T) => string): T[] {
  return [...items].sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0))
}

/** A recorded response in the form in which it is compared; `bytes` = whether contents are compared. */
function toExpected(response: RecordedResponse, sotw: boolean, bytes: boolean): unknown {
  const resources = (response.resources ?? []).map((resource) => {
    if (typeof resource === 'string') return resource
    if (!bytes) return resource.name
    return {
      name: resource.name,
      version: resource.version,
      aliases: toSorted(resource.aliases ?? [], String),
      hex: resource.hex,
    }
  })
  return {
    type: response.type,
    resources: toSorted(resources, (r) => (typeof r === 'string' ? r : r.name)),
    removed: sotw ? null : toSorted(response.removed ?? [], String),
  }
}

function toCompared(response: ReceivedResponse, sotw: boolean, bytes: boolean): unknown {
  const resources = response.resources.map((resource) => {
    if (sotw) return resource.hex
    if (!bytes) return resource.name
    return { ...resource, aliases: toSorted(resource.aliases, String) }
  })
  return {
    type: response.type,
    resources: toSorted(resources, (r) => (typeof r === 'string' ? r : r.name)),
    removed: sotw ? null : toSorted(response.removed, String),
  }
}

function check(talk: Talk, name: string, turn: Turn, seen: ReadonlyMap<string, readonly string[]>): void {
  const sotw = talk.isSotw(name)
  const client = talk.client(name)
  const got = talk.receive(name)
  const recorded = turn.recv ?? []
  const wanted = turn.deviation?.expect ?? [recorded]
  const error = recorded[0]?.error
  if (error !== undefined && turn.deviation === undefined) {
    expect({ told: got.length, code: client.ended?.code }).toEqual({ told: 0, code: error.code })
    compared++
    return
  }
  expect(client.ended).toBeUndefined()
  const exact = turn.deviation === undefined
  const answers = wanted.map((list) => list.map((r) => toExpected(r, sotw, exact)))
  const ours = got.map((response) => toCompared(response, sotw, exact))
  if (exact) expect(ours).toEqual(answers[0])
  else if (!answers.some((answer) => JSON.stringify(answer) === JSON.stringify(ours))) expect(ours).toEqual(answers)
  for (const response of sotw ? [] : got)
    for (const resource of response.resources) checkBytes(talk, response.type, resource, seen)
  compared++
  policies += got.filter((response) => response.type === 'Authorization').length
}

/** Whatever is sent is what is served now, and what the recording says of that name somewhere. */
function checkBytes(
  talk: Talk,
  type: string,
  resource: ReceivedResponse['resources'][number],
  seen: ReadonlyMap<string, readonly string[]>,
): void {
  const served = (type === 'Authorization' ? talk.room.policies : talk.room.source).get(resource.name)
  expect(resource.version).toBe(served?.version)
  if (served !== undefined && type !== 'Workload')
    expect(resource.hex).toBe(Buffer.from(bodyOf(served)).toString('hex'))
  const known = seen.get(`${type} ${resource.name} ${resource.version}`)
  if (known !== undefined) expect(known).toContain(resource.hex)
}

/** All bytes recorded for a name and version, anywhere in the conversation: one for an address, several for a policy, which has no versions. */
function collectBytes(conversation: Conversation): Map<string, readonly string[]> {
  const seen = new Map<string, readonly string[]>()
  for (const response of conversation.turns.flatMap((turn) => turn.recv ?? [])) {
    for (const resource of response.resources ?? []) {
      if (typeof resource === 'string' || resource.hex === undefined) continue
      const key = `${response.type ?? ''} ${resource.name} ${resource.version ?? ''}`
      seen.set(key, [...(seen.get(key) ?? []), resource.hex])
    }
  }
  return seen
}

async function play(conversation: Conversation): Promise<void> {
  const talk = new Talk(conversation)
  const seen = collectBytes(conversation)
  await talk.listen()
  try {
    for (const [i, turn] of conversation.turns.entries()) {
      const { client } = turn
      talk.room.delete(turn.delete ?? [])
      talk.room.set(turn.apply ?? [])
      // A deletion and what is applied right after it are one window.
      const isBatch = turn.delete !== undefined || turn.apply !== undefined
      if (isBatch && !(turn.delete !== undefined && conversation.turns[i + 1]?.apply !== undefined)) talk.room.commit()
      if (client !== undefined && turn.reconnect !== undefined) talk.drop(client)
      if (client !== undefined && turn.send !== undefined) talk.send(client, turn.send)
      if (client === undefined || turn.recv === undefined) await talk.settle()
      else
        try {
          check(talk, client, turn, seen)
        } catch (error) {
          throw new Error(`turn ${i}, client ${client}: ${error instanceof Error ? error.message : String(error)}`, {
            cause: error,
          })
        }
    }
  } finally {
    await talk.close()
  }
}

describe('recorded conversations on discovery streams', () => {
  afterAll(() => {
    console.warn(
      folder === undefined
        ? 'no folder xds/: nothing was compared'
        : `${cases.length} conversations, ${compared} turns compared; ${policies} responses about policies among them`,
    )
  })

  test('there are some, or another kind is asked for', () =>
    expect(folder === undefined || cases.length > 0).toBe(true))

  for (const conversation of cases) {
    test(`${conversation.name}: ${conversation.about}`, () => play(conversation))
  }
})
