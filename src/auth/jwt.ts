// SPDX-License-Identifier: Apache-2.0
// Bearer tokens judged by signature: for meshes without an API server to ask. Takes asymmetric signatures of one issuer only; keeps no token.

import type * as JoseModule from 'jose'
import type { JWTPayload } from 'jose'
import type { Credentials } from '../base/caller.js'
import { selectBearer } from './bearer-token.js'
import { KeySource, type KeySourceOptions } from './key-source.js'
import { parseServiceAccountUser, toTokenCaller, type BoundPod } from './service-account.js'
import { absent, refuse, type Authenticator, type Verdict } from './verdict.js'

export interface JwtOptions extends KeySourceOptions {
  /** Of the identities that are made, at each call. */
  readonly trustDomain: () => string
}

type Jose = typeof JoseModule

/** Whoever knows a public key could sign with it as a secret: symmetric signatures are not among these. */
const algorithms = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519']

/** Of the token's subject `system:serviceaccount:<namespace>:<name>`; of the pod that a Kubernetes token is bound to. */
export function createJwt(options: JwtOptions): Authenticator {
  const keys = new KeySource(options)
  return {
    name: 'signed token',
    async judge({ authorization }: Credentials): Promise<Verdict> {
      if (authorization === undefined) return absent
      const token = selectBearer(authorization)
      if (token === undefined) return refuse('the authorization header is not written "Bearer TOKEN"')
      // Most servers have no issuer: what reads its tokens is loaded with the first one.
      const jose = await import('jose')
      if (readIssuer(jose, token) !== options.rule.issuer) return refuse('the token is of another issuer')
      const verified = await verify(jose, token, keys, options)
      return typeof verified === 'string' ? refuse(verified) : judgeClaims(verified, options.trustDomain())
    },
  }
}

/** Before anything is fetched or verified. */
function readIssuer(jose: Jose, token: string): string | undefined {
  try {
    return jose.decodeJwt(token).iss
  } catch {
    // No token of this kind: nobody's.
    return undefined
  }
}

/** The claims of a good token, or why it is none. */
async function verify(jose: Jose, token: string, source: KeySource, options: JwtOptions): Promise<JWTPayload | string> {
  const { rule, clock } = options
  const read = async (): Promise<JWTPayload> => {
    const { payload } = await jose.jwtVerify(token, jose.createLocalJWKSet(await source.keys()), {
      issuer: rule.issuer,
      audience: [...rule.audiences],
      algorithms,
      currentDate: new Date(clock.now()),
      requiredClaims: ['exp', 'sub'],
    })
    return payload
  }
  try {
    try {
      return await read()
    } catch (error) {
      // Issuers change their keys: perhaps this one is new.
      if (error instanceof jose.errors.JWKSNoMatchingKey && (await source.renew())) return await read()
      throw error
    }
  } catch (error) {
    if (!(error instanceof jose.errors.JOSEError)) throw error
    return toReason(jose, error, rule.audiences)
  }
}

function toReason(jose: Jose, error: InstanceType<Jose['errors']['JOSEError']>, audiences: readonly string[]): string {
  if (error instanceof jose.errors.JWTExpired) return 'the token has expired'
  if (error instanceof jose.errors.JWTClaimValidationFailed) {
    return error.claim === 'aud'
      ? `the token is not for audience ${audiences.join(' or ')}`
      : `the claim ${error.claim} of the token does not hold`
  }
  if (error instanceof jose.errors.JWKSNoMatchingKey) return 'the token is signed by no key of its issuer'
  return 'the signature of the token does not hold'
}

function judgeClaims(claims: JWTPayload, trustDomain: string): Verdict {
  const account = parseServiceAccountUser(claims.sub ?? '')
  const caller = account && toTokenCaller(account, selectPod(claims, account.namespace), trustDomain, 'oidc')
  if (caller === undefined) return refuse('the token is not one of a service account')
  return { kind: 'caller', caller }
}

/** As Kubernetes writes it into the tokens that it binds to pods. */
function selectPod(claims: JWTPayload, namespace: string): BoundPod | undefined {
  const bound = claims['kubernetes.io'] as
    { namespace?: unknown; pod?: { name?: unknown; uid?: unknown } } | null | undefined
  const { name, uid } = bound?.pod ?? {}
  if (bound?.namespace !== namespace || typeof name !== 'string' || typeof uid !== 'string') return undefined
  return name === '' || uid === '' ? undefined : { name, uid }
}
