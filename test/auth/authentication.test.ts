// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { createAuthentication, type AuthenticationOptions } from '../../src/auth/authentication.js'
import type { Credentials } from '../../src/base/caller.js'
import { systemClock } from '../../src/base/clock.js'
import { silentLogger } from '../../src/base/log.js'
import { parseAccountList } from '../../src/base/service-accounts.js'
import { TokenIssuer } from './tokens.js'

const issuer = new TokenIssuer()
const authentication = (more: Partial<AuthenticationOptions> = {}) =>
  createAuthentication({
    clock: systemClock,
    log: silentLogger,
    clusterId: 'Kubernetes',
    systemNamespace: 'istio-system',
    trustDomains: () => ['cluster.local'],
    sendReview: (review) => Promise.resolve({ status: 201, body: JSON.stringify(issuer.review(JSON.parse(review))) }),
    audiences: ['istio-ca'],
    jwtRules: [],
    enabled: true,
    plaintext: false,
    checksNode: true,
    trustedAccounts: parseAccountList('istio-system/ztunnel'),
    trustedNodeAccounts: parseAccountList(''),
    debugByNamespace: true,
    debugNamespaces: [],
    ...more,
  })

const call = (more: Partial<Credentials>): Credentials => ({
  peer: '',
  secure: true,
  certificateUris: [],
  authorization: undefined,
  clusterId: undefined,
  ...more,
})

describe('who is asked for proof', () => {
  const token = issuer.issue({ namespace: 'a', account: 'b' })
  const authorization = `Bearer ${token}`
  const uri = 'spiffe://cluster.local/ns/c/sa/d'

  test('callers over TLS, by token or certificate; the certificate beats the token [2.5]', async () => {
    const made = authentication()
    expect((await made.authenticate(call({ authorization })))?.identities).toEqual(['spiffe://cluster.local/ns/a/sa/b'])
    expect((await made.authenticate(call({ authorization, certificateUris: [uri] })))?.identities).toEqual([uri])
    await expect(made.authenticate(call({}))).rejects.toMatchObject({ status: 16 })
  })

  test('a certificate that is no good leaves the token to prove the caller', async () => {
    const made = authentication()
    const foreign = ['spiffe://evil/ns/istio-system/sa/ztunnel']
    const proven = await made.authenticate(call({ authorization, certificateUris: foreign }))
    expect(proven?.identities).toEqual(['spiffe://cluster.local/ns/a/sa/b'])
    await expect(made.authenticate(call({ certificateUris: foreign }))).rejects.toMatchObject({ status: 16 })
  })

  test('nobody in plaintext, unless XDS_AUTH_PLAINTEXT says so', async () => {
    expect(authentication().authenticate(call({ secure: false, authorization }))).toBeUndefined()
    const made = authentication({ plaintext: true })
    await expect(made.authenticate(call({ secure: false }))).rejects.toMatchObject({ status: 16 })
  })

  test('nobody at all when XDS_AUTH is false', () => {
    expect(authentication({ enabled: false, plaintext: true }).authenticate(call({}))).toBeUndefined()
  })

  test('a rule without audiences takes tokens for those that count everywhere', async () => {
    const jwtRules = [{ issuer: 'i', audiences: [], keys: { kind: 'text' as const, text: '{"keys":[]}' } }]
    const made = authentication({ jwtRules, sendReview: undefined })
    const signed = `${Buffer.from('{"alg":"ES256"}').toString('base64url')}.${Buffer.from('{"iss":"i"}').toString('base64url')}.AAAA`
    await expect(made.authenticate(call({ authorization: `Bearer ${signed}` }))).rejects.toMatchObject({
      status: 16,
      message: 'authentication failed: signed token: the token is signed by no key of its issuer',
    })
  })
})

describe('what is open is said at the start', () => {
  const none = parseAccountList('')
  test.each<[string, Partial<AuthenticationOptions>, readonly string[]]>([
    ['nothing when accounts are named', {}, []],
    ['nothing when node accounts are', { trustedAccounts: none, trustedNodeAccounts: parseAccountList('a/b') }, []],
    [
      'every account may read the mesh',
      { trustedAccounts: none },
      [
        'every service account may read the addresses of the whole mesh on the TLS port; set XDS_TRUSTED_ACCOUNTS (or CA_TRUSTED_NODE_ACCOUNTS) to the accounts of the proxies',
      ],
    ],
    [
      'everybody may',
      { trustedAccounts: none, enabled: false },
      [
        'XDS_AUTH is false: whoever reaches the TLS port may read the addresses of the whole mesh, and no certificate is signed',
      ],
    ],
    [
      'nobody may',
      { enabled: false },
      [
        'XDS_AUTH is false, so that no account can be told from another: the TLS port gives no addresses to anybody while XDS_TRUSTED_ACCOUNTS or CA_TRUSTED_NODE_ACCOUNTS names accounts',
      ],
    ],
    [
      'tokens cannot be checked',
      { sendReview: undefined },
      [
        'no bearer token can be checked: there is no API server to ask and no TOKEN_ISSUER or JWT_RULE; only client certificates count',
      ],
    ],
    [
      'checks that were turned off',
      { checksNode: false, debugByNamespace: false },
      [
        'PILOT_ENABLE_XDS_IDENTITY_CHECK is false: a proven caller may say that it is a node of any namespace',
        'ENABLE_DEBUG_ENDPOINT_AUTH is false: every proven caller may read all debug pages',
      ],
    ],
    [
      'keys that anybody on the way could change',
      { jwtRules: [{ issuer: 'i', audiences: [], keys: { kind: 'url', url: 'http://keys/' } }] },
      ['the keys of a token issuer come over plain http (http://keys/): whoever stands in between can make tokens'],
    ],
    [
      'accounts that cannot be read',
      { trustedNodeAccounts: parseAccountList('ztunnel, a/b/c,x/y') },
      ['CA_TRUSTED_NODE_ACCOUNTS: "ztunnel", "a/b/c" passed over; an account is written NAMESPACE/NAME'],
    ],
  ])('%s', (_what, more, warnings) => expect(authentication(more).warnings).toEqual(warnings))
})
