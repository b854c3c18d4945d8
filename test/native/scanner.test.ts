// SPDX-License-Identifier: Apache-2.0
// The one thing that the plugin on the host reads by itself, under a sanitizer: the top level of its configuration. It never reads outside its input, takes
// nothing that JSON.parse refuses, and finds what JSON.parse finds.

import { afterAll, beforeAll, describe, expect } from '@jest/globals'
import { spawnSync } from 'node:child_process'
import fc from 'fast-check'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { hostParts } from '../support/host-parts.js'
import { testWith } from '../support/optional.js'

const source = fileURLToPath(new URL('./scan.c', import.meta.url))
const withCompiler = testWith('gcc', hostParts.gcc)

interface Found {
  readonly prevResult: unknown
  readonly version: string
  readonly excluded: boolean
}

let folder: string
let program: string

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'scan-'))
  program = join(folder, 'scan')
  if (hostParts.gcc !== undefined) return
  const flags = ['-g', '-O1', '-Wno-unused', '-o', program, source]
  const sanitized = spawnSync('gcc', ['-fsanitize=address,undefined', '-fno-sanitize-recover=all', ...flags])
  if (sanitized.status === 0) return
  console.warn('gcc has no sanitizers here: only crashes are seen')
  expect(spawnSync('gcc', flags, { encoding: 'utf8' }).stderr).toBe('')
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** What the scanner makes of each text; undefined where it refuses. */
function scan(texts: readonly Buffer[]): readonly (Found | undefined)[] {
  const input = Buffer.concat(
    texts.flatMap((text) => {
      const size = Buffer.alloc(4)
      size.writeUInt32BE(text.length)
      return [size, text]
    }),
  )
  const { status, stdout, stderr } = spawnSync(program, { input, maxBuffer: 1 << 26 })
  expect({ status, stderr: stderr.toString() }).toEqual({ status: 0, stderr: '' })
  const lines = stdout.toString().trimEnd().split('\n')
  expect(lines).toHaveLength(texts.length)
  return lines.map((line, i) => {
    const match = /^\+ (?:none|(\d+)\+(\d+)) (?:none|\d+\+\d+) (.*) ([01])$/s.exec(line)
    if (match === null) return undefined
    const from = Number(match[1])
    const bytes = match[1] === undefined ? undefined : texts[i]!.subarray(from, from + Number(match[2]))
    const prevResult: unknown = bytes === undefined ? undefined : JSON.parse(bytes.toString())
    return { prevResult, version: match[3] ?? '', excluded: match[4] === '1' }
  })
}

/** What JSON.parse makes of it. */
function parse(text: Buffer): Found | undefined {
  let value: unknown
  try {
    value = JSON.parse(text.toString())
  } catch {
    return undefined
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  const { prevResult, cniVersion, exclude_namespaces: list } = value as Record<string, unknown>
  return {
    prevResult,
    version: typeof cniVersion === 'string' && Buffer.byteLength(cniVersion) < 24 ? cniVersion : 'none',
    excluded: Array.isArray(list) && list.includes('kube-system'),
  }
}

function buffers(...texts: string[]): Buffer[] {
  return texts.map((text) => Buffer.from(text))
}

describe('the configuration scanner of the plugin', () => {
  withCompiler('finds what JSON.parse finds in configurations of any shape', () => {
    const known = fc.constantFrom('prevResult', 'cniVersion', 'exclude_namespaces', 'pod_namespace', 'name')
    const plain = fc.stringMatching(/^[a-z0-9.]{0,20}$/)
    const list = fc.array(fc.oneof(fc.constant('kube-system'), plain, fc.jsonValue()), { maxLength: 4 })
    const entry = fc.tuple(fc.oneof(known, fc.string({ maxLength: 6 })), fc.oneof(plain, list, fc.jsonValue()))
    const object = fc.array(entry, { maxLength: 8 }).map((entries) => {
      // Written by hand, so that keys can be there twice.
      const parts = entries.map(([key, value]) => `${JSON.stringify(key)} :\t${JSON.stringify(value)}`)
      return `\n{ ${parts.join(' , ')} }\r\n`
    })
    const texts = fc.sample(object, { numRuns: 2000, seed: 7 }).map((text) => Buffer.from(text))
    expect(scan(texts)).toEqual(texts.map(parse))
  })

  withCompiler('takes nothing that JSON.parse refuses, whatever the bytes', () => {
    const whole = Buffer.from(
      '{"cniVersion":"1.0.0","name":"n","prevResult":{"ips":[{"address":"10.0.0.1/24","n":-1.5e+3}],"t":[true,false,null,{}]},' +
        '"exclude_namespaces":["kube-system","\\u006b\\ud83d\\ude00"],"pod_namespace":"istio-system"}',
    )
    const change = fc.record({ at: fc.nat(whole.length - 1), byte: fc.nat(127), cut: fc.boolean() })
    const damaged = fc
      .sample(fc.array(change, { minLength: 1, maxLength: 3 }), { numRuns: 4000, seed: 8 })
      .map((changes) => {
        let text = Buffer.from(whole)
        for (const { at, byte, cut } of changes) {
          if (cut && at < text.length) text = Buffer.concat([text.subarray(0, at), text.subarray(at + 1 + (byte % 9))])
          else if (at < text.length) text[at] = byte
        }
        return text
      })
    const noise = fc
      .sample(fc.uint8Array({ maxLength: 200 }), { numRuns: 1000, seed: 9 })
      .map((bytes) => Buffer.from(bytes))
    const jsonish = fc.sample(fc.stringMatching(/^[{}[\]",:\\u0-9a-f \n.eE+-]{0,40}$/), { numRuns: 2000, seed: 10 })
    const texts = [...damaged, ...noise, ...jsonish.map((text) => Buffer.from(`{"prevResult":${text}`))]
    expect(scan(texts)).toEqual(texts.map(parse))
  })

  withCompiler('stops at nesting that no configuration has, and at megabytes of it', () => {
    const deep = (levels: number): string => `{"prevResult":${'['.repeat(levels)}${']'.repeat(levels)}}`
    const [at, over, open, mixed] = scan([
      ...buffers(deep(1024), deep(1025), `{"prevResult":${'{"a":['.repeat(400_000)}`),
      Buffer.from(`{"prevResult":${'{"a":['.repeat(512)}${']}'.repeat(512)},"cniVersion":"0.3.1"}`),
    ])
    expect(at).toBeDefined()
    expect(over).toBeUndefined()
    expect(open).toBeUndefined()
    expect(mixed?.version).toBe('0.3.1')
  })

  withCompiler('reads keys with escapes, the last of equal keys, huge numbers, and no NULs', () => {
    const number = `-${'9'.repeat(50_000)}.${'0'.repeat(50_000)}e+99999`
    const found = scan(
      buffers(
        '{"prev\\u0052esult":1,"cni\\u0056ersion":"1.0.0"}',
        '{"prevResult":1,"prevResult":2,"cniVersion":"0.1.0","cniVersion":"1.1.0"}',
        `{"n":${number},"cniVersion":"1.0.0"}`,
        '{"cniVersion":"1.0\\u0000.0"}',
        '{"cniVersion":"1.0\0.0"}',
        '{"cniVersion":"\\ud800"}',
        '{"cniVersion":5,"exclude_namespaces":"kube-system"}',
      ),
    )
    expect(found).toEqual([
      { prevResult: 1, version: '1.0.0', excluded: false },
      { prevResult: 2, version: '1.1.0', excluded: false },
      { prevResult: undefined, version: '1.0.0', excluded: false },
      { prevResult: undefined, version: 'none', excluded: false },
      undefined,
      { prevResult: undefined, version: '\ufffd', excluded: false },
      { prevResult: undefined, version: 'none', excluded: false },
    ])
  })
})
