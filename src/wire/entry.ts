// SPDX-License-Identifier: Apache-2.0
// Entries: the encoded envoy `Resource` (1 version, 2 Any, 3 name) that is made once per published resource and then only copied. For address, which makes them,
// and xds, which appends aliases (4). An entry holds the body; keep no second copy beside it.

import { writeServiceAddress, writeWorkloadAddress } from './address-encoder.js'
import { ADDRESS_TYPE, WORKLOAD_TYPE } from './messages.js'
import type { ServiceMessage, WorkloadMessage } from './messages.js'
import { Reader } from './reader.js'
import { versionOf } from './version.js'
import { BackwardWriter } from './writer.js'

export interface EntryParts {
  readonly name: string
  /** Not written when empty. */
  readonly version: string
  readonly typeUrl: string
  /** The bytes inside the Any. Views of the entry when they come from `decodeEntry`. */
  readonly body: Uint8Array
}

/** What a published Address needs to be known by. */
export interface EncodedAddress {
  readonly name: string
  readonly version: string
  readonly entry: Uint8Array
}

const VERSION = 0x0a
const ANY = 0x12
const NAME = 0x1a
const ALIASES = 0x22
const ANY_TYPE_URL = 0x0a
const ANY_VALUE = 0x12
/** Tag of the oneof member `workload` inside an Address. */
const ADDRESS_WORKLOAD = 0x0a

const writer = new BackwardWriter()

/** An entry from its parts. */
export function encodeEntry(parts: EntryParts): Uint8Array {
  writer.reset()
  writer.stringField(NAME, parts.name)
  const any = writer.mark()
  writer.bytesField(ANY_VALUE, parts.body)
  finishEntry(any, parts.typeUrl, parts.version)
  return writer.copy()
}

/** Entry, name (its uid) and version of a workload under the type Address, in one pass. */
export function encodeWorkloadEntry(workload: WorkloadMessage): EncodedAddress {
  const name = workload.uid
  writer.reset()
  writer.stringField(NAME, name)
  const any = writer.mark()
  writeWorkloadAddress(writer, workload)
  return finishAddress(name, any)
}

/** Entry, name (`namespace/hostname`) and version of a service under the type Address, in one pass. */
export function encodeServiceEntry(service: ServiceMessage): EncodedAddress {
  const name = `${service.namespace}/${service.hostname}`
  writer.reset()
  writer.stringField(NAME, name)
  const any = writer.mark()
  writeServiceAddress(writer, service)
  return finishAddress(name, any)
}

function finishAddress(name: string, any: number): EncodedAddress {
  const version = versionOf(writer.view(any))
  writer.close(ANY_VALUE, any)
  finishEntry(any, ADDRESS_TYPE, version)
  return { name, version, entry: writer.copy() }
}

function finishEntry(any: number, typeUrl: string, version: string): void {
  writer.stringField(ANY_TYPE_URL, typeUrl)
  writer.close(ANY, any)
  writer.stringField(VERSION, version)
}

/** The parts of an entry; aliases and fields that we never write are passed over. Throws ProtocolError on bytes that are none. */
export function decodeEntry(entry: Uint8Array): EntryParts {
  let name = ''
  let version = ''
  let typeUrl = ''
  let body: Uint8Array = new Uint8Array(0)
  const reader = new Reader(entry, 'Resource')
  while (reader.next()) {
    if (reader.field === 1) version = reader.string()
    else if (reader.field === 3) name = reader.string()
    else if (reader.field === 2) {
      const any = reader.message('Any')
      while (any.next()) {
        if (any.field === 1) typeUrl = any.string()
        else if (any.field === 2) body = any.bytes()
        else any.skip()
      }
    } else reader.skip()
  }
  return { name, version, typeUrl, body }
}

/** Aliases as bytes to append to an entry; empty bytes for none. */
export function encodeAliases(aliases: readonly string[]): Uint8Array {
  writer.reset()
  writeAliases(writer, aliases)
  return writer.copy()
}

/** Writes the aliases in front of what the writer holds; the entry itself goes before them. */
export function writeAliases(target: BackwardWriter, aliases: readonly string[]): void {
  for (let i = aliases.length - 1; i >= 0; i--) target.stringElement(ALIASES, aliases[i] ?? '')
}

/**
 * From the Address entry of a workload: the entry of the type Workload, same name and version, the bare Workload inside.
 * Undefined for a service. Throws ProtocolError on bytes that are no entry.
 */
export function toWorkloadEntry(entry: Uint8Array): Uint8Array | undefined {
  const { name, version, body } = decodeEntry(entry)
  if (body[0] !== ADDRESS_WORKLOAD) return undefined
  const address = new Reader(body, 'Address')
  address.next()
  return encodeEntry({ name, version, typeUrl: WORKLOAD_TYPE, body: address.bytes() })
}
