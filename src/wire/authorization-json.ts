// SPDX-License-Identifier: Apache-2.0
// The bytes of an `istio.security.Authorization` as proto3 JSON: camelCase, defaults left out, enums by name. For people: addressctl and the debug pages.
// Never read back.

import { formatIp } from '../base/ip.js'
import { Reader } from './reader.js'

export interface AuthorizationJsonOptions {
  /** IP bytes as text, or as base64 of the bytes (what proto3 JSON asks for). */
  readonly ip: 'text' | 'bytes'
}

/** What every policy has, beside whatever else its JSON holds. */
export interface AuthorizationJson {
  name?: string
  namespace?: string
  scope?: string
  action?: string
  [member: string]: unknown
}

const scopes: Readonly<Record<number, string>> = { 1: 'NAMESPACE', 2: 'WORKLOAD_SELECTOR' }
const actions: Readonly<Record<number, string>> = { 1: 'DENY' }

/** Throws ProtocolError on bytes that are no Authorization. */
export function toAuthorizationJson(bytes: Uint8Array, options: AuthorizationJsonOptions): AuthorizationJson {
  const reader = new Reader(bytes, 'Authorization')
  const json: AuthorizationJson = {}
  const groups: object[] = []
  while (reader.next()) {
    if (reader.field === 1) json.name = reader.string()
    else if (reader.field === 2) json.namespace = reader.string()
    else if (reader.field === 3) setEnum(json, 'scope', scopes, reader.int32())
    else if (reader.field === 4) setEnum(json, 'action', actions, reader.int32())
    else if (reader.field === 5) groups.push(readGroup(reader.message('Group'), options))
    else if (reader.field === 6) {
      if (reader.bool()) json['dryRun'] = true
    } else reader.skip()
  }
  if (groups.length > 0) json['groups'] = groups
  return json
}

function setEnum(
  json: AuthorizationJson,
  key: 'scope' | 'action',
  names: Readonly<Record<number, string>>,
  value: number,
): void {
  if (value !== 0) json[key] = names[value] ?? String(value)
}

function readGroup(reader: Reader, options: AuthorizationJsonOptions): object {
  const rules: object[] = []
  while (reader.next()) {
    if (reader.field === 1) rules.push(readRules(reader.message('Rules'), options))
    else reader.skip()
  }
  return rules.length > 0 ? { rules } : {}
}

function readRules(reader: Reader, options: AuthorizationJsonOptions): object {
  const matches: object[] = []
  while (reader.next()) {
    if (reader.field === 2) matches.push(readMatch(reader.message('Match'), options))
    else reader.skip()
  }
  return matches.length > 0 ? { matches } : {}
}

/** The lists of a Match by field number; the negative one follows each. */
const lists: Readonly<Record<number, readonly [name: string, read: 'string' | 'address' | 'ports' | 'account']>> = {
  1: ['namespaces', 'string'],
  2: ['notNamespaces', 'string'],
  3: ['principals', 'string'],
  4: ['notPrincipals', 'string'],
  5: ['sourceIps', 'address'],
  6: ['notSourceIps', 'address'],
  7: ['destinationIps', 'address'],
  8: ['notDestinationIps', 'address'],
  9: ['destinationPorts', 'ports'],
  10: ['notDestinationPorts', 'ports'],
  11: ['serviceAccounts', 'account'],
  12: ['notServiceAccounts', 'account'],
}

function readMatch(reader: Reader, options: AuthorizationJsonOptions): object {
  const json: Record<string, unknown[]> = {}
  while (reader.next()) {
    const [name, kind] = lists[reader.field] ?? []
    if (name === undefined) {
      reader.skip()
      continue
    }
    const list = (json[name] ??= [])
    if (kind === 'string') list.push(readStringMatch(reader.message('StringMatch')))
    else if (kind === 'address') list.push(readAddress(reader.message('Address'), options))
    else if (kind === 'account') list.push(readAccount(reader.message('ServiceAccountMatch')))
    else list.push(...readPorts(reader))
  }
  return json
}

function readStringMatch(reader: Reader): object {
  let json: object = {}
  while (reader.next()) {
    if (reader.field === 1) json = { exact: reader.string() }
    else if (reader.field === 2) json = { prefix: reader.string() }
    else if (reader.field === 3) json = { suffix: reader.string() }
    else {
      if (reader.field === 4) json = { presence: {} }
      reader.skip()
    }
  }
  return json
}

function readAddress(reader: Reader, options: AuthorizationJsonOptions): object {
  const json: { address?: string; length?: number } = {}
  while (reader.next()) {
    if (reader.field === 1) json.address = toIpText(reader.bytes(), options)
    else if (reader.field === 2) json.length = reader.uint32()
    else reader.skip()
  }
  return json
}

function toIpText(bytes: Uint8Array, options: AuthorizationJsonOptions): string {
  const isIp = bytes.length === 4 || bytes.length === 16
  return options.ip === 'text' && isIp ? formatIp(bytes) : Buffer.from(bytes).toString('base64')
}

function readAccount(reader: Reader): object {
  const json: { namespace?: string; serviceAccount?: string } = {}
  while (reader.next()) {
    if (reader.field === 1) json.namespace = reader.string()
    else if (reader.field === 2) json.serviceAccount = reader.string()
    else reader.skip()
  }
  return json
}

/** One number (wire type 0), or many in one field. */
function readPorts(reader: Reader): number[] {
  if (reader.wireType === 0) return [reader.uint32()]
  const packed = reader.message('ports')
  const ports: number[] = []
  while (!packed.done) ports.push(packed.varint())
  return ports
}
