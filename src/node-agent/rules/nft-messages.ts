// SPDX-License-Identifier: Apache-2.0
// Messages of nf_tables as bytes: tables, chains, rules, batches, dumps. For the layout of our rules and for what takes out leftovers; sends nothing.

import {
  acknowledgeFlag,
  appendFlag,
  createFlag,
  dumpFlag,
  requestFlag,
  toAttribute,
  toBigEndian,
  toCString,
  toMessage,
  toNested,
} from './netlink.js'

/** Families as nf_tables numbers them. */
export const nftFamily = { any: 0, inet: 1, ip: 2, ip6: 10 } as const
export const hookNumber = { prerouting: 0, output: 3, postrouting: 4 } as const

export const nftType = {
  newTable: 0,
  getTable: 1,
  deleteTable: 2,
  newChain: 3,
  getChain: 4,
  deleteChain: 5,
  newRule: 6,
  getRule: 7,
  deleteRule: 8,
  newGeneration: 15,
  getGeneration: 16,
} as const

const subsystem = 0x0a00
const batchBegin = 0x10
const batchEnd = 0x11
const acceptPolicy = 1
const headerBytes = 4

/** One message without its sequence number, which the batch gives it. */
export interface NftMessage {
  readonly type: number
  readonly family: number
  readonly flags: number
  readonly attributes: Uint8Array
}

export interface NftTable {
  readonly family: number
  readonly table: string
}

export interface NftChain extends NftTable {
  readonly chain: string
}

/** A chain that packets enter at a hook of the kernel. */
export interface NftBaseChain extends NftChain {
  readonly type: 'filter' | 'nat' | 'route'
  readonly hook: number
  readonly priority: number
}

/** Text that stays with an object and that `nft list` shows as its comment. */
export function toComment(text: string): Buffer {
  const value = toCString(text)
  return Buffer.concat([Buffer.from([0, value.length]), value])
}

/** The comment in an object's user data; undefined when there is none. */
export function parseComment(userData: Buffer | undefined): string | undefined {
  if (userData === undefined || userData.length < 3 || userData[0] !== 0) return undefined
  return userData.toString('utf8', 2, 1 + (userData[1] ?? 0))
}

/** Makes the table, or finds it: no error when it is there. */
export function addTable({ family, table }: NftTable, comment?: string): NftMessage {
  const name = toAttribute(1, toCString(table))
  const attributes = comment === undefined ? name : Buffer.concat([name, toAttribute(6, toComment(comment))])
  return { type: nftType.newTable, family, flags: 0, attributes }
}

/** Deletes the table with all that is in it; an error when it is not there. */
export function deleteTable({ family, table }: NftTable): NftMessage {
  return { type: nftType.deleteTable, family, flags: 0, attributes: toAttribute(1, toCString(table)) }
}

export function addBaseChain(chain: NftBaseChain): NftMessage {
  const hook = toNested(4, toAttribute(1, toBigEndian(chain.hook)), toAttribute(2, toBigEndian(chain.priority)))
  const attributes = Buffer.concat([
    toAttribute(1, toCString(chain.table)),
    toAttribute(3, toCString(chain.chain)),
    toAttribute(7, toCString(chain.type)),
    toAttribute(5, toBigEndian(acceptPolicy)),
    hook,
  ])
  return { type: nftType.newChain, family: chain.family, flags: createFlag, attributes }
}

/** Deletes an empty chain that nothing jumps to. */
export function deleteChain({ family, table, chain }: NftChain): NftMessage {
  const attributes = Buffer.concat([toAttribute(1, toCString(table)), toAttribute(3, toCString(chain))])
  return { type: nftType.deleteChain, family, flags: 0, attributes }
}

/** Appends a rule; `expressions` are elements as nft-expressions makes them. */
export function addRule({ family, table, chain }: NftChain, expressions: Uint8Array): NftMessage {
  const attributes = Buffer.concat([
    toAttribute(1, toCString(table)),
    toAttribute(2, toCString(chain)),
    toNested(4, expressions),
  ])
  return { type: nftType.newRule, family, flags: createFlag | appendFlag, attributes }
}

/** Deletes one rule by its handle (8 bytes as the kernel told it), or without one every rule of the chain. */
export function deleteRule({ family, table, chain }: NftChain, handle?: Uint8Array): NftMessage {
  const attributes = Buffer.concat([
    toAttribute(1, toCString(table)),
    toAttribute(2, toCString(chain)),
    ...(handle === undefined ? [] : [toAttribute(3, handle)]),
  ])
  return { type: nftType.deleteRule, family, flags: 0, attributes }
}

/**
 * One transaction as one datagram: all or nothing. The acknowledgement is asked for on the last message alone, for on an earlier one it would say nothing of
 * what follows. With `generation` the kernel refuses (ERESTART) when anybody changed anything since.
 */
export function toBatch(messages: readonly NftMessage[], generation?: number): Buffer {
  const condition = generation === undefined ? Buffer.alloc(0) : toAttribute(1, toBigEndian(generation))
  const parts = [
    toMessage({ type: batchBegin, flags: requestFlag, sequence: 0 }, Buffer.concat([toBatchHeader(), condition])),
  ]
  for (const [i, message] of messages.entries()) {
    const flags = requestFlag | message.flags | (i === messages.length - 1 ? acknowledgeFlag : 0)
    const body = Buffer.concat([toNftHeader(message.family), message.attributes])
    parts.push(toMessage({ type: subsystem | message.type, flags, sequence: i + 1 }, body))
  }
  parts.push(toMessage({ type: batchEnd, flags: requestFlag, sequence: messages.length + 1 }, toBatchHeader()))
  return Buffer.concat(parts)
}

/** Asks for the number that every commit in the namespace raises. */
export function toGenerationRequest(): Buffer {
  const head = { type: subsystem | nftType.getGeneration, flags: requestFlag, sequence: 1 }
  return toMessage(head, toNftHeader(nftFamily.any))
}

/** Asks for all tables, or all chains, of a family or of all. */
export function toDumpRequest(type: number, family: number): Buffer {
  return toMessage({ type: subsystem | type, flags: requestFlag | dumpFlag, sequence: 1 }, toNftHeader(family))
}

/** Asks for the rules of a table, in order within each chain. */
export function toRuleDumpRequest({ family, table }: NftTable): Buffer {
  const body = Buffer.concat([toNftHeader(family), toAttribute(1, toCString(table))])
  return toMessage({ type: subsystem | nftType.getRule, flags: requestFlag | dumpFlag, sequence: 1 }, body)
}

/** Whether a received message's type is this one of nf_tables. */
export function isNftType(type: number, wanted: number): boolean {
  return type === (subsystem | wanted)
}

function toNftHeader(family: number): Buffer {
  const out = Buffer.alloc(headerBytes)
  out[0] = family
  return out
}

function toBatchHeader(): Buffer {
  // The number of the subsystem, big-endian, where other messages have a resource.
  return Buffer.from([0, 0, 0, subsystem >> 8])
}
