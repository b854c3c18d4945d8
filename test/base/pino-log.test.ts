// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { InvalidInput, Retryable } from '../../src/base/errors.js'
import { createPinoLog, parseLogLevels } from '../../src/base/pino-log.js'

function collect(levels: string) {
  const lines: Record<string, any>[] = []
  const log = createPinoLog(parseLogLevels(levels), {
    write: (line: string) => void lines.push(JSON.parse(line) as Record<string, any>),
  })
  return { log, lines }
}

describe('log levels as istiod takes them', () => {
  test.each([
    ['info', { standard: 'info', byScope: {} }],
    ['default:debug', { standard: 'debug', byScope: {} }],
    ['default:warn,xds:debug,kube:none', { standard: 'warn', byScope: { xds: 'debug', kube: 'silent' } }],
    ['all:error', { standard: 'error', byScope: {} }],
    ['xds:debug', { standard: 'info', byScope: { xds: 'debug' } }],
  ])('%s', (text, levels) => {
    expect(parseLogLevels(text)).toEqual(levels)
  })
  test.each(['', 'loud', 'default:', ':info', 'a:b:info', 'info,,', 'toString'])('%j is refused', (text) => {
    expect(() => parseLogLevels(text)).toThrow(InvalidInput)
  })
})

test('a line has its level as a word, its fields and its message', () => {
  const { log, lines } = collect('info')
  log.debug({}, 'not written')
  log.child({ scope: 'kube' }).warn({ kind: 'Pod' }, 'watch ended')
  expect(lines).toEqual([{ level: 'warn', time: expect.any(String), scope: 'kube', kind: 'Pod', msg: 'watch ended' }])
})

test('a scope can be louder or quieter than the rest', () => {
  const { log, lines } = collect('default:info,xds:debug,kube:none')
  log.child({ scope: 'xds' }).debug({}, 'a')
  log.child({ scope: 'kube' }).error({}, 'b')
  log.child({ scope: 'other' }).debug({}, 'c')
  expect(lines.map((line) => line['msg'])).toEqual(['a'])
})

test('an error in a field says its class, message and cause', () => {
  const { log, lines } = collect('info')
  log.error({ error: new Retryable('API server is away', new Error('refused')) }, 'list failed')
  expect(lines[0]?.['error']).toMatchObject({
    type: 'Retryable',
    message: 'API server is away',
    cause: { message: 'refused' },
  })
})
