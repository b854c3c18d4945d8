// SPDX-License-Identifier: Apache-2.0
// Responses of the discovery service as bytes. A delta response is a concatenation: resource fields, removed fields, then a tail with what differs per stream;
// protobuf gives no meaning to the order of fields. For xds, which shares the first parts among streams. Copies entries, never reads them.

import { writeAliases } from './entry.js'
import { BackwardWriter } from './writer.js'

/** What stands in every response beside its resources. */
export interface ResponseTail {
  readonly typeUrl: string
  readonly nonce: string
  /** For reading by people only; empty is not written. */
  readonly systemVersion?: string | undefined
  readonly removed?: readonly string[] | undefined
  /** control_plane.identifier; empty is not written. */
  readonly controlPlane?: string | undefined
}

export interface ResourceParts {
  readonly entry: Uint8Array
  /** Written behind the entry: explicit subscribers are told, wildcards are not. */
  readonly aliases?: readonly string[] | undefined
}

export interface DiscoveryResponse {
  readonly versionInfo: string
  readonly typeUrl: string
  readonly nonce: string
  readonly resources: readonly { readonly typeUrl: string; readonly value: Uint8Array }[]
  readonly controlPlane?: string | undefined
}

const DELTA_SYSTEM_VERSION = 0x0a
const DELTA_RESOURCES = 0x12
const DELTA_TYPE_URL = 0x22
const DELTA_NONCE = 0x2a
const DELTA_REMOVED = 0x32
const DELTA_CONTROL_PLANE = 0x3a
const SOTW_VERSION = 0x0a
const SOTW_RESOURCES = 0x12
const SOTW_TYPE_URL = 0x22
const SOTW_NONCE = 0x2a
const SOTW_CONTROL_PLANE = 0x32
const FIRST_STRING = 0x0a
const SECOND_BYTES = 0x12

/** Of a gRPC message: a flag and the length. */
const framePrefix = 5

const writer = new BackwardWriter()

/** One `resources` field: an entry with aliases behind it. */
export function encodeResourceField(entry: Uint8Array, aliases: readonly string[] = []): Uint8Array {
  writer.reset()
  writeResource(entry, aliases)
  return writer.copy()
}

/** Many `resources` fields in one buffer, in the order given. */
export function encodeResourceFields(resources: readonly ResourceParts[]): Uint8Array {
  if (resources.some((resource) => (resource.aliases?.length ?? 0) > 0)) return encodeWithAliases(resources)
  let size = 0
  for (const { entry } of resources) size += 1 + varintSize(entry.length) + entry.length
  const out = Buffer.allocUnsafeSlow(size)
  let at = 0
  for (const { entry } of resources) {
    out[at++] = DELTA_RESOURCES
    let rest = entry.length
    for (; rest > 0x7f; rest >>>= 7) out[at++] = (rest & 0x7f) | 0x80
    out[at++] = rest
    out.set(entry, at)
    at += entry.length
  }
  return out
}

function encodeWithAliases(resources: readonly ResourceParts[]): Uint8Array {
  return Buffer.concat(resources.map(({ entry, aliases }) => encodeResourceField(entry, aliases)))
}

function writeResource(entry: Uint8Array, aliases: readonly string[]): void {
  const mark = writer.mark()
  writeAliases(writer, aliases)
  writer.bytes(entry)
  writer.close(DELTA_RESOURCES, mark)
}

/** The `removed_resources` fields of a delta response. */
export function encodeRemovedFields(removed: readonly string[]): Uint8Array {
  writer.reset()
  for (let i = removed.length - 1; i >= 0; i--) writer.stringElement(DELTA_REMOVED, removed[i] ?? '')
  return writer.copy()
}

/** Everything of a delta response but its resources. */
export function encodeResponseTail(tail: ResponseTail): Uint8Array {
  writer.reset()
  writeTail(tail)
  return writer.copy()
}

/** A whole delta response as one gRPC frame, for a small one that goes to one stream alone: made in one go, in a shared pool's memory. */
export function encodeFrame(tail: ResponseTail, resources: readonly ResourceParts[]): Uint8Array {
  writer.reset()
  for (let i = resources.length - 1; i >= 0; i--) {
    const resource = resources[i]
    if (resource !== undefined) writeResource(resource.entry, resource.aliases ?? [])
  }
  writeTail(tail)
  const size = writer.mark()
  const frame = Buffer.allocUnsafe(framePrefix + size)
  frame[0] = 0
  frame.writeUInt32BE(size, 1)
  frame.set(writer.view(0), framePrefix)
  return frame
}

function writeTail(tail: ResponseTail): void {
  const removed = tail.removed ?? []
  writeControlPlane(DELTA_CONTROL_PLANE, tail.controlPlane)
  for (let i = removed.length - 1; i >= 0; i--) writer.stringElement(DELTA_REMOVED, removed[i] ?? '')
  writer.stringField(DELTA_NONCE, tail.nonce)
  writer.stringField(DELTA_TYPE_URL, tail.typeUrl)
  writer.stringField(DELTA_SYSTEM_VERSION, tail.systemVersion ?? '')
}

/** A whole DiscoveryResponse (state of the world). */
export function encodeDiscoveryResponse(response: DiscoveryResponse): Uint8Array {
  writer.reset()
  writeControlPlane(SOTW_CONTROL_PLANE, response.controlPlane)
  writer.stringField(SOTW_NONCE, response.nonce)
  writer.stringField(SOTW_TYPE_URL, response.typeUrl)
  for (let i = response.resources.length - 1; i >= 0; i--) {
    const any = response.resources[i]
    if (any === undefined) continue
    const mark = writer.mark()
    writer.bytesField(SECOND_BYTES, any.value)
    writer.stringField(FIRST_STRING, any.typeUrl)
    writer.close(SOTW_RESOURCES, mark)
  }
  writer.stringField(SOTW_VERSION, response.versionInfo)
  return writer.copy()
}

function writeControlPlane(tag: number, identifier: string | undefined): void {
  if (identifier === undefined || identifier === '') return
  const mark = writer.mark()
  writer.stringField(FIRST_STRING, identifier)
  writer.close(tag, mark)
}

function varintSize(value: number): number {
  return value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x200000 ? 3 : value < 0x10000000 ? 4 : 5
}
