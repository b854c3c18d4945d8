// SPDX-License-Identifier: Apache-2.0
// The IP rule and the route that bring packets with the return mark back to the pod itself, over rtnetlink. For the jobs of every backend: works on a
// socket that was made inside the pod's namespace, touches nothing else there.

import { InvalidInput, Retryable } from '../../base/errors.js'
import type { NetlinkSocket } from '../netns/netlink-socket.js'
import { formatErrno, isWorthRetrying } from './errno.js'
import {
  acknowledgeFlag,
  createFlag,
  dumpFlag,
  exclusiveFlag,
  readAttributes,
  readErrno,
  readMessages,
  replaceFlag,
  requestFlag,
  toAttribute,
  toHostOrder,
  toMessage,
} from './netlink.js'
import { type Family, returnRoute } from './rule-table.js'

/** What there can be of ours in one family. */
export interface ReturnPart {
  readonly kind: 'rule' | 'route'
  readonly family: Family
}

export function formatReturnPart({ kind, family }: ReturnPart): string {
  const { mark, mask, table, priority } = returnRoute
  const flag = family === 4 ? '-4' : '-6'
  return kind === 'rule'
    ? `ip ${flag} rule from all fwmark 0x${mark.toString(16)}/0x${mask.toString(16)} lookup ${table} priority ${priority}`
    : `ip ${flag} route local default dev lo table ${table}`
}

const addressFamily = { 4: 2, 6: 10 } as const
const newRoute = 24
const deleteRoute = 25
const getRoute = 26
const newRule = 32
const deleteRule = 33
const getRule = 34
const toTable = 1
const bootProtocol = 3
const hostScope = 254
const localRoute = 2
const headerBytes = 12
const invertFlag = 2
// The kernel gives it to the first interface of every namespace.
const loIndex = 1
const attribute = {
  rule: { inInterface: 3, outInterface: 17, uids: 20, priority: 6, mark: 10, mask: 16, table: 15 },
  route: { outInterface: 4, table: 15 },
} as const

const noSuch = 2
const noSuchProcess = 3
const exists = 17
const noSuchFamily = 97
const notSupported = 95

/**
 * Makes each part that is not there and gives back those; a route of others that is in the way is replaced. Throws and leaves none of them when one fails.
 */
export function addReturnParts(socket: NetlinkSocket, parts: readonly ReturnPart[]): readonly ReturnPart[] {
  const answers = exchange(
    socket,
    parts.map((part) => toRequest(part, exclusiveFlag | createFlag)),
  )
  const made = parts.filter((_, i) => answers[i] === 0)
  const inTheWay = parts.filter((part, i) => answers[i] === exists && part.kind === 'route')
  const failed = parts.findIndex((_, i) => answers[i] !== 0 && answers[i] !== exists)
  const replaced =
    failed >= 0
      ? []
      : exchange(
          socket,
          inTheWay.map((part) => toRequest(part, replaceFlag | createFlag)),
        )
  const unreplaced = replaced.findIndex((errno) => errno !== 0)
  if (failed < 0 && unreplaced < 0) return made
  removeReturnParts(socket, made)
  const part = failed >= 0 ? parts[failed] : inTheWay[unreplaced]
  throw toFailure('make', part, failed >= 0 ? answers[failed] : replaced[unreplaced])
}

/** Takes the parts out; those that are not there are fine, and so is a kernel without IPv6. */
export function removeReturnParts(socket: NetlinkSocket, parts: readonly ReturnPart[]): void {
  const answers = exchange(
    socket,
    parts.map((part) => toRequest(part, 'delete')),
  )
  const fine = [0, noSuch, noSuchProcess, noSuchFamily, notSupported]
  const failed = answers.findIndex((errno) => !fine.includes(errno))
  if (failed >= 0) throw toFailure('remove', parts[failed], answers[failed])
}

/** Which of the parts are there, exactly as we make them. */
export function selectPresentParts(socket: NetlinkSocket, parts: readonly ReturnPart[]): readonly ReturnPart[] {
  return parts.filter(({ kind, family }) => (kind === 'rule' ? hasRule(socket, family) : hasRoute(socket, family)))
}

function hasRule(socket: NetlinkSocket, family: Family): boolean {
  const { mark, mask, table, priority } = returnRoute
  const { inInterface, outInterface, uids, ...wanted } = attribute.rule
  return dump(socket, getRule, family, newRule).some((body) => {
    const found = readAttributes(body.subarray(headerBytes))
    const isLimited = body[1] !== 0 || body[2] !== 0 || (body.readUInt32LE(8) & invertFlag) !== 0
    if (isLimited || body[7] !== toTable || [inInterface, outInterface, uids].some((a) => found.has(a))) return false
    const expected = { priority, mark, mask, table }
    return (['priority', 'mark', 'mask', 'table'] as const).every(
      (name) => readHostOrder(found.get(wanted[name])) === expected[name],
    )
  })
}

function hasRoute(socket: NetlinkSocket, family: Family): boolean {
  return dump(socket, getRoute, family, newRoute).some((body) => {
    const found = readAttributes(body.subarray(headerBytes))
    return (
      body[1] === 0 &&
      body[7] === localRoute &&
      readHostOrder(found.get(attribute.route.table)) === returnRoute.table &&
      readHostOrder(found.get(attribute.route.outInterface)) === loIndex
    )
  })
}

function dump(socket: NetlinkSocket, type: number, family: Family, answerType: number): readonly Buffer[] {
  const body = Buffer.alloc(headerBytes)
  body[0] = addressFamily[family]
  socket.send(toMessage({ type, flags: requestFlag | dumpFlag, sequence: 1 }, body))
  return readMessages(socket.receive())
    .filter((message) => message.type === answerType && message.body.length >= headerBytes)
    .map((message) => message.body)
    .filter((answer) => answer[0] === addressFamily[family])
}

/** The errno of each request, 0 where it went well. */
function exchange(socket: NetlinkSocket, requests: readonly ((sequence: number) => Buffer)[]): readonly number[] {
  if (requests.length === 0) return []
  socket.send(Buffer.concat(requests.map((request, i) => request(i + 1))))
  const answers = new Map(readMessages(socket.receive()).map((m) => [m.sequence, readErrno(m)]))
  return requests.map((_, i) => {
    const errno = answers.get(i + 1)
    if (errno === undefined) throw new Retryable('the kernel did not answer about an IP rule or a route')
    return errno
  })
}

function toRequest({ kind, family }: ReturnPart, flags: number | 'delete'): (sequence: number) => Buffer {
  const { type, body } = kind === 'rule' ? toRule(family, flags) : toRoute(family, flags)
  const allFlags = requestFlag | acknowledgeFlag | (flags === 'delete' ? 0 : flags)
  return (sequence) => toMessage({ type, flags: allFlags, sequence }, body)
}

function toRule(family: Family, flags: number | 'delete'): { type: number; body: Buffer } {
  const head = Buffer.alloc(headerBytes)
  head[0] = addressFamily[family]
  head[4] = returnRoute.table
  head[7] = toTable
  const names = ['priority', 'mark', 'mask', 'table'] as const
  const attributes = names.map((name) => toAttribute(attribute.rule[name], toHostOrder(returnRoute[name])))
  return { type: flags === 'delete' ? deleteRule : newRule, body: Buffer.concat([head, ...attributes]) }
}

function toRoute(family: Family, flags: number | 'delete'): { type: number; body: Buffer } {
  const head = Buffer.alloc(headerBytes)
  head[0] = addressFamily[family]
  head[4] = returnRoute.table
  head[5] = flags === 'delete' ? 0 : bootProtocol
  head[6] = family === 4 ? hostScope : 0
  head[7] = localRoute
  const { outInterface, table } = attribute.route
  const attributes = [
    toAttribute(outInterface, toHostOrder(loIndex)),
    toAttribute(table, toHostOrder(returnRoute.table)),
  ]
  return { type: flags === 'delete' ? deleteRoute : newRoute, body: Buffer.concat([head, ...attributes]) }
}

function readHostOrder(value: Buffer | undefined): number | undefined {
  return value !== undefined && value.length >= 4 ? value.readUInt32LE(0) : undefined
}

function toFailure(verb: string, part: ReturnPart | undefined, errno = 0): Error {
  const name = part === undefined ? 'a part' : formatReturnPart(part)
  const hint = networkDown.includes(errno) ? '; is lo up in the namespace?' : ''
  const text = `cannot ${verb} in the pod: ${name}: ${formatErrno(errno)}${hint}`
  return isWorthRetrying(errno) ? new Retryable(text) : new InvalidInput(text)
}

const networkDown: readonly number[] = [100, 19]
