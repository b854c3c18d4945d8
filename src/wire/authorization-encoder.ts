// SPDX-License-Identifier: Apache-2.0
// A policy to the bytes of `istio.security.Authorization`, the same bytes for the same content in every process. Lists keep their order and nothing is
// simplified: an empty Match and an empty Group mean something and are written. Judges nothing.

import { encodeEntry } from './entry.js'
import { AUTHORIZATION_TYPE } from './messages.js'
import { BackwardWriter } from './writer.js'

export const AuthorizationScope = { GLOBAL: 0, NAMESPACE: 1, WORKLOAD_SELECTOR: 2 } as const
export const AuthorizationAction = { ALLOW: 0, DENY: 1 } as const

/** `presence` = any value that is not empty. The text of the others may be empty. */
export type StringMatch =
  { readonly kind: 'exact' | 'prefix' | 'suffix'; readonly text: string } | { readonly kind: 'presence' }

/** A range of addresses. */
export interface AddressMatch {
  /** 4 or 16 bytes, host bits as they are. */
  readonly address: Uint8Array
  /** Prefix length in bits. */
  readonly length: number
}

export interface AccountMatch {
  readonly namespace: string
  readonly serviceAccount: string
}

/** Holds when every list that is there does: a plain one when any value fits, a negative one when none does. Without any list it never holds. */
export interface Match {
  readonly namespaces?: readonly StringMatch[]
  readonly notNamespaces?: readonly StringMatch[]
  readonly principals?: readonly StringMatch[]
  readonly notPrincipals?: readonly StringMatch[]
  readonly sourceIps?: readonly AddressMatch[]
  readonly notSourceIps?: readonly AddressMatch[]
  readonly destinationIps?: readonly AddressMatch[]
  readonly notDestinationIps?: readonly AddressMatch[]
  readonly destinationPorts?: readonly number[]
  readonly notDestinationPorts?: readonly number[]
  readonly serviceAccounts?: readonly AccountMatch[]
  readonly notServiceAccounts?: readonly AccountMatch[]
}

/** Holds when any of its matches does. */
export type Clause = readonly Match[]

/** Holds when all of its clauses do; without any it always holds. */
export type Group = readonly Clause[]

export interface AuthorizationMessage {
  readonly name: string
  readonly namespace: string
  /** A number of AuthorizationScope. */
  readonly scope: number
  /** A number of AuthorizationAction. */
  readonly action: number
  /** Holds for a connection when any of them does; without any it never holds. */
  readonly groups: readonly Group[]
  readonly dryRun: boolean
}

const writer = new BackwardWriter()

const varintOf = (field: number): number => field * 8
const bytesOf = (field: number): number => field * 8 + 2

/** The bytes inside the Any. */
export function encodeAuthorization(policy: AuthorizationMessage): Uint8Array {
  writer.reset()
  writer.boolField(varintOf(6), policy.dryRun)
  eachBackward(policy.groups, writeGroup)
  writer.enumField(varintOf(4), policy.action)
  writer.enumField(varintOf(3), policy.scope)
  writer.stringField(bytesOf(2), policy.namespace)
  writer.stringField(bytesOf(1), policy.name)
  return writer.copy()
}

/** The published entry: named `namespace/name`, without a version. */
export function encodeAuthorizationEntry(policy: AuthorizationMessage): Uint8Array {
  const name = `${policy.namespace}/${policy.name}`
  return encodeEntry({ name, version: '', typeUrl: AUTHORIZATION_TYPE, body: encodeAuthorization(policy) })
}

function writeGroup(group: Group): void {
  const mark = writer.mark()
  eachBackward(group, writeClause)
  writer.close(bytesOf(5), mark)
}

function writeClause(clause: Clause): void {
  const mark = writer.mark()
  eachBackward(clause, writeMatch)
  writer.close(bytesOf(1), mark)
}

function writeMatch(match: Match): void {
  const mark = writer.mark()
  writeList(12, match.notServiceAccounts, writeAccount)
  writeList(11, match.serviceAccounts, writeAccount)
  writePorts(10, match.notDestinationPorts)
  writePorts(9, match.destinationPorts)
  writeList(8, match.notDestinationIps, writeAddress)
  writeList(7, match.destinationIps, writeAddress)
  writeList(6, match.notSourceIps, writeAddress)
  writeList(5, match.sourceIps, writeAddress)
  writeList(4, match.notPrincipals, writeString)
  writeList(3, match.principals, writeString)
  writeList(2, match.notNamespaces, writeString)
  writeList(1, match.namespaces, writeString)
  writer.close(bytesOf(2), mark)
}

/** One field an element. */
function writeList<T>(field: number, items: readonly T[] | undefined, write: (item: T) => void): void {
  eachBackward(items ?? [], (item) => {
    const mark = writer.mark()
    write(item)
    writer.close(bytesOf(field), mark)
  })
}

/** All in one field; none for an empty list. */
function writePorts(field: number, ports: readonly number[] | undefined): void {
  if (ports === undefined || ports.length === 0) return
  const mark = writer.mark()
  eachBackward(ports, (port) => writer.varint(port))
  writer.close(bytesOf(field), mark)
}

const texts = { exact: bytesOf(1), prefix: bytesOf(2), suffix: bytesOf(3) } as const

function writeString(match: StringMatch): void {
  if (match.kind === 'presence') writer.close(bytesOf(4), writer.mark())
  else writer.stringElement(texts[match.kind], match.text)
}

function writeAddress(range: AddressMatch): void {
  writer.uint32Field(varintOf(2), range.length)
  writer.bytesField(bytesOf(1), range.address)
}

function writeAccount(account: AccountMatch): void {
  writer.stringField(bytesOf(2), account.serviceAccount)
  writer.stringField(bytesOf(1), account.namespace)
}

function eachBackward<T>(items: readonly T[], visit: (item: T) => void): void {
  for (let i = items.length - 1; i >= 0; i--) {
    const item = items[i]
    if (item !== undefined) visit(item)
  }
}
