// SPDX-License-Identifier: Apache-2.0
// Tokens as a cluster makes them, and an API server's answers about them. The signature is none: whoever asks is believed about what was issued here.

import { randomBytes } from 'node:crypto'

export interface TokenClaims {
  readonly namespace: string
  readonly account: string
  /** Default istio-ca. */
  readonly audiences?: readonly string[]
  readonly pod?: { readonly name: string; readonly uid: string }
  /** Milliseconds since the epoch; default: never, which the token does not say then. */
  readonly expiresAtMs?: number
}

export class TokenIssuer {
  readonly #issued = new Map<string, TokenClaims>()
  readonly #now: () => number

  constructor(now: () => number = Date.now) {
    this.#now = now
  }

  /** A token like a JWT. */
  issue(claims: TokenClaims): string {
    const { expiresAtMs } = claims
    const payload = expiresAtMs === undefined ? {} : { exp: expiresAtMs / 1000 }
    const parts = [{ alg: 'none' }, payload].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    const token = [...parts, randomBytes(8).toString('base64url')].join('.')
    this.#issued.set(token, claims)
    return token
  }

  revoke(token: string): void {
    this.#issued.delete(token)
  }

  /** A TokenReview with its status, as Kubernetes fills it in. */
  review(review: any): any {
    const wanted: readonly string[] = review.spec.audiences
    const claims = this.#issued.get(review.spec.token)
    const audiences = (claims?.audiences ?? ['istio-ca']).filter((audience) => wanted.includes(audience))
    const isOver = (claims?.expiresAtMs ?? Infinity) <= this.#now()
    if (claims === undefined || isOver || audiences.length === 0) {
      return { ...review, status: { user: {}, error: 'invalid bearer token' } }
    }
    return { ...review, status: { authenticated: true, user: toUser(claims), audiences } }
  }
}

function toUser({ namespace, account, pod }: TokenClaims): object {
  const groups = ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated']
  const extra = pod && {
    'authentication.kubernetes.io/pod-name': [pod.name],
    'authentication.kubernetes.io/pod-uid': [pod.uid],
  }
  return { username: `system:serviceaccount:${namespace}:${account}`, uid: 'u', groups, ...(extra && { extra }) }
}
