// SPDX-License-Identifier: Apache-2.0
// One rule of the table as expressions of nf_tables, in bytes. For the layout of our tables; conditions keep their order.

import { parsePrefix } from '../../base/ip.js'
import { toAttribute, toBigEndian, toCString, toHostOrder, toNested } from './netlink.js'
import { nftFamily } from './nft-messages.js'
import type { Action, Family, Match, Rule } from './rule-table.js'

export const metaKey = { mark: 3, inInterface: 6, outInterface: 7, familyOfPacket: 15, protocol: 16 } as const
export const ctKey = { mark: 3, zone: 17 } as const
export const verdictCode = { accept: 1, jump: -3, goto: -4, return: -5 } as const

const verdictRegister = 0
const firstRegister = 1
const equal = 0
const notEqual = 1
const networkHeader = 1
const transportHeader = 2
const interfaceNameBytes = 16
const protocolNumber = { tcp: 6, udp: 17 } as const
const addressOffset = { source: { 4: 12, 6: 8 }, destination: { 4: 16, 6: 24 } } as const
const portOffset = { 'source-port': 0, 'destination-port': 2 } as const
// "The port of the first register", as opposed to one that the connection had.
const portSpecified = 2

/**
 * The rule's expressions. `guard` is the family that packets are tested for first: needed in a table of both families before an address, and where a
 * rule for both shall hold for one.
 */
export function toExpressions(rule: Rule, guard: Family | undefined): Buffer {
  const parts: Buffer[] = []
  if (guard !== undefined) {
    parts.push(loadMeta(metaKey.familyOfPacket), compare(Buffer.from([guard === 4 ? nftFamily.ip : nftFamily.ip6])))
  }
  for (const match of rule.matches) parts.push(...toMatch(match))
  parts.push(...toAction(rule.action))
  return Buffer.concat(parts)
}

function toMatch(match: Match): readonly Buffer[] {
  switch (match.kind) {
    case 'in-interface':
      return [loadMeta(metaKey.inInterface), compare(toInterfaceName(match.name), match.not)]
    case 'out-interface':
      return [loadMeta(metaKey.outInterface), compare(toInterfaceName(match.name), match.not)]
    case 'source':
    case 'destination':
      return toAddressMatch(match)
    case 'protocol':
      return [loadMeta(metaKey.protocol), compare(Buffer.from([protocolNumber[match.protocol]]))]
    case 'source-port':
    case 'destination-port':
      return [loadPayload(transportHeader, portOffset[match.kind], 2), compare(toPort(match.port), match.not)]
    case 'mark':
      return [loadMeta(metaKey.mark), mask(match.mask), compare(toHostOrder(match.value), match.not)]
    case 'connection-mark':
      return [loadConnection(ctKey.mark), mask(match.mask), compare(toHostOrder(match.value), match.not)]
  }
}

function toAddressMatch(match: Match & { kind: 'source' | 'destination' }): readonly Buffer[] {
  const prefix = parsePrefix(match.prefix)
  if (prefix === undefined) throw new Error(`${match.prefix} is no prefix`)
  const { address, length } = prefix
  const load = loadPayload(networkHeader, addressOffset[match.kind][address.length === 4 ? 4 : 6], address.length)
  if (length === address.length * 8) return [load, compare(address, match.not)]
  const bits = Buffer.alloc(address.length)
  for (let i = 0; i < bits.length; i++) bits[i] = (0xff00 >> Math.min(8, Math.max(0, length - i * 8))) & 0xff
  return [load, bitwise(bits, Buffer.alloc(bits.length)), compare(address, match.not)]
}

function toAction(action: Action): readonly Buffer[] {
  switch (action.kind) {
    case 'accept':
    case 'return':
      return [verdict(verdictCode[action.kind])]
    case 'redirect':
      return [
        immediate(toPort(action.port)),
        expression('redir', number(1, firstRegister), number(2, firstRegister), number(3, portSpecified)),
      ]
    case 'set-connection-mark':
      return [
        loadConnection(ctKey.mark),
        bitwise(toHostOrder(~action.mask), toHostOrder(action.value)),
        storeConnection(ctKey.mark),
      ]
    case 'restore-mark':
      return [loadConnection(ctKey.mark), expression('meta', number(2, metaKey.mark), number(3, firstRegister))]
    case 'conntrack-zone': {
      const zone = Buffer.alloc(2)
      zone.writeUInt16LE(action.zone)
      return [immediate(zone), storeConnection(ctKey.zone)]
    }
  }
}

function expression(name: string, ...attributes: readonly Buffer[]): Buffer {
  return toNested(1, toAttribute(1, toCString(name)), toNested(2, ...attributes))
}

function number(type: number, value: number): Buffer {
  return toAttribute(type, toBigEndian(value))
}

function loadMeta(key: number): Buffer {
  return expression('meta', number(2, key), number(1, firstRegister))
}

function loadConnection(key: number): Buffer {
  return expression('ct', number(2, key), number(1, firstRegister))
}

/** Does nothing but need connection tracking. */
export function loadConnectionMark(): Buffer {
  return loadConnection(ctKey.mark)
}

function storeConnection(key: number): Buffer {
  return expression('ct', number(2, key), number(4, firstRegister))
}

function loadPayload(base: number, offset: number, length: number): Buffer {
  return expression('payload', number(1, firstRegister), number(2, base), number(3, offset), number(4, length))
}

function compare(value: Uint8Array, not?: true): Buffer {
  const operation = number(2, not === true ? notEqual : equal)
  return expression('cmp', number(1, firstRegister), operation, toNested(3, toAttribute(1, value)))
}

function mask(bits: number): Buffer {
  return bitwise(toHostOrder(bits), toHostOrder(0))
}

/** The register becomes (register & and) ^ xor. */
function bitwise(and: Buffer, xor: Buffer): Buffer {
  return expression(
    'bitwise',
    number(1, firstRegister),
    number(2, firstRegister),
    number(6, 0),
    number(3, and.length),
    toNested(4, toAttribute(1, and)),
    toNested(5, toAttribute(1, xor)),
  )
}

function immediate(value: Buffer): Buffer {
  return expression('immediate', number(1, firstRegister), toNested(2, toAttribute(1, value)))
}

function verdict(code: number): Buffer {
  const value = toNested(2, toAttribute(1, toBigEndian(code)))
  return expression('immediate', number(1, verdictRegister), toNested(2, value))
}

function toPort(port: number): Buffer {
  return Buffer.from([port >> 8, port & 255])
}

function toInterfaceName(name: string): Buffer {
  const out = Buffer.alloc(interfaceNameBytes)
  out.write(name)
  return out
}
