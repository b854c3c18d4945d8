// SPDX-License-Identifier: Apache-2.0
// What a step may expect, each key as a function that gives sentences about what differs. A key that is not known here fails the case by name.

import { toSyncState } from '../../src/xds/client-view.js'
import type { ClientView } from '../../src/xds/client-view.js'
import { isRecord } from './cases.js'
import type { ReportClient } from './client.js'
import { checkLog, checkNoLog, checkText } from './expectation-parts.js'
import type { LogRecord } from './log-book.js'
import { mismatches, sameTexts } from './match.js'
import type { Room } from './room.js'

/** What was so before the step. */
export interface Before {
  readonly records: number
  readonly metrics: ReadonlyMap<string, number>
  readonly memoryMiB: number
}

type Check = (room: Room, expected: never, before: Before) => string[] | Promise<string[]>

const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : [value])

/** Everything in which the room differs from `expect`. */
export async function check(room: Room, expect: Readonly<Record<string, unknown>>, before: Before): Promise<string[]> {
  const out: string[] = []
  for (const [key, expected] of Object.entries(expect)) {
    const one = (checks as Readonly<Record<string, Check | undefined>>)[key]
    if (one === undefined) out.push(`unknown expectation ${key}`)
    else out.push(...(await one(room, expected as never, before)).map((text) => `${key}: ${text}`))
  }
  return out
}

/** Those of `always` that do not hold for the client now. */
export function checkAlways(room: Room, client: ReportClient, always: unknown): string[] {
  return listOf(always).flatMap((item) => {
    const { client: name = 'z', ...views } = item as { client?: string } & Record<string, unknown>
    if (name !== client.name) return []
    const out: string[] = []
    if ('owners' in views) out.push(...checkOwners(client, views['owners'] as Record<string, string[]>))
    if ('endpoints' in views) out.push(...checkEndpoints(client, views['endpoints'] as Record<string, string[]>))
    if ('held' in views) out.push(...checkHeld(client, views['held'] as Held))
    if ('address' in views) {
      for (const [key, partial] of Object.entries(views['address'] as Record<string, unknown>)) {
        out.push(...mismatches(client.model.held.get(key)?.json, partial, key))
      }
    }
    return out.map((text) => `always: ${text}`)
  })
}

interface Held {
  readonly exactly?: readonly string[]
  readonly has?: readonly string[]
  readonly hasNot?: readonly string[]
  readonly count?: unknown
}

function checkHeld(client: ReportClient, held: Held): string[] {
  const names = [...client.model.held.keys()]
  const out: string[] = []
  if (held.exactly !== undefined) out.push(...sameTexts(names, held.exactly, `held by ${client.name}`))
  for (const name of held.has ?? []) if (!names.includes(name)) out.push(`${client.name} lacks ${name}`)
  for (const name of held.hasNot ?? []) if (names.includes(name)) out.push(`${client.name} still holds ${name}`)
  if (held.count !== undefined) out.push(...mismatches(names.length, held.count, `count of ${client.name}`))
  return out
}

function checkOwners(client: ReportClient, owners: Readonly<Record<string, readonly string[]>>): string[] {
  return Object.entries(owners).flatMap(([key, names]) => sameTexts(client.model.owners(key), names, key))
}

function checkEndpoints(client: ReportClient, endpoints: Readonly<Record<string, readonly string[]>>): string[] {
  return Object.entries(endpoints).flatMap(([key, list]) => sameTexts(client.model.endpoints(key), list, key))
}

interface Pushed {
  readonly client?: string
  readonly changed?: readonly string[]
  readonly removed?: readonly string[]
  readonly repeated?: readonly string[]
  readonly noRepeats?: boolean
  readonly responses?: unknown
  readonly notBefore?: readonly (readonly [string, string])[]
}

function checkPushed(room: Room, expected: Pushed): string[] {
  const client = room.client(expected.client ?? 'z')
  const { applied } = client
  const all = (pick: 'changed' | 'removed' | 'repeated'): string[] => [...new Set(applied.flatMap((r) => r[pick]))]
  const out: string[] = []
  if (expected.changed !== undefined)
    out.push(...sameTexts(all('changed'), expected.changed, `changed for ${client.name}`))
  if (expected.removed !== undefined)
    out.push(...sameTexts(all('removed'), expected.removed, `removed for ${client.name}`))
  const repeated = all('repeated')
  for (const name of expected.repeated ?? [])
    if (!repeated.includes(name)) out.push(`${name} was not repeated for ${client.name}`)
  if (expected.noRepeats === true) {
    out.push(...sameTexts(repeated, expected.repeated ?? [], `repeated for ${client.name}`))
  }
  const carrying = applied.filter((r) => r.changed.length + r.repeated.length + r.removedAll.length > 0)
  if (expected.responses !== undefined) out.push(...mismatches(carrying.length, expected.responses, 'responses'))
  for (const [a, b] of expected.notBefore ?? []) {
    const last = (name: string): number =>
      applied.findLastIndex((r) => r.changed.includes(name) || r.repeated.includes(name))
    if (!(last(a) > last(b))) out.push(`the last sending of ${a} (${last(a)}) is not after that of ${b} (${last(b)})`)
  }
  return out
}

function checkNotPushed(room: Room, expected: true | string | readonly string[]): string[] {
  const names = expected === true ? ['z'] : listOf(expected)
  return names.flatMap((name) => {
    const client = room.client(name as string)
    const told = client.applied.flatMap((r) => [...r.changed, ...r.repeated, ...r.removedAll])
    return told.length === 0 ? [] : [`${client.name} was sent ${told.join(', ')}`]
  })
}

function checkResponses(
  room: Room,
  expected: { client: string; list: { resources: string[]; removed: string[] }[] },
): string[] {
  const client = room.client(expected.client)
  const { applied } = client
  if (applied.length !== expected.list.length) {
    return [
      `${client.name} got ${applied.length} responses, expected ${expected.list.length}: ${JSON.stringify(applied)}`,
    ]
  }
  return expected.list.flatMap((item, i) => {
    const response = applied[i]
    return [
      ...sameTexts(
        [...(response?.changed ?? []), ...(response?.repeated ?? [])],
        item.resources,
        `resources of response ${i}`,
      ),
      ...sameTexts(response?.removedAll ?? [], item.removed, `removed of response ${i}`),
    ]
  })
}

async function checkAddress(room: Room, expected: Readonly<Record<string, unknown>>): Promise<string[]> {
  const out: string[] = []
  for (const [name, partial] of Object.entries(expected)) {
    const { found } = await room.ask([name])
    const served = found.get(name)
    if (partial === null) out.push(...(served === undefined ? [] : [`${name} is served`]))
    else if (served === undefined) out.push(`${name} is not served`)
    else out.push(...mismatches(served.json, partial, name))
  }
  return out
}

async function checkLookup(room: Room, expected: Readonly<Record<string, unknown>>): Promise<string[]> {
  const out: string[] = []
  for (const [key, names] of Object.entries(expected)) {
    const { found, removed } = await room.ask([key])
    const actual = [...found.keys()]
    if (names === null) {
      out.push(...sameTexts(actual, [], key))
      if (!removed.includes(key)) out.push(`${key} is not listed as removed`)
    } else if (isRecord(names)) out.push(...mismatches(actual, names, key))
    else out.push(...sameTexts(actual, listOf(names) as string[], key))
  }
  return out
}

function viewOf(room: Room, client: string): ClientView | undefined {
  return room.server?.parts.xds
    .clients()
    .find((view) => view.proxy === `${client}.istio-system` || view.proxy === client)
}

function checkStream(room: Room, expected: unknown): string[] {
  return listOf(expected).flatMap((item) => {
    const { client: name, open, closed } = item as { client: string; open?: boolean; closed?: { code?: unknown } }
    const client = room.client(name)
    const out: string[] = []
    if (open !== undefined && (viewOf(room, name) !== undefined) !== open)
      out.push(`the stream of ${name} is ${open ? 'not ' : 'still '}open`)
    if (closed !== undefined) {
      const codes = client.endings.map((e) => statusNames[e.code] ?? String(e.code))
      if (codes.length === 0 && viewOf(room, name) !== undefined)
        out.push(`the server did not end the stream of ${name}`)
      if (
        closed.code !== undefined &&
        codes.length > 0 &&
        !codes.some((code) => mismatches(code, closed.code).length === 0)
      ) {
        out.push(`the stream of ${name} ended with ${codes.join(', ')}`)
      }
    }
    return out
  })
}

const statusNames: readonly string[] = [
  ...[
    'OK',
    'CANCELLED',
    'UNKNOWN',
    'INVALID_ARGUMENT',
    'DEADLINE_EXCEEDED',
    'NOT_FOUND',
    'ALREADY_EXISTS',
    'PERMISSION_DENIED',
  ],
  ...[
    'RESOURCE_EXHAUSTED',
    'FAILED_PRECONDITION',
    'ABORTED',
    'OUT_OF_RANGE',
    'UNIMPLEMENTED',
    'INTERNAL',
    'UNAVAILABLE',
  ],
  ...['DATA_LOSS', 'UNAUTHENTICATED'],
]

function checkSync(room: Room, expected: unknown): string[] {
  return listOf(expected).flatMap((item) => {
    const { client, state, error } = item as { client: string; state: string; error?: string }
    const watch = viewOf(room, client)?.watches[0]
    if (watch === undefined) return [`nothing is known of ${client}`]
    const out = mismatches(toSyncState(watch), state, client)
    if (error !== undefined && !watch.lastError.includes(error))
      out.push(`the error of ${client} is "${watch.lastError}"`)
    return out
  })
}

function recordsSince(room: Room, before: Before): LogRecord[] {
  return room.log.records.slice(before.records)
}

function checkStatus(room: Room, expected: readonly StatusExpectation[]): string[] {
  return expected.flatMap(({ kind, namespace, name, condition, absent }) => {
    const status = room.api.get(kind, namespace, name)?.['status'] as
      { conditions?: Record<string, unknown>[] } | undefined
    const found = status?.conditions?.find((c) => c['type'] === condition['type'])
    if (absent === true)
      return found === undefined ? [] : [`${kind} ${namespace}/${name} still has ${String(condition['type'])}`]
    return mismatches(found, condition, `${kind} ${namespace}/${name}`)
  })
}

interface StatusExpectation {
  readonly kind: string
  readonly namespace: string
  readonly name: string
  readonly condition: Record<string, unknown>
  readonly absent?: boolean
}

async function checkPolicy(room: Room, expected: Readonly<Record<string, unknown>>): Promise<string[]> {
  const { found } = await room.ask(Object.keys(expected), 'Authorization')
  return Object.entries(expected).flatMap(([name, partial]) => mismatches(found.get(name)?.json, partial, name))
}

const checks = {
  address: checkAddress,
  lookup: checkLookup,
  owners: (room, expected: Record<string, string[]>) => checkOwners(room.client('z'), expected),
  endpoints: (room, expected: Record<string, string[]>) => checkEndpoints(room.client('z'), expected),
  pushed: (room, expected: unknown) => listOf(expected).flatMap((item) => checkPushed(room, item as Pushed)),
  notPushed: checkNotPushed,
  held: (room, expected: unknown) =>
    listOf(expected).flatMap((item) =>
      checkHeld(room.client((item as { client?: string }).client ?? 'z'), item as Held),
    ),
  // Checked after every response while the step runs.
  always: () => [],
  responses: (room, expected: unknown) =>
    listOf(expected).flatMap((item) => checkResponses(room, item as Parameters<typeof checkResponses>[1])),
  nonces: (room, expected: { client: string }) => {
    const { nonces } = room.client(expected.client)
    return new Set(nonces).size === nonces.length && !nonces.includes('')
      ? []
      : [`nonces repeat or are empty: ${nonces.join(' ')}`]
  },
  stream: checkStream,
  sync: checkSync,
  policy: checkPolicy,
  policiesResolve: async (room) => {
    const names = [...room.client('z').model.held.values()].flatMap(
      (r) => (r.json['authorizationPolicies'] as string[] | undefined) ?? [],
    )
    const { found } = await room.ask([...new Set(names)], 'Authorization')
    return names.filter((name) => !found.has(name)).map((name) => `${name} is not served`)
  },
  ready: async (room, expected: boolean) => mismatches(await room.ready(), expected, 'ready'),
  status: checkStatus,
  log: (room, expected: unknown, before) => checkLog(recordsSince(room, before), expected),
  noLog: (room, level: string, before) => checkNoLog(recordsSince(room, before), level),
  metric: async (room, expected: Record<string, { by?: number; is?: number }>, before) => {
    const out: string[] = []
    for (const [name, { by, is }] of Object.entries(expected)) {
      const now = await room.metric(name)
      if (is !== undefined) out.push(...mismatches(now, is, name))
      if (by !== undefined) out.push(...mismatches(now - (before.metrics.get(name) ?? 0), by, `growth of ${name}`))
    }
    return out
  },
  requests: (room, expected: Record<string, unknown>) =>
    Object.entries(expected).flatMap(([kind, counts]) => mismatches(room.api.requests(kind), counts, kind)),
  memory: (room, expected: { growsAtMostMiB: number }, before) => {
    const grown = room.memoryMiB() - before.memoryMiB
    return grown <= expected.growsAtMostMiB ? [] : [`grew by ${grown.toFixed(1)} MiB`]
  },
  exit: (room, expected: unknown) => mismatches(room.lastRun?.exit, expected, 'exit code'),
  output: (room, expected: unknown) => checkText(room.lastRun?.output ?? '', expected, 'output'),
  error: (room, expected: unknown) => checkText(room.lastRun?.error ?? '', expected, 'error'),
} satisfies Record<string, (room: Room, expected: never, before: Before) => string[] | Promise<string[]>>
