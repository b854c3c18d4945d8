// SPDX-License-Identifier: Apache-2.0
// Frames found again in whatever pieces they arrive, and refused before they are held.

import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { ProtocolError } from '../../src/base/errors.js'
import { FrameParser, formatStatusMessage, frameHeader, frameMessage } from '../../src/wire/grpc-frames.js'

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

test('a frame is a flag, a length and the parts', () => {
  expect([hex(frameMessage(Buffer.of(1, 2), Buffer.of(3))), hex(frameMessage()), hex(frameHeader(258))]).toEqual([
    '0000000003010203',
    '0000000000',
    '0000000102',
  ])
})

test('messages come out whole and in order, however the bytes are cut', () => {
  const sizes = fc.oneof(fc.constant(0), fc.nat(20), fc.nat(20_000))
  const cuts = fc.array(fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 30 }), fc.integer({ min: 1, max: 9000 })), {
    minLength: 1,
  })
  fc.assert(
    fc.property(fc.array(sizes, { maxLength: 6 }), cuts, (lengths, steps) => {
      const messages = lengths.map((length, i) => Buffer.alloc(length, i + 1))
      const stream = Buffer.concat(messages.map((message) => frameMessage(message)))
      const parser = new FrameParser(20_000)
      const found: string[] = []
      for (let at = 0, i = 0; at < stream.length; i++) {
        const end = at + (steps[i % steps.length] ?? 1)
        // A copy, spoilt afterwards: nothing but the messages that came out may look at it again.
        const chunk = Buffer.from(stream.subarray(at, end))
        for (const message of parser.push(chunk)) found.push(hex(message))
        chunk.fill(0xee)
        at = end
      }
      expect(found).toEqual(messages.map(hex))
      expect(parser.isInside).toBe(false)
    }),
  )
})

test('a stream that ends inside a message is seen', () => {
  const parser = new FrameParser(10)
  const states = [parser.isInside]
  for (const byte of frameMessage(Buffer.of(9))) {
    parser.push(Buffer.of(byte))
    states.push(parser.isInside)
  }
  expect(states).toEqual([false, true, true, true, true, true, false])
})

test('64 MiB in small chunks are put together', () => {
  const message = Buffer.alloc(64 * 1024 * 1024, 5)
  const stream = frameMessage(message)
  const parser = new FrameParser(message.length)
  const found: Uint8Array[] = []
  for (let at = 0; at < stream.length; at += 16_384) found.push(...parser.push(stream.subarray(at, at + 16_384)))
  expect(found.map((m) => Buffer.compare(m, message))).toEqual([0])
})

describe('is refused as soon as its prefix is there:', () => {
  const statusOf = (prefix: Uint8Array): number => {
    try {
      new FrameParser(100).push(prefix)
    } catch (error) {
      if (error instanceof ProtocolError) return error.status
    }
    return 0
  }

  test.each([
    ['a message that is too long (RESOURCE_EXHAUSTED)', '0000000065', 8],
    ['a message of 4 GiB (RESOURCE_EXHAUSTED)', '00ffffffff', 8],
    ['a compressed message (UNIMPLEMENTED)', '0100000001', 12],
    ['a prefix that is none (INTERNAL)', '5052492a20', 13],
  ])('%s', (_, prefix, status) => {
    expect(statusOf(Buffer.from(prefix, 'hex'))).toBe(status)
  })

  test('not the longest message that is taken', () => {
    expect(statusOf(Buffer.from('0000000064', 'hex'))).toBe(0)
  })
})

test('any text becomes a status message that fits a header, halves of characters and control characters too', () => {
  const text = fc.string({
    unit: fc.integer({ min: 0, max: 0xffff }).map((n) => String.fromCharCode(n)),
    maxLength: 1200,
  })
  fc.assert(
    fc.property(text, (message) => {
      const header = formatStatusMessage(message)
      expect(header).toMatch(/^[\x21-\x7e]*$/)
      expect(decodeURIComponent(header).length).toBeLessThanOrEqual(502)
    }),
    { examples: [['x' + '😀'.repeat(600)], ['😀'.repeat(600)]] },
  )
})
