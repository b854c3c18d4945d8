// SPDX-License-Identifier: Apache-2.0
// What the kernel says is in a namespace, read from its answers, and whether that is what we planned. For the jobs; sends nothing.

import { type Received, isSameAttributes, readAttributes, readText, visitAttributes } from './netlink.js'
import type { PlannedTable } from './nft-layout.js'
import { type NftChain, type NftTable, isNftType, nftType, parseComment } from './nft-messages.js'

export interface FoundTable extends NftTable {
  readonly flags: number
  readonly comment: string | undefined
}

export interface FoundChain extends NftChain {
  /** Of base chains alone. */
  readonly hook: number | undefined
  readonly priority: number | undefined
  readonly type: string
  readonly policy: number | undefined
}

export interface FoundRule extends NftChain {
  /** Eight bytes, as the kernel wants them back. */
  readonly handle: Buffer
  /** The elements of the list of expressions. */
  readonly expressions: Buffer
}

const headerBytes = 4
const none = Buffer.alloc(0)

export function readTables(messages: readonly Received[]): readonly FoundTable[] {
  return read(messages, nftType.newTable, (family, attributes) => ({
    family,
    table: readText(attributes.get(1)),
    flags: readNumber(attributes.get(2)) ?? 0,
    comment: parseComment(attributes.get(6)),
  }))
}

export function readChains(messages: readonly Received[]): readonly FoundChain[] {
  return read(messages, nftType.newChain, (family, attributes) => {
    const hook = attributes.has(4) ? readAttributes(attributes.get(4) ?? none) : undefined
    return {
      family,
      table: readText(attributes.get(1)),
      chain: readText(attributes.get(3)),
      hook: readNumber(hook?.get(1)),
      priority: toSigned(readNumber(hook?.get(2))),
      type: readText(attributes.get(7)),
      policy: readNumber(attributes.get(5)),
    }
  })
}

export function readRules(messages: readonly Received[]): readonly FoundRule[] {
  return read(messages, nftType.newRule, (family, attributes) => ({
    family,
    table: readText(attributes.get(1)),
    chain: readText(attributes.get(2)),
    handle: attributes.get(3) ?? none,
    expressions: attributes.get(4) ?? none,
  }))
}

/** The generation in an answer; undefined when there is none. */
export function readGeneration(messages: readonly Received[]): number | undefined {
  return read(messages, nftType.newGeneration, (_, attributes) => readNumber(attributes.get(1)))[0]
}

/** One expression: its name and its attributes. */
export interface FoundExpression {
  readonly name: string
  readonly attributes: ReadonlyMap<number, Buffer>
}

export function readExpressions(bytes: Buffer): readonly FoundExpression[] {
  const out: FoundExpression[] = []
  visitAttributes(bytes, (_, element) => {
    const parts = readAttributes(element)
    out.push({ name: readText(parts.get(1)), attributes: readAttributes(parts.get(2) ?? none) })
  })
  return out
}

/** Whether these are exactly the planned tables: chains, rules and their order. What belongs to other tables is not looked at. */
export function isAsPlanned(
  planned: readonly PlannedTable[],
  found: {
    readonly tables: readonly NftTable[]
    readonly chains: readonly FoundChain[]
    readonly rules: readonly FoundRule[]
  },
): boolean {
  return planned.every((table) => {
    const isHere = (other: NftTable): boolean => other.family === table.family && other.table === table.table
    const chains = found.chains.filter(isHere)
    const rules = found.rules.filter(isHere)
    if (!found.tables.some(isHere) || chains.length !== table.chains.length) return false
    return table.chains.every((chain) => {
      const there = chains.find((other) => other.chain === chain.chain)
      if (there === undefined || there.hook !== chain.hook || there.priority !== chain.priority) return false
      if (there.type !== chain.type || there.policy !== 1) return false
      return isSameRules(
        chain.rules,
        rules.filter((rule) => rule.chain === chain.chain),
      )
    })
  })
}

function isSameRules(planned: readonly Buffer[], found: readonly FoundRule[]): boolean {
  if (planned.length !== found.length) return false
  return planned.every((expressions, i) => isSameExpressions(expressions, found[i]?.expressions ?? none))
}

// How this kernel words what we planned: the long comparison is done once a plan, not once a pod.
const kernelForms = new WeakMap<Buffer, Buffer>()

// All elements of the list have the same type, so they are compared by place.
function isSameExpressions(planned: Buffer, found: Buffer): boolean {
  if (kernelForms.get(planned)?.equals(found) === true) return true
  const wanted = listElements(planned)
  const there = listElements(found)
  const isSame =
    wanted.length === there.length && wanted.every((element, i) => isSameAttributes(element, there[i] ?? none))
  if (isSame) kernelForms.set(planned, Buffer.from(found))
  return isSame
}

function listElements(bytes: Buffer): readonly Buffer[] {
  const out: Buffer[] = []
  visitAttributes(bytes, (_, element) => out.push(element))
  return out
}

function read<T>(
  messages: readonly Received[],
  type: number,
  toRecord: (family: number, attributes: ReadonlyMap<number, Buffer>) => T,
): readonly T[] {
  return messages
    .filter((message) => isNftType(message.type, type) && message.body.length >= headerBytes)
    .map(({ body }) => toRecord(body[0] ?? 0, readAttributes(body.subarray(headerBytes))))
}

function readNumber(value: Buffer | undefined): number | undefined {
  return value !== undefined && value.length >= 4 ? value.readUInt32BE(0) : undefined
}

function toSigned(value: number | undefined): number | undefined {
  return value === undefined ? undefined : value | 0
}
