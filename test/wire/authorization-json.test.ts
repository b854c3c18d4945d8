// SPDX-License-Identifier: Apache-2.0
import { expect, test } from '@jest/globals'
import { toAuthorizationJson } from '../../src/wire/authorization-json.js'

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex')

test('a policy without anything is an empty object', () => {
  expect(toAuthorizationJson(hex(''), { ip: 'text' })).toEqual({})
})

test('names, scope, action and dry run; what has its default is left out', () => {
  expect(toAuthorizationJson(hex('0a0170 12026e73 1801 2001 3001'), { ip: 'text' })).toEqual({
    name: 'p',
    namespace: 'ns',
    scope: 'NAMESPACE',
    action: 'DENY',
    dryRun: true,
  })
})

test('empty groups, rules and matches are shown, since they mean something', () => {
  expect(toAuthorizationJson(hex('2a00 2a020a00 2a040a021200'), { ip: 'text' })).toEqual({
    groups: [{}, { rules: [{}] }, { rules: [{ matches: [{}] }] }],
  })
})

/** The fields of one Match, a line each four. */
const everyList =
  '0a030a0161 1203120162 1a031a0163 22022200' +
  '2a080a040a0000001008 32060a0400000000 3a080a04c00002011020 4200' +
  '4a0450bb7805 50 51' +
  '5a060a0161120162 6200'

test('every list of a match, its addresses as text or as bytes', () => {
  const match = (address: (text: string, base64: string) => string): object => ({
    namespaces: [{ exact: 'a' }],
    notNamespaces: [{ prefix: 'b' }],
    principals: [{ suffix: 'c' }],
    notPrincipals: [{ presence: {} }],
    sourceIps: [{ address: address('10.0.0.0', 'CgAAAA=='), length: 8 }],
    notSourceIps: [{ address: address('0.0.0.0', 'AAAAAA==') }],
    destinationIps: [{ address: address('192.0.2.1', 'wAACAQ=='), length: 32 }],
    notDestinationIps: [{}],
    destinationPorts: [80, 15419, 5],
    notDestinationPorts: [81],
    serviceAccounts: [{ namespace: 'a', serviceAccount: 'b' }],
    notServiceAccounts: [{}],
  })
  const wrap = (tag: number, body: Buffer): Buffer => Buffer.concat([Buffer.from([tag, body.length]), body])
  const bytes = wrap(0x2a, wrap(0x0a, wrap(0x12, hex(everyList))))
  expect(toAuthorizationJson(bytes, { ip: 'text' })).toEqual({
    groups: [{ rules: [{ matches: [match((text) => text)] }] }],
  })
  expect(toAuthorizationJson(bytes, { ip: 'bytes' })).toEqual({
    groups: [{ rules: [{ matches: [match((_, base64) => base64)] }] }],
  })
})

test('bytes that are no policy are refused', () => {
  expect(() => toAuthorizationJson(hex('0aff'), { ip: 'text' })).toThrow('Authorization')
})
