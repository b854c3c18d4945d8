// SPDX-License-Identifier: Apache-2.0
// Recorded openings of discovery streams on the TLS port, row by row, over real sockets: who may connect, and the debug types. Knows no row by name.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, describe, expect, test } from '@jest/globals'
import { StreamRoom, toNode, ztunnel } from '../auth/stream-room.js'
import type { TokenClaims } from '../auth/tokens.js'
import type { NodeFields, XdsClient } from '../support/xds-client.js'
import { casesFolder } from './folder.js'

interface Answer {
  readonly type: string
  readonly resources: 'all' | number
}

/** How a stream went on: its responses, or the status that ended it. */
interface Outcome {
  readonly answered?: readonly Answer[]
  readonly code?: number
}

interface Row extends Outcome {
  readonly case: string
  readonly request: Readonly<Record<string, string | undefined>> & { readonly names?: any }
  readonly deviation?: { readonly why: string; readonly expect?: Outcome; readonly orAsRecorded?: boolean }
}

const folder = casesFolder('ca')
const path = folder === undefined ? undefined : join(folder, 'streams.json')
const rows: readonly Row[] = path === undefined || !existsSync(path) ? [] : JSON.parse(readFileSync(path, 'utf8')).rows
let compared = 0

const ADDRESS = 'type.googleapis.com/istio.workload.Address'
const knownKeys = [
  ...['token', 'authorization', 'clusterid', 'NAMESPACE', 'SERVICE_ACCOUNT', 'CLUSTER_ID'],
  ...['id', 'node', 'transport', 'stream', 'type', 'names', 'then'],
]
/** Addresses that the room serves. */
const everything = 6

/** `T` stands for a good token wherever it is written out. */
function toAuthorization(room: StreamRoom, request: Row['request']): string | undefined {
  const { authorization, token = 'ztunnel of istio-system' } = request
  if (authorization !== undefined) return authorization.replace(/\bT\b/, room.issuer.issue(ztunnel))
  if (token === 'none') return undefined
  if (token === 'garbage') return 'Bearer garbage'
  const named = /^(?:(\S+) )?of (\S+)$/.exec(token)
  const claims: TokenClaims =
    token === 'another audience'
      ? { ...ztunnel, audiences: ['elsewhere'] }
      : { namespace: named?.[2] ?? token, account: named?.[1] ?? 'ztunnel' }
  return `Bearer ${room.issuer.issue(claims)}`
}

/** A row about another namespace's token and a debug page claims that namespace: its own node is not what is asked about. */
function toClaimedNode(request: Row['request']): NodeFields {
  const ownNamespace = /^of (\S+)$/.exec(request.token ?? '')?.[1] ?? 'istio-system'
  const namespace = request.NAMESPACE ?? ownNamespace
  const { SERVICE_ACCOUNT, CLUSTER_ID, id } = request
  const node = toNode({
    NAMESPACE: namespace,
    ...(SERVICE_ACCOUNT === undefined ? {} : { SERVICE_ACCOUNT }),
    ...(CLUSTER_ID === undefined ? {} : { CLUSTER_ID }),
  })
  const { NAMESPACE, ...others } = node.metadata ?? {}
  const metadata = namespace === 'absent' ? others : { ...others, NAMESPACE: NAMESPACE ?? '' }
  if (id === undefined) return { id: node.id, metadata }
  const other = /^namespace (\S+)$/.exec(id)?.[1]
  return { id: other === undefined ? id : toNode({}, other).id, metadata }
}

function connect(room: StreamRoom, request: Row['request']): XdsClient {
  const authorization = toAuthorization(room, request)
  const clusterid = request.clusterid ?? 'Kubernetes'
  const headers = {
    ...(authorization === undefined ? {} : { authorization }),
    ...(clusterid === 'absent' ? {} : { clusterid }),
  }
  const options = { headers, node: toClaimedNode(request), sotw: request.stream === 'sotw' }
  return request.transport === 'plaintext' ? room.plaintextClient(options) : room.client(options)
}

async function play(room: StreamRoom, row: Row): Promise<Outcome> {
  const { request } = row
  const unknown = Object.keys(request).filter((key) => !knownKeys.includes(key))
  expect(unknown).toEqual([])
  const client = connect(room, request)
  const names: readonly string[] = request.names ?? []
  const node = request.node === 'absent' ? { node: null } : {}
  client.send({
    type: request.type ?? 'Address',
    ...(request.stream === 'sotw' ? { names } : { subscribe: names }),
    ...node,
  })
  await client.until(() => client.received > 0, 'an answer or the end')
  if (request.then !== undefined && client.ended === undefined) {
    client.send({ type: `type.googleapis.com/${request.then}` })
    await client.until(() => client.received > 1, 'a second answer or the end')
  }
  if (client.ended !== undefined) return { code: client.ended.code }
  return {
    answered: client.responses.map(({ type, resources }) => ({
      type: type === 'Address' ? ADDRESS : type,
      resources: resources.length,
    })),
  }
}

function toExpected({ answered, code }: Outcome): Outcome {
  if (answered === undefined) return { ...(code === undefined ? {} : { code }) }
  return {
    answered: answered.map(({ type, resources }) => ({
      type,
      resources: resources === 'all' ? everything : resources,
    })),
  }
}

let room: StreamRoom | undefined
afterEach(async () => await room?.close())

describe('recorded openings of streams on the TLS port', () => {
  afterAll(() => {
    console.warn(
      rows.length === 0 ? 'no ca/streams.json: nothing was compared' : `${rows.length} openings, ${compared} compared`,
    )
  })

  test('there are some, or another kind is asked for', () =>
    expect(path === undefined || rows.length > 0 || !existsSync(path)).toBe(true))

  for (const row of rows) {
    test(row.case, async () => {
      room = await StreamRoom.open()
      const got = await play(room, row)
      const { deviation } = row
      const allowed = [
        ...(deviation === undefined || deviation.orAsRecorded === true ? [toExpected(row)] : []),
        ...(deviation?.expect === undefined ? [] : [toExpected(deviation.expect)]),
      ]
      if (allowed.length === 1) expect(got).toEqual(allowed[0])
      else expect(allowed).toContainEqual(got)
      compared++
    })
  }
})
