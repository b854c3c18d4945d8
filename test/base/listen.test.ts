// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { createServer } from 'node:net'
import { Fatal, InvalidInput } from '../../src/base/errors.js'
import { formatListenAddress, isLoopback, listen, parseListenAddress } from '../../src/base/listen.js'

describe('an address to listen on', () => {
  test.each([
    ['127.0.0.1:15010', { host: '127.0.0.1', port: 15_010 }],
    [':15010', { host: undefined, port: 15_010 }],
    ['[::1]:0', { host: '::1', port: 0 }],
    ['[::]:8080', { host: '::', port: 8_080 }],
    ['localhost:8080', { host: 'localhost', port: 8_080 }],
    ['', undefined],
  ])('%j is read and written back', (text, address) => {
    expect(parseListenAddress(text)).toEqual(address)
    expect(formatListenAddress(address)).toBe(text)
  })

  test.each([
    '15010',
    '127.0.0.1',
    '127.0.0.1:',
    '::1:80',
    '[127.0.0.1]:80',
    ':65536',
    ':-1',
    ':http',
    ' :80',
    'a b:80',
    '[]:80',
    '-a:80',
  ])('%j is refused', (text) => {
    expect(() => parseListenAddress(text)).toThrow(InvalidInput)
  })

  test('that is taken already stops the start and names the flag and the address', async () => {
    const first = createServer()
    const bound = await listen(first, { host: '127.0.0.1', port: 0 }, '--httpAddr')
    const second = createServer()
    const refused = listen(second, { host: '127.0.0.1', port: bound.port }, '--monitoringAddr')
    await expect(refused).rejects.toThrow(Fatal)
    await expect(refused).rejects.toThrow(`--monitoringAddr=127.0.0.1:${bound.port}: this address is in use`)
    await new Promise((resolve) => first.close(resolve))
  })

  test('that this machine does not have is said so', async () => {
    const refused = listen(createServer(), { host: '192.0.2.1', port: 0 }, '--grpcAddr')
    await expect(refused).rejects.toThrow('--grpcAddr=192.0.2.1:0: this machine has no such address')
  })
})

test('loopback is 127.0.0.0/8 and ::1, in every writing', () => {
  const texts = [
    '127.0.0.1',
    '127.9.9.9',
    '::1',
    '::ffff:127.0.0.1',
    '10.0.0.1',
    '::ffff:10.0.0.1',
    '::2',
    'fe80::1',
    '',
  ]
  expect(texts.filter((text) => isLoopback(text))).toEqual(['127.0.0.1', '127.9.9.9', '::1', '::ffff:127.0.0.1'])
})
