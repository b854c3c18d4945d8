// SPDX-License-Identifier: Apache-2.0
// What one way of proving says of a call. Ways that cannot tell at the moment reject with Retryable instead, so that nobody is denied for an outage.

import type { Caller, Credentials } from '../base/caller.js'

export type Verdict =
  | { readonly kind: 'caller'; readonly caller: Caller }
  /** The proof was looked at and is not good. `reason` is a clause without anything of the proof itself. */
  | { readonly kind: 'refused'; readonly reason: string }
  /** There is nothing of this kind in the call. */
  | { readonly kind: 'absent' }

export interface Authenticator {
  /** For logs and sentences: `client certificate`. */
  readonly name: string
  /** Rejects with Retryable when it cannot tell now. */
  judge(credentials: Credentials): Promise<Verdict>
}

export const absent: Verdict = { kind: 'absent' }

export function refuse(reason: string): Verdict {
  return { kind: 'refused', reason }
}
