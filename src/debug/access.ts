// SPDX-License-Identifier: Apache-2.0
// Who may see the debug pages: decided outside, asked here. Without a decider, callers of this machine alone.

import type { AdminRequest } from '../base/admin-http.js'
import { ProtocolError } from '../base/errors.js'
import { parseSpiffeId } from '../base/spiffe.js'

const PERMISSION_DENIED = 7
const UNAUTHENTICATED = 16

/** What of a page a caller sees. */
export type Sight =
  | { readonly kind: 'all' }
  /** Only proxies of this namespace. */
  | { readonly kind: 'namespace'; readonly namespace: string }
  /** An HTTP status. */
  | { readonly kind: 'refused'; readonly status: number }

export interface PageAccess {
  /** Over HTTP. `page` is the name behind `/debug/`. */
  judge(request: Pick<AdminRequest, 'headers' | 'remoteAddress' | 'local'>, page: string): Promise<Sight>
}

export interface TypeAccess {
  /** Over a discovery stream: throws ProtocolError unless one of the identities may see everything. */
  admit(identities: readonly string[]): void
}

/** Callers of this machine. */
export const localOnly: PageAccess = {
  judge: ({ local }) => Promise.resolve(local ? { kind: 'all' } : { kind: 'refused', status: 401 }),
}

/** Identities of one namespace. */
export function createNamespaceAccess(namespace: string): TypeAccess {
  return {
    admit(identities) {
      if (identities.length === 0) throw new ProtocolError('authentication required', UNAUTHENTICATED)
      if (identities.some((identity) => parseSpiffeId(identity)?.namespace === namespace)) return
      throw new ProtocolError(
        `the debug info is not available for current identity: ${identities.join(', ')}`,
        PERMISSION_DENIED,
      )
    },
  }
}
