// SPDX-License-Identifier: Apache-2.0
import { createPublicKey, generateKeyPairSync } from 'node:crypto'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { InvalidInput } from '../../src/base/errors.js'
import { parsePem, formatPem } from '../../src/ca/pem.js'
import { parseSigningRequest } from '../../src/ca/signing-request.js'
import { keyOf, makeRequest } from './material.js'
import type { KeyKind, RequestOptions } from './material.js'

const spkiOf = (kind: KeyKind): Buffer => createPublicKey(keyOf(kind)).export({ type: 'spki', format: 'der' })

describe('a signing request', () => {
  for (const kind of ['p256', 'p384', 'rsa2048', 'rsa3072', 'ed25519'] as const) {
    test(`with a key of the kind ${kind} gives that key and nothing else`, async () => {
      const parsed = await parseSigningRequest(makeRequest({ key: keyOf(kind), asksForAuthority: true }))
      expect(parsed).toEqual({ publicKey: spkiOf(kind), hasCommonName: false })
    })
  }

  const digests: readonly RequestOptions[] = [
    { digest: 'sha384' },
    { digest: 'sha512' },
    { key: keyOf('rsa2048'), digest: 'sha512' },
  ]
  test.each(digests)('may be signed with a longer digest', async (options) => {
    await expect(parseSigningRequest(makeRequest(options))).resolves.toMatchObject({ hasCommonName: false })
  })

  test.each([
    ['CN=me', true],
    ['O=me', false],
    ['CN=', false],
  ])('with the subject %s has a common name: %s', async (subject, hasCommonName) => {
    expect((await parseSigningRequest(makeRequest({ subject }))).hasCommonName).toBe(hasCommonName)
  })

  const weak: readonly (readonly [string, RequestOptions, RegExp])[] = [
    ['a curve of 224 bits', { key: keyOf('p224') }, /secp224r1 is not allowed/],
    ['a curve of 521 bits', { key: keyOf('p521') }, /secp521r1 is not allowed/],
    ['RSA of 1024 bits', { key: keyOf('rsa1024') }, /RSA key of 1024 bits/],
    ['SHA-1 under ECDSA', { digest: 'sha1' }, /not signed as it must be/],
    ['SHA-1 under RSA', { key: keyOf('rsa2048'), digest: 'sha1' }, /not signed as it must be/],
    ['a signature by another kind of key', { publicKey: spkiOf('rsa2048') }, /not signed as it must be/],
    [
      'a curve written out in numbers',
      {
        publicKey: generateKeyPairSync('ec', { namedCurve: 'prime256v1', paramEncoding: 'explicit' }).publicKey.export({
          type: 'spki',
          format: 'der',
        }),
      },
      /not allowed/,
    ],
  ]
  test.each(weak)('with %s is refused', async (_what, options, words) => {
    const refused = parseSigningRequest(makeRequest(options))
    await expect(refused).rejects.toThrow(words)
    await expect(refused).rejects.toBeInstanceOf(InvalidInput)
  })

  test('for the public key of somebody else is refused', async () => {
    const theirs = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey.export({ type: 'spki', format: 'der' })
    await expect(parseSigningRequest(makeRequest({ publicKey: theirs }))).rejects.toThrow(/does not fit its key/)
  })

  test('with any byte of it changed is refused, or says the same', async () => {
    const pem = makeRequest({ subject: 'CN=me' })
    const [block] = parsePem(pem)
    const honest = await parseSigningRequest(pem)
    await fc.assert(
      fc.asyncProperty(fc.nat(block!.der.length - 1), fc.integer({ min: 1, max: 255 }), async (at, change) => {
        const der = Buffer.from(block!.der)
        der[at] = der.readUInt8(at) ^ change
        try {
          expect(await parseSigningRequest(formatPem('CERTIFICATE REQUEST', der))).toEqual(honest)
        } catch (error) {
          if (!(error instanceof InvalidInput)) throw error
        }
      }),
      { numRuns: 300 },
    )
  })

  test('of arbitrary bytes is refused as invalid input, whatever they are', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ minLength: 1, maxLength: 300 }), async (bytes) => {
        await expect(parseSigningRequest(formatPem('X', bytes))).rejects.toBeInstanceOf(InvalidInput)
      }),
      { numRuns: 100 },
    )
  })

  test.each([
    ['', /not in PEM form/],
    ['text', /not in PEM form/],
    ['-----BEGIN CERTIFICATE REQUEST-----\n!!!\n-----END CERTIFICATE REQUEST-----\n', /not in PEM form/],
    [formatPem('CERTIFICATE REQUEST', Buffer.from('nonsense')), /no PKCS#10/],
    ['x'.repeat(40_000), /more than 32768/],
  ])('that is none (%#) is refused with what is wrong', async (text, words) => {
    await expect(parseSigningRequest(text)).rejects.toThrow(words)
  })

  test('followed by further bytes inside its PEM block is refused', async () => {
    const [block] = parsePem(makeRequest())
    const longer = formatPem('CERTIFICATE REQUEST', Buffer.concat([block!.der, Buffer.from([0])]))
    await expect(parseSigningRequest(longer)).rejects.toThrow(/no PKCS#10/)
  })
})
