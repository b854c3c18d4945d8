// SPDX-License-Identifier: Apache-2.0
// Several ways of proving, tried in order; the first that succeeds wins. Turns failures into what a client is told: refused, or to come back later.

import type { Caller, Credentials } from '../base/caller.js'
import { ProtocolError, Retryable } from '../base/errors.js'
import type { Authenticator } from './verdict.js'

const UNAVAILABLE = 14
const UNAUTHENTICATED = 16

/**
 * Who calls. Rejects with ProtocolError: UNAUTHENTICATED when no way succeeded, UNAVAILABLE when one of them could not tell. Unforeseen
 * errors pass through.
 */
export async function proveCaller(ways: readonly Authenticator[], credentials: Credentials): Promise<Caller> {
  const reasons: string[] = []
  let outage: Retryable | undefined
  for (const way of ways) {
    try {
      const verdict = await way.judge(credentials)
      if (verdict.kind === 'caller') return verdict.caller
      if (verdict.kind === 'refused') reasons.push(`${way.name}: ${verdict.reason}`)
    } catch (error) {
      if (!(error instanceof Retryable)) throw error
      outage = error
    }
  }
  if (outage !== undefined) throw new ProtocolError(outage.message, UNAVAILABLE, outage)
  const why =
    reasons.length === 0 ? 'the call carries neither a bearer token nor a client certificate' : reasons.join('; ')
  throw new ProtocolError(`authentication failed: ${why}`, UNAUTHENTICATED)
}
