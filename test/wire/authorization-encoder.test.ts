// SPDX-License-Identifier: Apache-2.0
import fc from 'fast-check'
import { describe, expect, test } from '@jest/globals'
import { loadSync } from '@grpc/proto-loader'
import { fileURLToPath } from 'node:url'
import {
  encodeAuthorization,
  encodeAuthorizationEntry,
  type AuthorizationMessage,
  type Match,
  type StringMatch,
} from '../../src/wire/authorization-encoder.js'
import { decodeEntry } from '../../src/wire/entry.js'

/** The codec that proto-loader makes of the .proto file. */
interface Codec {
  serialize(value: object): Buffer
}

function loadCodec(): Codec {
  const includeDirs = [fileURLToPath(new URL('../../proto', import.meta.url))]
  const loaded = loadSync('istio/security/authorization.proto', { includeDirs, keepCase: true })
  return loaded['istio.security.Authorization'] as unknown as Codec
}

const text = fc.constantFrom('', 'a', 'é€𝄞', 'x'.repeat(200))
const string: fc.Arbitrary<StringMatch> = fc.oneof(
  fc.record({ kind: fc.constantFrom('exact' as const, 'prefix' as const, 'suffix' as const), text }),
  fc.constant({ kind: 'presence' as const }),
)
const address = fc.record({
  address: fc.constantFrom(new Uint8Array(4), new Uint8Array([10, 1, 2, 3]), new Uint8Array(16).fill(255)),
  length: fc.constantFrom(0, 8, 32, 128),
})
const account = fc.record({ namespace: text, serviceAccount: text })
const port = fc.constantFrom(0, 80, 128, 65535)
const list = <T>(of: fc.Arbitrary<T>): fc.Arbitrary<T[]> => fc.array(of, { maxLength: 3 })
const match: fc.Arbitrary<Match> = fc.record(
  {
    namespaces: list(string),
    notNamespaces: list(string),
    principals: list(string),
    notPrincipals: list(string),
    sourceIps: list(address),
    notSourceIps: list(address),
    destinationIps: list(address),
    notDestinationIps: list(address),
    destinationPorts: list(port),
    notDestinationPorts: list(port),
    serviceAccounts: list(account),
    notServiceAccounts: list(account),
  },
  { requiredKeys: [] },
)
const policy: fc.Arbitrary<AuthorizationMessage> = fc.record({
  name: text,
  namespace: text,
  scope: fc.constantFrom(0, 1, 2),
  action: fc.constantFrom(0, 1),
  groups: list(list(list(match))),
  dryRun: fc.boolean(),
})

/** In the names of the .proto file, without defaults of single fields. */
function toProto({ groups, dryRun, ...policy }: AuthorizationMessage): object {
  return withoutDefaults({
    ...policy,
    dry_run: dryRun,
    groups: groups.map((group) => ({ rules: group.map((clause) => ({ matches: clause.map(toProtoMatch) })) })),
  })
}

function toProtoMatch(match: Match): object {
  return Object.fromEntries(
    Object.entries(match).map(([list, values]) => [
      list.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      (values as readonly unknown[]).map((value) => {
        if (typeof value !== 'object' || value === null) return value
        if (!('kind' in value)) return withoutDefaults(value)
        const text = value as StringMatch
        return text.kind === 'presence' ? { presence: {} } : { [text.kind]: text.text }
      }),
    ]),
  )
}

const withoutDefaults = (fields: object): object =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== 0 && value !== '' && value !== false))

describe('the bytes of a policy', () => {
  test('are those that a general encoder makes', () => {
    const codec = loadCodec()
    fc.assert(
      fc.property(policy, (message) => {
        const bytes = Buffer.from(encodeAuthorization(message)).toString('hex')
        expect(bytes).toBe(codec.serialize(toProto(message)).toString('hex'))
      }),
    )
  })

  test('keep an empty match, an empty group, and a text that is empty', () => {
    const made = { name: 'p', namespace: 'a', scope: 1, action: 1, dryRun: false }
    const hex = (groups: AuthorizationMessage['groups']) =>
      Buffer.from(encodeAuthorization({ ...made, groups })).toString('hex')
    const head = '0a017012016118012001'
    expect([
      hex([]),
      hex([[]]),
      hex([[[{}]]]),
      hex([[[{ namespaces: [{ kind: 'exact', text: '' }], destinationPorts: [] }]]]),
      hex([[[{ notPrincipals: [{ kind: 'presence' }], destinationPorts: [80, 9090] }]]]),
      hex([[[{ sourceIps: [{ address: new Uint8Array(4), length: 0 }] }]]]),
    ]).toEqual([
      head,
      `${head}2a00`,
      `${head}2a040a021200`,
      `${head}2a080a0612040a020a00`,
      `${head}2a0d0a0b1209220222004a03508247`,
      `${head}2a0c0a0a12082a060a0400000000`,
    ])
  })

  test('are published without a version under namespace and name', () => {
    const entry = encodeAuthorizationEntry({
      name: 'p',
      namespace: 'a',
      scope: 0,
      action: 0,
      groups: [],
      dryRun: false,
    })
    const { name, version, typeUrl, body } = decodeEntry(entry)
    expect([name, version, typeUrl, Buffer.from(body).toString('hex')]).toEqual([
      'a/p',
      '',
      'type.googleapis.com/istio.security.Authorization',
      '0a0170120161',
    ])
  })
})
