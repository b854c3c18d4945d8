// SPDX-License-Identifier: Apache-2.0
// Everything about who calls, put together for composition roots: one call makes what streams, certificate requests and pages are judged by.

import type { Caller, Credentials } from '../base/caller.js'
import type { Clock } from '../base/clock.js'
import type { Logger } from '../base/log.js'
import type { AccountList } from '../base/service-accounts.js'
import { proveCaller } from './authenticator.js'
import { createClientCertificate } from './client-certificate.js'
import { createDebugAccess, type DebugAccess } from './debug-access.js'
import type { JwtRule } from './jwt-rule.js'
import { createJwt } from './jwt.js'
import type { FetchText } from './key-source.js'
import { createStreamPolicy, isOpenToAll, type StreamPolicy } from './stream-policy.js'
import { createTokenReview, type SendReview, type TokenReviewLimits } from './token-review.js'
import type { Authenticator } from './verdict.js'

export interface AuthenticationOptions {
  readonly clock: Clock
  readonly log: Logger
  readonly clusterId: string
  readonly systemNamespace: string
  /** Of the mesh configuration, asked at each call: the first one stands in identities that are made, every one is taken in certificates. */
  readonly trustDomains: () => readonly [string, ...string[]]
  /** Absent: there is no API server to ask. */
  readonly sendReview?: SendReview | undefined
  /** Not empty. */
  readonly audiences: readonly string[]
  /** Issuers whose signed tokens count without asking. */
  readonly jwtRules: readonly JwtRule[]
  /** XDS_AUTH: false asks nobody. */
  readonly enabled: boolean
  /** XDS_AUTH_PLAINTEXT: asks on plaintext connections as well. */
  readonly plaintext: boolean
  /** PILOT_ENABLE_XDS_IDENTITY_CHECK */
  readonly checksNode: boolean
  /** XDS_TRUSTED_ACCOUNTS */
  readonly trustedAccounts: AccountList
  /** CA_TRUSTED_NODE_ACCOUNTS */
  readonly trustedNodeAccounts: AccountList
  /** ENABLE_DEBUG_ENDPOINT_AUTH */
  readonly debugByNamespace: boolean
  /** DEBUG_ENDPOINT_AUTH_ALLOWED_NAMESPACES */
  readonly debugNamespaces: readonly string[]
  readonly reviewLimits?: Partial<TokenReviewLimits>
  readonly fetchText?: FetchText
}

export interface Authentication extends StreamPolicy {
  /** Undefined where nobody asks for proof. Otherwise who calls; rejects with ProtocolError (UNAUTHENTICATED, or UNAVAILABLE: try again). */
  authenticate(credentials: Credentials): Promise<Caller> | undefined
  readonly debug: DebugAccess
  /** What is more open than one may think, one sentence each, to be logged at the start. */
  readonly warnings: readonly string[]
}

/** Fits the discovery server's `access`, the pages' `access` and whoever serves certificates. */
export function createAuthentication(options: AuthenticationOptions): Authentication {
  const ways = createWays(options)
  const prove = (credentials: Credentials): Promise<Caller> => proveCaller(ways, credentials)
  return {
    ...createStreamPolicy(options),
    authenticate(credentials) {
      if (!options.enabled || (!credentials.secure && !options.plaintext)) return undefined
      return prove(credentials)
    },
    debug: createDebugAccess({
      systemNamespace: options.systemNamespace,
      byNamespace: options.debugByNamespace,
      allowedNamespaces: new Set(options.debugNamespaces),
      prove,
    }),
    warnings: selectWarnings(options),
  }
}

/** In the order in which they are tried. */
function createWays(options: AuthenticationOptions): readonly Authenticator[] {
  const { clock, log, trustDomains, audiences, clusterId, sendReview, fetchText, reviewLimits } = options
  const trustDomain = (): string => trustDomains()[0]
  const ways = [createClientCertificate(trustDomains)]
  for (const given of options.jwtRules) {
    const rule = given.audiences.length > 0 ? given : { ...given, audiences }
    ways.push(createJwt({ rule, clock, log, trustDomain, ...(fetchText === undefined ? {} : { fetchText }) }))
  }
  if (sendReview !== undefined) {
    const limits = reviewLimits === undefined ? {} : { limits: reviewLimits }
    ways.push(createTokenReview({ send: sendReview, clock, log, audiences, clusterId, trustDomain, ...limits }))
  }
  return ways
}

function selectWarnings(options: AuthenticationOptions): string[] {
  const warnings: string[] = []
  const { trustedAccounts, trustedNodeAccounts } = options
  const isOpen = isOpenToAll(options)
  if (!options.enabled) {
    warnings.push(
      isOpen
        ? 'XDS_AUTH is false: whoever reaches the TLS port may read the addresses of the whole mesh, and no certificate is signed'
        : 'XDS_AUTH is false, so that no account can be told from another: the TLS port gives no addresses to anybody while XDS_TRUSTED_ACCOUNTS or CA_TRUSTED_NODE_ACCOUNTS names accounts',
    )
  } else if (isOpen) {
    warnings.push(
      'every service account may read the addresses of the whole mesh on the TLS port; set XDS_TRUSTED_ACCOUNTS (or CA_TRUSTED_NODE_ACCOUNTS) to the accounts of the proxies',
    )
  }
  if (options.enabled && options.sendReview === undefined && options.jwtRules.length === 0) {
    warnings.push(
      'no bearer token can be checked: there is no API server to ask and no TOKEN_ISSUER or JWT_RULE; only client certificates count',
    )
  }
  if (!options.checksNode) {
    warnings.push(
      'PILOT_ENABLE_XDS_IDENTITY_CHECK is false: a proven caller may say that it is a node of any namespace',
    )
  }
  if (!options.debugByNamespace) {
    warnings.push('ENABLE_DEBUG_ENDPOINT_AUTH is false: every proven caller may read all debug pages')
  }
  for (const { keys } of options.jwtRules) {
    if (keys.kind === 'url' && keys.url.startsWith('http:')) {
      warnings.push(
        `the keys of a token issuer come over plain http (${keys.url}): whoever stands in between can make tokens`,
      )
    }
  }
  const lists = { XDS_TRUSTED_ACCOUNTS: trustedAccounts, CA_TRUSTED_NODE_ACCOUNTS: trustedNodeAccounts }
  for (const [name, { malformed }] of Object.entries(lists)) {
    if (malformed.length > 0) {
      warnings.push(
        `${name}: ${malformed.map((entry) => `"${entry}"`).join(', ')} passed over; an account is written NAMESPACE/NAME`,
      )
    }
  }
  return warnings
}
