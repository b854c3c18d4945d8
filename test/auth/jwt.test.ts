// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import * as jose from 'jose'
import { parseJwtRule, parseKeyPlace, type JwtRule, type KeyPlace } from '../../src/auth/jwt-rule.js'
import { createJwt } from '../../src/auth/jwt.js'
import type { FetchText } from '../../src/auth/key-source.js'
import type { Authenticator, Verdict } from '../../src/auth/verdict.js'
import type { Credentials } from '../../src/base/caller.js'
import { Retryable } from '../../src/base/errors.js'
import { FakeClock } from '../support/fake-clock.js'
import { CollectedLog } from '../xds/collected-log.js'

const issuer = 'https://issuer.test'
const folder = mkdtempSync(join(tmpdir(), 'addressd-keys-'))
afterAll(() => rmSync(folder, { recursive: true }))

interface Signer {
  readonly publicKey: jose.JWK
  readonly privateKey: jose.CryptoKey
  readonly alg: string
}

async function createSigner(kid: string, alg: string): Promise<Signer> {
  const { publicKey, privateKey } = await jose.generateKeyPair(alg, { extractable: true })
  return { publicKey: { ...(await jose.exportJWK(publicKey)), kid, alg }, privateKey, alg }
}

let first: Signer
let second: Signer
beforeAll(async () => {
  first = await createSigner('first', 'ES256')
  second = await createSigner('second', 'RS256')
})

const set = (...signers: readonly Signer[]): string =>
  JSON.stringify({ keys: signers.map(({ publicKey }) => publicKey) })

const clock = new FakeClock()
const nowSeconds = (): number => clock.now() / 1000

async function sign(signer: Signer, claims: Record<string, unknown> = {}): Promise<string> {
  const standard = {
    iss: issuer,
    aud: 'istio-ca',
    sub: 'system:serviceaccount:istio-system:ztunnel',
    exp: nowSeconds() + 60,
  }
  const header = { alg: signer.alg, kid: String(signer.publicKey.kid) }
  return await new jose.SignJWT({ ...standard, ...claims }).setProtectedHeader(header).sign(signer.privateKey)
}

interface Started {
  readonly way: Authenticator
  readonly log: CollectedLog
  readonly judge: (token: string, more?: Partial<Credentials>) => Promise<Verdict>
}

function start(
  keys: KeyPlace,
  more: { readonly rule?: Partial<JwtRule>; readonly fetchText?: FetchText } = {},
): Started {
  const log = new CollectedLog()
  const rule = { issuer, audiences: ['istio-ca'], keys, ...more.rule }
  const { fetchText } = more
  const way = createJwt({ rule, clock, log, trustDomain: () => 'mesh@test', ...(fetchText && { fetchText }) })
  return {
    way,
    log,
    judge: (token, credentials = {}) =>
      way.judge({
        peer: '',
        secure: true,
        certificateUris: [],
        authorization: `Bearer ${token}`,
        clusterId: 'any',
        ...credentials,
      }),
  }
}

const accepted = (more: object = {}): Verdict => ({
  kind: 'caller',
  caller: {
    identities: ['spiffe://mesh.test/ns/istio-system/sa/ztunnel'],
    kubernetes: { namespace: 'istio-system', serviceAccount: 'ztunnel', ...more },
    source: 'oidc',
  },
})
const refused = (reason: string): Verdict => ({ kind: 'refused', reason })

describe('a signed token', () => {
  const startText = (): Started => start({ kind: 'text', text: set(first, second) })

  test('of the issuer, for the audience, proves the service account', async () => {
    const { judge } = startText()
    for (const signer of [first, second]) expect(await judge(await sign(signer))).toEqual(accepted())
  })

  test('of Kubernetes brings the pod that it is bound to', async () => {
    const pod = { name: 'ztunnel-a', uid: 'uid-a' }
    const { judge } = startText()
    const of = async (bound: unknown): Promise<Verdict> => await judge(await sign(first, { 'kubernetes.io': bound }))
    expect(await of({ namespace: 'istio-system', pod })).toEqual(accepted({ podName: 'ztunnel-a', podUid: 'uid-a' }))
    for (const bound of [
      { namespace: 'a', pod },
      { namespace: 'istio-system' },
      { namespace: 'istio-system', pod: { name: 'x' } },
      null,
    ]) {
      expect(await of(bound)).toEqual(accepted())
    }
  })

  test.each<[string, Record<string, unknown>, string]>([
    ['for another audience', { aud: 'other' }, 'the token is not for audience istio-ca'],
    ['for no audience', { aud: undefined }, 'the token is not for audience istio-ca'],
    ['that has expired', { exp: nowSeconds() }, 'the token has expired'],
    ['that never expires', { exp: undefined }, 'the claim exp of the token does not hold'],
    ['that is not valid yet', { nbf: nowSeconds() + 60 }, 'the claim nbf of the token does not hold'],
    ['of another issuer', { iss: 'https://other.test' }, 'the token is of another issuer'],
    ['of no issuer', { iss: undefined }, 'the token is of another issuer'],
    ['without subject', { sub: undefined }, 'the claim sub of the token does not hold'],
    ['of a person', { sub: 'jane' }, 'the token is not one of a service account'],
    ['of a name like a path', { sub: 'system:serviceaccount:a:b/c' }, 'the token is not one of a service account'],
  ])('%s is refused', async (_what, claims, reason) => {
    expect(await startText().judge(await sign(first, claims))).toEqual(refused(reason))
  })

  test('signed by somebody else under a known name is refused', async () => {
    const impostor = await createSigner('first', 'ES256')
    expect(await startText().judge(await sign(impostor))).toEqual(refused('the signature of the token does not hold'))
  })

  test('signed with the public key as a secret, or not at all, is refused', async () => {
    const secret = new TextEncoder().encode(JSON.stringify(first.publicKey))
    const claims = { iss: issuer, aud: 'istio-ca', sub: 'system:serviceaccount:a:b', exp: nowSeconds() + 60 }
    const symmetric = await new jose.SignJWT(claims).setProtectedHeader({ alg: 'HS256', kid: 'first' }).sign(secret)
    const unsigned = new jose.UnsecuredJWT(claims).encode()
    for (const token of [symmetric, unsigned]) {
      expect(await startText().judge(token)).toEqual(refused('the signature of the token does not hold'))
    }
  })

  test('that is no JWT is nobody’s, and a call without one proves nothing', async () => {
    const { judge } = startText()
    expect(await judge('garbage')).toEqual(refused('the token is of another issuer'))
    expect(await judge('', { authorization: undefined })).toEqual({ kind: 'absent' })
    expect(await judge('', { authorization: 'bearer x' })).toEqual(
      refused('the authorization header is not written "Bearer TOKEN"'),
    )
  })
})

describe('the keys of the issuer', () => {
  test('are read from a file, and again when a token names a key that is not among them', async () => {
    const path = join(folder, 'keys.json')
    writeFileSync(path, set(first))
    const { judge } = start({ kind: 'file', path })
    expect(await judge(await sign(first))).toEqual(accepted())
    writeFileSync(path, set(second))
    // Not at once: strangers could name unknown keys all day.
    expect(await judge(await sign(second))).toEqual(refused('the token is signed by no key of its issuer'))
    await clock.advance(10_000)
    expect(await judge(await sign(second))).toEqual(accepted())
    expect(await judge(await sign(first))).toEqual(refused('the token is signed by no key of its issuer'))
  })

  test('are fetched from an address, once for all who ask, and again when they are old', async () => {
    const fetched: string[] = []
    const fetchText: FetchText = (url) => {
      fetched.push(url)
      return Promise.resolve(set(first))
    }
    const { judge } = start({ kind: 'url', url: 'https://keys.test/' }, { fetchText })
    const token = await sign(first, { exp: nowSeconds() + 3_600 })
    await Promise.all([judge(token), judge(token), judge(token)])
    expect(fetched).toEqual(['https://keys.test/'])
    await clock.advance(10 * 60_000 + 1)
    expect(await judge(token)).toEqual(accepted())
    expect(fetched).toHaveLength(2)
  })

  test('stay as they were while newer ones cannot be had', async () => {
    let isAway = false
    const fetchText: FetchText = () => (isAway ? Promise.reject(new Error('away')) : Promise.resolve(set(first)))
    const { judge, log } = start({ kind: 'url', url: 'https://keys.test/' }, { fetchText })
    const token = await sign(first, { exp: nowSeconds() + 3_600 })
    await judge(token)
    isAway = true
    await clock.advance(20 * 60_000)
    expect(await judge(token)).toEqual(accepted())
    expect(log.records).toEqual([
      { level: 'warn', fields: { issuer, error: 'away' }, message: 'the keys of a token issuer cannot be had' },
    ])
  })

  test('that were never had leave a token unjudged: the caller is to come back', async () => {
    for (const fetchText of [
      () => Promise.reject(new Error('away')),
      () => Promise.resolve('<html>'),
      () => Promise.resolve('{"keys":7}'),
    ] as FetchText[]) {
      const { judge } = start({ kind: 'url', url: 'https://keys.test/' }, { fetchText })
      await expect(judge(await sign(first))).rejects.toThrow(Retryable)
    }
  })

  test('that do not come are given up for the moment', async () => {
    const fetchText: FetchText = (_url, signal) =>
      new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)))
    const { judge } = start({ kind: 'url', url: 'https://keys.test/' }, { fetchText })
    const end = judge(await sign(first, { exp: nowSeconds() + 600 })).catch(String)
    await new Promise((resolve) => setTimeout(resolve, 0))
    await clock.advance(5_000)
    expect(await end).toBe('Retryable: tokens cannot be checked: the keys of the issuer cannot be had')
  })

  test('are found by asking the issuer', async () => {
    const documents: Record<string, unknown> = {
      [`${issuer}/.well-known/openid-configuration`]: { issuer, jwks_uri: 'https://keys.test/set' },
      'https://keys.test/set': JSON.parse(set(first)),
    }
    const fetchText: FetchText = (url) => Promise.resolve(JSON.stringify(documents[url]))
    expect(await start({ kind: 'discovery' }, { fetchText }).judge(await sign(first))).toEqual(accepted())
    documents[`${issuer}/.well-known/openid-configuration`] = {
      issuer: 'https://other.test',
      jwks_uri: 'https://keys.test/set',
    }
    await expect(start({ kind: 'discovery' }, { fetchText }).judge(await sign(first))).rejects.toThrow(Retryable)
  })

  test('come over HTTP with status 200, without being sent elsewhere, and not without end', async () => {
    const answers: Record<string, (response: ServerResponse) => void> = {
      '/good': (response) => response.end(set(first)),
      '/moved': (response) => response.writeHead(302, { location: '/good' }).end(),
      '/missing': (response) => response.writeHead(404).end(set(first)),
      '/endless': (response) => response.end(Buffer.alloc(2 * 1024 * 1024, ' ')),
    }
    const server = createServer((request, response) => answers[request.url ?? '']?.(response))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const of = async (path: string): Promise<unknown> => {
      const { judge } = start({ kind: 'url', url: `http://127.0.0.1:${port}${path}` })
      return await judge(await sign(first)).then(
        ({ kind }) => kind,
        (error: unknown) => error instanceof Retryable,
      )
    }
    try {
      expect([await of('/good'), await of('/moved'), await of('/missing'), await of('/endless')]).toEqual([
        'caller',
        true,
        true,
        true,
      ])
    } finally {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    }
  })
})

describe('a rule as text', () => {
  test.each<[string, JwtRule]>([
    ['{"issuer":"https://i"}', { issuer: 'https://i', audiences: [], keys: { kind: 'discovery' } }],
    [
      '{"issuer":"i","audiences":["a"],"jwksUri":"https://k"}',
      { issuer: 'i', audiences: ['a'], keys: { kind: 'url', url: 'https://k' } },
    ],
    ['{"issuer":"i","jwks_uri":"file:///k"}', { issuer: 'i', audiences: [], keys: { kind: 'file', path: '/k' } }],
    ['{"issuer":"i","jwks":"{}","jwksUri":"x"}', { issuer: 'i', audiences: [], keys: { kind: 'text', text: '{}' } }],
  ])('%s', (text, rule) => expect(parseJwtRule(text)).toEqual(rule))

  test.each([
    ['no', 'the rule is not JSON'],
    ['[]', 'the rule is not a JSON object'],
    ['{}', 'the rule has no issuer'],
    ['{"issuer":"i"}', 'the issuer "i" is no URL that keys could be had from; say where they are'],
    ['{"issuer":"i","audiences":"a"}', 'audiences must be a list of texts'],
    ['{"issuer":"i","jwksUri":7}', 'jwksUri and jwks must be texts'],
    ['{"issuer":"i","jwksUri":"ftp://k"}', '"ftp://k" is neither an http or https URL nor a file'],
  ])('%s is none', (text, message) => expect(() => parseJwtRule(text)).toThrow(message))

  test('a relative path is a file', () =>
    expect(parseKeyPlace('keys.json', 'i')).toEqual({ kind: 'file', path: 'keys.json' }))
})
