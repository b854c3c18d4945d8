// SPDX-License-Identifier: Apache-2.0
// Delta discovery as a client writes and reads it: requests to bytes, responses from bytes. For the agent's stream; knows nothing of what they mean.

import { Reader } from '../../wire/reader.js'
import { BackwardWriter } from '../../wire/writer.js'

/** Who asks. */
export interface ClientNode {
  readonly id: string
  readonly metadata: Readonly<Record<string, string>>
}

/** Parts of a DeltaDiscoveryRequest; what is left out is not written. */
export interface DeltaAsk {
  readonly typeUrl: string
  readonly node?: ClientNode
  readonly subscribe?: readonly string[]
  readonly unsubscribe?: readonly string[]
  /** Name to version. */
  readonly initialVersions?: ReadonlyMap<string, string>
  readonly nonce?: string
  /** Why the response of this nonce is rejected. */
  readonly error?: string
}

export interface DeltaResource {
  readonly name: string
  readonly version: string
  readonly aliases: readonly string[]
  /** The bytes inside the Any; undefined when the resource came without. A view of the response. */
  readonly body: Uint8Array | undefined
}

export interface DeltaAnswer {
  readonly typeUrl: string
  readonly nonce: string
  readonly resources: readonly DeltaResource[]
  readonly removed: readonly string[]
}

/** What a client that rejects says as its code; readers look at the presence of the error. */
const INVALID_ARGUMENT = 3
const writer = new BackwardWriter()

/** Tag of a field that has a length. */
const tag = (field: number): number => (field << 3) | 2

/** One DeltaDiscoveryRequest. */
export function encodeAsk(ask: DeltaAsk): Buffer {
  writer.reset()
  if (ask.error !== undefined) {
    const mark = writer.mark()
    writer.stringField(tag(2), ask.error)
    writer.uint32Field(1 << 3, INVALID_ARGUMENT)
    writer.close(tag(7), mark)
  }
  writer.stringField(tag(6), ask.nonce ?? '')
  for (const [name, version] of ask.initialVersions ?? [])
    writePair(tag(5), name, () => writer.stringField(tag(2), version))
  for (const name of (ask.unsubscribe ?? []).toReversed()) writer.stringElement(tag(4), name)
  for (const name of (ask.subscribe ?? []).toReversed()) writer.stringElement(tag(3), name)
  writer.stringField(tag(2), ask.typeUrl)
  if (ask.node !== undefined) writeNode(ask.node)
  const bytes = writer.copy()
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
}

function writeNode(node: ClientNode): void {
  const mark = writer.mark()
  const struct = writer.mark()
  for (const [key, text] of Object.entries(node.metadata)) {
    writePair(tag(1), key, () => {
      const value = writer.mark()
      writer.stringElement(tag(3), text)
      writer.close(tag(2), value)
    })
  }
  writer.close(tag(3), struct)
  writer.stringField(tag(1), node.id)
  writer.close(tag(1), mark)
}

/** An entry of a map with text keys. */
function writePair(field: number, key: string, writeValue: () => void): void {
  const mark = writer.mark()
  writeValue()
  writer.stringField(tag(1), key)
  writer.close(field, mark)
}

/** Reads a DeltaDiscoveryResponse. Throws ProtocolError that names the field on bytes that are none. */
export function decodeAnswer(bytes: Uint8Array): DeltaAnswer {
  const answer = { typeUrl: '', nonce: '' }
  const resources: DeltaResource[] = []
  const removed: string[] = []
  const reader = new Reader(bytes, 'DeltaDiscoveryResponse')
  while (reader.next()) {
    if (reader.field === 2) resources.push(readResource(reader.message('Resource')))
    else if (reader.field === 4) answer.typeUrl = reader.string()
    else if (reader.field === 5) answer.nonce = reader.string()
    else if (reader.field === 6) removed.push(reader.string())
    else reader.skip()
  }
  return { ...answer, resources, removed }
}

function readResource(reader: Reader): DeltaResource {
  const resource = { name: '', version: '' }
  const aliases: string[] = []
  let body: Uint8Array | undefined
  while (reader.next()) {
    if (reader.field === 1) resource.version = reader.string()
    else if (reader.field === 2) body = readAny(reader.message('Any'))
    else if (reader.field === 3) resource.name = reader.string()
    else if (reader.field === 4) aliases.push(reader.string())
    else reader.skip()
  }
  return { ...resource, aliases, body }
}

function readAny(reader: Reader): Uint8Array {
  let body: Uint8Array = new Uint8Array(0)
  while (reader.next()) {
    if (reader.field === 2) body = reader.bytes()
    else reader.skip()
  }
  return body
}
