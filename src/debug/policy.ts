// SPDX-License-Identifier: Apache-2.0
// Authorization policies as people read them. For answers, lists and debug pages. Judges nothing.

import { toAuthorizationJson, type AuthorizationJson } from '../wire/authorization-json.js'
import { decodeEntry } from '../wire/entry.js'
import type { PolicyRow } from '../wire/inspect.js'
import type { Resource } from '../xds/source.js'

/** What is served as this policy, addresses as text; undefined when it is never written. */
export function decodePolicy(resource: Resource): AuthorizationJson | undefined {
  if (resource.entry === undefined) return undefined
  return toAuthorizationJson(decodeEntry(resource.entry).body, { ip: 'text' })
}

/** A row without the whole resource. Action and scope by name, the defaults too. */
export function toPolicyRow(policy: AuthorizationJson): PolicyRow {
  return {
    namespace: policy.namespace ?? '',
    name: policy.name ?? '',
    action: policy.action ?? 'ALLOW',
    scope: policy.scope ?? 'GLOBAL',
    resource: null,
  }
}
