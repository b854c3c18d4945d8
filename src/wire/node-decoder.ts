// SPDX-License-Identifier: Apache-2.0
// The `node` of a discovery request: who the client says it is. For the request decoders. Judges nothing: which ids are good is for the session to say.

import type { Reader } from './reader.js'

export interface NodeMessage {
  readonly id: string
  readonly cluster: string
  /** The Struct as plain JSON. */
  readonly metadata: Readonly<Record<string, unknown>>
  readonly locality: { readonly region: string; readonly zone: string; readonly subZone: string }
  readonly userAgentName: string
  readonly userAgentVersion: string
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] }

/** Deeper metadata is refused: nobody means it. */
const deepest = 100

/** Reads `envoy.config.core.v3.Node`; fields that nobody needs are passed over. */
export function readNode(reader: Reader): NodeMessage {
  const node: Mutable<NodeMessage> = {
    id: '',
    cluster: '',
    metadata: {},
    locality: { region: '', zone: '', subZone: '' },
    userAgentName: '',
    userAgentVersion: '',
  }
  while (reader.next()) {
    if (reader.field === 1) node.id = reader.string()
    else if (reader.field === 2) node.cluster = reader.string()
    else if (reader.field === 3) node.metadata = readStruct(reader.message('Node.metadata'), 0)
    else if (reader.field === 4) node.locality = readLocality(reader.message('Node.locality'))
    else if (reader.field === 6) node.userAgentName = reader.string()
    else if (reader.field === 7) node.userAgentVersion = reader.string()
    else reader.skip()
  }
  return node
}

function readLocality(reader: Reader): NodeMessage['locality'] {
  const locality = { region: '', zone: '', subZone: '' }
  while (reader.next()) {
    if (reader.field === 1) locality.region = reader.string()
    else if (reader.field === 2) locality.zone = reader.string()
    else if (reader.field === 3) locality.subZone = reader.string()
    else reader.skip()
  }
  return locality
}

function readStruct(reader: Reader, depth: number): Record<string, unknown> {
  const entries: [string, unknown][] = []
  while (reader.next()) {
    if (reader.field !== 1) {
      reader.skip()
      continue
    }
    const entry = reader.message('Struct.fields')
    let key = ''
    let value: unknown = null
    while (entry.next()) {
      if (entry.field === 1) key = entry.string()
      else if (entry.field === 2) value = readValue(entry.message('Struct.fields'), depth + 1)
      else entry.skip()
    }
    entries.push([key, value])
  }
  // Unlike an assignment this makes `__proto__` a member like any other.
  return Object.fromEntries(entries)
}

function readValue(reader: Reader, depth: number): unknown {
  if (depth > deepest) throw reader.failure(`is nested deeper than ${deepest}`)
  let value: unknown = null
  while (reader.next()) {
    if (reader.field === 1) {
      reader.int32()
      value = null
    } else if (reader.field === 2) value = reader.double()
    else if (reader.field === 3) value = reader.string()
    else if (reader.field === 4) value = reader.bool()
    else if (reader.field === 5) value = readStruct(reader.message('Struct'), depth)
    else if (reader.field === 6) value = readList(reader.message('ListValue'), depth)
    else reader.skip()
  }
  return value
}

function readList(reader: Reader, depth: number): unknown[] {
  const values: unknown[] = []
  while (reader.next()) {
    if (reader.field === 1) values.push(readValue(reader.message('ListValue.values'), depth + 1))
    else reader.skip()
  }
  return values
}
