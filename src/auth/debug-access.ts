// SPDX-License-Identifier: Apache-2.0
// Who may see the debug pages: this machine everything, the control plane's namespace and those that are named everything, other namespaces their own proxies.
// Judges requests; knows no page beyond its name.

import type { IncomingHttpHeaders } from 'node:http'
import type { Caller, Credentials } from '../base/caller.js'
import { ProtocolError } from '../base/errors.js'
import { parseSpiffeId } from '../base/spiffe.js'

const PERMISSION_DENIED = 7
const UNAUTHENTICATED = 16
const UNAVAILABLE = 14

/** Pages about one proxy, which people of the proxy's namespace may see. */
const proxyPages: ReadonlySet<string> = new Set(['config_dump'])

/** What of a page a caller sees. */
export type Sight =
  | { readonly kind: 'all' }
  /** Only proxies of this namespace. */
  | { readonly kind: 'namespace'; readonly namespace: string }
  /** An HTTP status. */
  | { readonly kind: 'refused'; readonly status: number }

/** An HTTP request as far as it is judged. */
export interface PageRequest {
  readonly headers: IncomingHttpHeaders
  readonly remoteAddress: string
  /** The peer is this machine. */
  readonly local: boolean
}

export interface DebugAccessOptions {
  readonly systemNamespace: string
  /** False: every proven caller sees everything over HTTP. */
  readonly byNamespace: boolean
  /** Namespaces that see everything besides the control plane's own. */
  readonly allowedNamespaces: ReadonlySet<string>
  /** Rejects with ProtocolError. */
  readonly prove: (credentials: Credentials) => Promise<Caller>
}

export interface DebugAccess {
  /** Over HTTP. `page` is the name behind `/debug/`. */
  judge(request: PageRequest, page: string): Promise<Sight>
  /** Over a discovery stream: throws ProtocolError unless one of the identities sees everything. */
  admit(identities: readonly string[]): void
}

export function createDebugAccess(options: DebugAccessOptions): DebugAccess {
  const { systemNamespace, allowedNamespaces, byNamespace, prove } = options
  const seesAll = (namespace: string | undefined): boolean =>
    namespace !== undefined && (namespace === systemNamespace || allowedNamespaces.has(namespace))
  return {
    async judge(request, page) {
      if (request.local) return { kind: 'all' }
      let caller: Caller
      try {
        caller = await prove(toCredentials(request))
      } catch (error) {
        if (!(error instanceof ProtocolError)) throw error
        return { kind: 'refused', status: error.status === UNAVAILABLE ? 503 : 401 }
      }
      const namespaces = caller.identities.map((identity) => parseSpiffeId(identity)?.namespace)
      if (!byNamespace || namespaces.some(seesAll)) return { kind: 'all' }
      const [namespace] = namespaces
      if (namespace === undefined || !proxyPages.has(page)) return { kind: 'refused', status: 403 }
      return { kind: 'namespace', namespace }
    },
    admit(identities) {
      if (identities.length === 0) throw new ProtocolError('authentication required', UNAUTHENTICATED)
      if (identities.some((identity) => seesAll(parseSpiffeId(identity)?.namespace))) return
      throw new ProtocolError(
        `the debug info is not available for current identity: ${identities.join(', ')}`,
        PERMISSION_DENIED,
      )
    },
  }
}

/** People's tools write `Istio TOKEN` as well. */
function toCredentials({ headers, remoteAddress }: PageRequest): Credentials {
  const { authorization } = headers
  const clusterId = headers['clusterid']
  return {
    peer: remoteAddress,
    secure: false,
    certificateUris: [],
    authorization: authorization?.replace(/^Istio /, 'Bearer '),
    clusterId: typeof clusterId === 'string' ? clusterId : clusterId?.join(', '),
  }
}
