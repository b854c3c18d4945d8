// SPDX-License-Identifier: Apache-2.0
// Who is who, made from the settings and the API server. For serve.ts. Sends token reviews, and reads nothing else.

import { createAuthentication, type Authentication } from '../auth/authentication.js'
import type { SendReview } from '../auth/token-review.js'
import type { Clock } from '../base/clock.js'
import type { Logger } from '../base/log.js'
import { readBody, type KubeApi } from '../kube/api.js'
import { selectJwtRules } from './identity-settings.js'
import type { Settings } from './settings-table.js'

export interface ServerAuthenticationOptions {
  readonly settings: Settings
  readonly clock: Clock
  readonly log: Logger
  /** Undefined: there is none. */
  readonly api: KubeApi | undefined
  /** Of the mesh configuration in force, asked at each call; the first one stands in identities that are made. */
  readonly trustDomains: () => readonly [string, ...string[]]
}

/** Give it to the discovery server as `access`, its `debug` to the pages and debug types; log its warnings. */
export function createServerAuthentication(options: ServerAuthenticationOptions): Authentication {
  const { settings, clock, log, api, trustDomains } = options
  return createAuthentication({
    clock,
    log,
    trustDomains,
    sendReview: api === undefined ? undefined : toSendReview(api),
    clusterId: settings.clusterId,
    systemNamespace: settings.systemNamespace,
    audiences: settings.tokenAudiences,
    jwtRules: selectJwtRules(settings),
    enabled: settings.xdsAuth,
    plaintext: settings.xdsAuthPlaintext,
    checksNode: settings.xdsIdentityCheck,
    trustedAccounts: settings.xdsTrustedAccounts,
    trustedNodeAccounts: settings.caTrustedNodeAccounts,
    debugByNamespace: settings.debugByNamespace,
    debugNamespaces: settings.debugNamespaces,
  })
}

const longestAnswer = 1024 * 1024

/** Reviews by this API server. */
export function toSendReview(api: KubeApi): SendReview {
  return async (review, signal) => {
    const request = { method: 'POST', path: '/apis/authentication.k8s.io/v1/tokenreviews', body: review } as const
    const response = await api.send({ ...request, contentType: 'application/json' }, signal)
    const body = await readBody(response, longestAnswer)
    return { status: response.status, body: body.toString() }
  }
}
