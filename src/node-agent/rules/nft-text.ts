// SPDX-License-Identifier: Apache-2.0
// Rules of nf_tables as people read them, from what the kernel says. For `addressd-node rules show`: names every expression, leaves none out; nothing is
// decided by this text.

import { formatIp } from '../../base/ip.js'
import { type FoundExpression, readExpressions } from './nft-dump.js'
import { ctKey, metaKey, verdictCode } from './nft-expressions.js'
import { readAttributes, readText } from './netlink.js'

const metaNames = new Map<number, string>([
  [metaKey.mark, 'mark'],
  [metaKey.inInterface, 'iifname'],
  [metaKey.outInterface, 'oifname'],
  [metaKey.familyOfPacket, 'family'],
  [metaKey.protocol, 'protocol'],
])
const ctNames = new Map<number, string>([
  [ctKey.mark, 'connection mark'],
  [ctKey.zone, 'connection zone'],
])
const payloadNames = new Map([
  ['1 12 4', 'source'],
  ['1 16 4', 'destination'],
  ['1 8 16', 'source'],
  ['1 24 16', 'destination'],
  ['2 0 2', 'source port'],
  ['2 2 2', 'destination port'],
])
const protocolNames = new Map([
  [6, 'tcp'],
  [17, 'udp'],
])
const familyNames = new Map([
  [2, 'ipv4'],
  [10, 'ipv6'],
])
const none = Buffer.alloc(0)

/** One line: conditions, then what happens. */
export function formatExpressions(bytes: Buffer): string {
  let loaded = ''
  let value = ''
  const parts: string[] = []
  for (const expression of readExpressions(bytes)) {
    const { name, attributes } = expression
    const number = (type: number): number => {
      const found = attributes.get(type)
      return found !== undefined && found.length >= 4 ? found.readUInt32BE(0) : 0
    }
    if (name === 'meta' && attributes.has(3)) parts.push(`set ${metaNames.get(number(2)) ?? number(2)} to ${loaded}`)
    else if (name === 'meta') loaded = metaNames.get(number(2)) ?? `meta ${number(2)}`
    else if (name === 'ct' && attributes.has(4))
      parts.push(`set ${ctNames.get(number(2)) ?? number(2)} to ${value || loaded}`)
    else if (name === 'ct') loaded = ctNames.get(number(2)) ?? `connection ${number(2)}`
    else if (name === 'payload') {
      const place = `${number(2)} ${number(3)} ${number(4)}`
      loaded = payloadNames.get(place) ?? `payload ${place}`
    } else if (name === 'bitwise') loaded = formatBitwise(loaded, expression)
    else if (name === 'cmp') {
      parts.push(`${loaded} ${number(2) === 0 ? '=' : '!='} ${formatValue(loaded, dataOf(attributes.get(3)))}`)
    } else if (name === 'immediate') {
      const data = readAttributes(attributes.get(2) ?? none)
      const verdict = data.get(2)
      if (verdict === undefined) value = String(data.get(1)?.readUIntBE(0, Math.min(6, data.get(1)?.length ?? 0)) ?? '')
      else parts.push(formatVerdict(verdict))
      if (verdict === undefined && data.get(1)?.length === 2) value = formatImmediate(data.get(1) ?? none)
    } else if (name === 'redir') parts.push(`redirect to ${value}`)
    else if (name !== 'counter') parts.push(name)
  }
  return parts.join(', ')
}

/** Ports are in network order, a zone in the machine's: one of the two readings is small. */
function formatImmediate(bytes: Buffer): string {
  return String(
    Math.min(bytes.readUInt16BE(0), bytes.readUInt16LE(0)) <= 1 ? bytes.readUInt16LE(0) : bytes.readUInt16BE(0),
  )
}

function formatBitwise(loaded: string, { attributes }: FoundExpression): string {
  const mask = dataOf(attributes.get(4))
  const xor = dataOf(attributes.get(5))
  const isXor = xor.some((byte) => byte !== 0)
  return isXor ? `(${loaded} & ${toHex(mask)}) ^ ${toHex(xor)}` : `${loaded} & ${toHex(mask)}`
}

function formatValue(loaded: string, value: Buffer): string {
  if (loaded.endsWith('iifname') || loaded.endsWith('oifname')) return `"${readText(value)}"`
  if (loaded === 'family') return familyNames.get(value[0] ?? 0) ?? toHex(value)
  if (loaded === 'protocol') return protocolNames.get(value[0] ?? 0) ?? toHex(value)
  if (loaded.endsWith('port') && value.length === 2) return String(value.readUInt16BE(0))
  if (value.length === 16 || /^(source|destination)\b/.test(loaded)) return formatIp(value)
  return toHex(value)
}

/** Marks are in the order of the machine, the rest of what comes here is as long as an address. */
function toHex(value: Buffer): string {
  return value.length === 4 ? `0x${value.readUInt32LE(0).toString(16)}` : `0x${value.toString('hex')}`
}

function formatVerdict(bytes: Buffer): string {
  const verdict = readAttributes(bytes)
  const code = verdict.get(1)?.readInt32BE(0) ?? 0
  const chain = readText(verdict.get(2))
  const name = Object.entries(verdictCode).find(([, number]) => number === code)?.[0] ?? `verdict ${code}`
  return chain === '' ? name : `${name} ${chain}`
}

function dataOf(nested: Buffer | undefined): Buffer {
  return nested === undefined ? none : (readAttributes(nested).get(1) ?? none)
}
