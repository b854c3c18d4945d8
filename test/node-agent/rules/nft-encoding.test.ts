// SPDX-License-Identifier: Apache-2.0
// Bytes against a transaction that nft itself sent for the same rules, a table for each family.

import { readFileSync } from 'node:fs'
import { describe, expect, test } from '@jest/globals'
import type { PodRuleOptions } from '../../../src/node-agent/contracts.js'
import {
  isSameAttributes,
  readAttributes,
  readMessages,
  toAttribute,
  toNested,
} from '../../../src/node-agent/rules/netlink.js'
import { readErrno } from '../../../src/node-agent/rules/netlink.js'
import { readExpressions } from '../../../src/node-agent/rules/nft-dump.js'
import { planTables } from '../../../src/node-agent/rules/nft-layout.js'
import { toBatch, toComment, parseComment, addTable } from '../../../src/node-agent/rules/nft-messages.js'
import { formatTcpLooseComment, parseTcpLooseComment } from '../../../src/node-agent/rules/tcp-loose.js'

const options: PodRuleOptions = {
  ipv6: true,
  dnsCapture: true,
  bypassInbound: false,
  virtualInterfaces: [],
  excludedInboundPorts: [],
  excludedOutboundCidrs: [],
  probeAddress4: '169.254.7.127',
  probeAddress6: 'fd16:9254:7127:1337:ffff:ffff:ffff:ffff',
}
const captured = readFileSync(new URL('./cases/nft-transaction.bin', import.meta.url))
const newRule = 0x0a06
const chainNames: Record<string, string> = {
  'prert-mangle': 'mangle-prerouting',
  'out-mangle': 'mangle-output',
  'prert-raw': 'raw-prerouting',
  'out-raw': 'raw-output',
  'prert-nat': 'nat-prerouting',
  'out-nat': 'nat-output',
}

/** Expression lists by family and chain, in order. */
function readCaptured(): Record<string, Buffer[]> {
  const out: Record<string, Buffer[]> = {}
  for (const { body } of readMessages([captured]).filter(({ type }) => type === newRule)) {
    const attributes = readAttributes(body.subarray(4))
    const chain = chainNames[attributes.get(2)!.toString('utf8').replace('\0', '')]!
    ;(out[`${body[0]} ${chain}`] ??= []).push(attributes.get(4)!)
  }
  return out
}

/** Each test with what it loads, in any order: nft and we may ask for the mark or the port first. */
function toConditions(bytes: Buffer): string[] {
  const parts: string[] = []
  let loaded = ''
  for (const { name, attributes } of readExpressions(bytes)) {
    loaded += `${name} ${[...attributes]
      // Says the same as the first port where it is given.
      .filter(([type]) => !(name === 'redir' && type === 2))
      .map(([type, value]) => `${type}:${value.toString('hex')}`)
      .sort()
      .join(' ')};`
    if (name === 'cmp') {
      parts.push(loaded)
      loaded = ''
    }
  }
  return [...parts.sort(), loaded]
}

describe('messages of nf_tables', () => {
  test('say what nft says for the same rules', () => {
    const wanted = Object.fromEntries(
      Object.entries(readCaptured()).map(([chain, rules]) => [chain, rules.map(toConditions)]),
    )
    const ours = Object.fromEntries(
      planTables(options, 'by-family').flatMap(({ chains }) =>
        chains.map(({ family, chain, rules }) => [`${family} ${chain}`, rules.map(toConditions)]),
      ),
    )
    expect(ours).toEqual(wanted)
  })

  test('are byte for byte those of nft where the conditions have the same order', () => {
    const wanted = readCaptured()
    const equal = planTables(options, 'by-family').flatMap(({ chains }) =>
      chains.flatMap(({ family, chain, rules }) =>
        rules.flatMap((rule, i) => (wanted[`${family} ${chain}`]![i]!.equals(rule) ? [`${family} ${chain} ${i}`] : [])),
      ),
    )
    expect(equal).toEqual([
      '2 mangle-prerouting 0',
      '2 mangle-output 0',
      '2 nat-prerouting 0',
      '2 nat-output 0',
      '2 nat-output 3',
      '2 nat-output 4',
      '10 mangle-prerouting 0',
      '10 mangle-output 0',
      '10 nat-prerouting 0',
      '10 nat-output 0',
      '10 nat-output 3',
      '10 nat-output 4',
    ])
  })

  test('make a batch that asks for one acknowledgement, on the last message', () => {
    const table = { family: 1, table: 't' }
    const messages = readMessages([toBatch([addTable(table), addTable(table)], 7)])
    expect(messages.map(({ type, sequence }) => [type, sequence])).toEqual([
      [0x10, 0],
      [0x0a00, 1],
      [0x0a00, 2],
      [0x11, 3],
    ])
    const batch = toBatch([addTable(table), addTable(table)], 7)
    const flags = [20 + 8, 20 + 8 + 28].map((at) => batch.readUInt16LE(at + 6))
    expect(flags).toEqual([1, 5])
    expect(readAttributes(messages[0]!.body.subarray(4)).get(1)).toEqual(Buffer.from([0, 0, 0, 7]))
  })
})

describe('what comes from the kernel', () => {
  test('is the same in another order, and with more that is zero', () => {
    const one = toNested(1, toAttribute(1, Buffer.from('a')), toAttribute(2, Buffer.from('b')))
    const other = toNested(
      1,
      toAttribute(2, Buffer.from('b')),
      toAttribute(1, Buffer.from('a')),
      toAttribute(9, Buffer.alloc(4)),
    )
    const less = toNested(1, toAttribute(1, Buffer.from('a')))
    const more = toNested(
      1,
      toAttribute(2, Buffer.from('b')),
      toAttribute(1, Buffer.from('a')),
      toAttribute(9, Buffer.from([1])),
    )
    expect([other, less, more].map((actual) => isSameAttributes(one, actual))).toEqual([true, false, false])
  })

  test('is read no further than it goes', () => {
    const whole = toAttribute(1, Buffer.from('abcdef'))
    expect([...readAttributes(whole.subarray(0, 6))]).toEqual([])
    expect(readMessages([Buffer.from([200, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])])).toEqual([])
    expect(readErrno({ type: 2, sequence: 1, body: Buffer.alloc(2) })).toBeUndefined()
  })

  test('keeps comments, and what a setting was in them', () => {
    expect(parseComment(toComment(formatTcpLooseComment('0')))).toBe('tcp_loose was 0')
    expect(['tcp_loose was 0', 'tcp_loose was 1', 'tcp_loose was 7', undefined].map(parseTcpLooseComment)).toEqual([
      '0',
      '1',
      '1',
      '1',
    ])
  })
})
