// SPDX-License-Identifier: Apache-2.0
// What is derived from the definitions is what is committed, and the definitions say what the recorded bytes need.

import { describe, expect, test } from '@jest/globals'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { generateDescriptors, generateTypes, hasProtoc } from '../../proto/generate.mjs'
import { InvalidInput } from '../../src/base/errors.js'
import { loadProtos, protoFolder } from '../../src/wire/protos.js'
import { testWith } from '../support/optional.js'

const generated = fileURLToPath(new URL('../../src/wire/generated', import.meta.url))

function withFolder(task: (folder: string) => void): void {
  const folder = mkdtempSync(join(tmpdir(), 'addressd-protos-'))
  try {
    task(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function readTree(folder: string): Record<string, string> {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'))
  return Object.fromEntries(files.sort().map((file) => [file, readFileSync(join(folder, file), 'utf8')]))
}

describe('derived from proto/ and committed', () => {
  test('are the types (else run: node proto/generate.mjs)', () => {
    withFolder((folder) => {
      generateTypes(folder)
      expect(readTree(generated)).toEqual(readTree(folder))
    })
  })

  testWith('protoc', hasProtoc() ? undefined : 'there is no protoc on this machine')(
    'is the descriptor set (else run: node proto/generate.mjs)',
    () => {
      withFolder((folder) => {
        const file = join(folder, 'descriptors.binpb')
        generateDescriptors(file)
        const committed = readFileSync(join(protoFolder, 'descriptors.binpb'))
        expect(committed.equals(readFileSync(file))).toBe(true)
      })
    },
  )
})

test('an Authorization keeps the order of fields, packs ports and writes empty messages [authorization 1]', () => {
  const { authorization } = loadProtos().messages
  const bytes = authorization.encode({
    groups: [
      { rules: [{ matches: [{ destination_ports: [80, 443], namespaces: [{ exact: '' }, { presence: {} }] }, {}] }] },
      {},
    ],
    action: 'DENY',
    namespace: 'n',
    name: 'p',
  })
  const match = '120d' + '0a020a00' + '0a022200' + '4a0350bb03'
  expect(Buffer.from(bytes).toString('hex')).toBe(`0a0170` + `12016e` + `2001` + `2a13` + `0a11${match}1200` + `2a00`)
})

test('bytes that are no message are refused with the name of the type', () => {
  const { address } = loadProtos().messages
  expect(() => address.decode(Buffer.from('0aff', 'hex'))).toThrow(InvalidInput)
  expect(() => address.decode(Buffer.from('0aff', 'hex'))).toThrow('These 2 bytes are no istio.workload.Address')
})

test('the discovery service has both of its methods', () => {
  const { aggregatedDiscovery } = loadProtos().services
  const path = '/envoy.service.discovery.v3.AggregatedDiscoveryService'
  expect(Object.values(aggregatedDiscovery).map((m) => m.path)).toEqual([
    `${path}/StreamAggregatedResources`,
    `${path}/DeltaAggregatedResources`,
  ])
})
