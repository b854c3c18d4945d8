// SPDX-License-Identifier: Apache-2.0
// Bearer tokens as text: out of a header, and the little that may be read of one before it is verified. Never keeps or prints one.

import { createHash } from 'node:crypto'

/** The token of `Bearer <token>`, exactly so written; undefined without one. */
export function selectBearer(authorization: string | undefined): string | undefined {
  return /^Bearer ([^\s]+)$/.exec(authorization ?? '')?.[1]
}

/** Stands for a token as a key, so that none is held in memory longer than its call. */
export function hashToken(token: string): string {
  return createHash('sha256').update(token).digest('base64')
}

/**
 * When a token says that it expires, milliseconds since the epoch; undefined when it does not say so in the way of a JWT. Not verified: fit
 * for forgetting earlier, never for trusting longer.
 */
export function readExpiryMs(token: string): number | undefined {
  const payload = token.split('.')[1]
  if (payload === undefined) return undefined
  try {
    const claims: unknown = JSON.parse(Buffer.from(payload, 'base64url').toString())
    const expires = typeof claims === 'object' && claims !== null && 'exp' in claims ? claims.exp : undefined
    return typeof expires === 'number' ? expires * 1000 : undefined
  } catch {
    // Not a JWT.
    return undefined
  }
}
