// SPDX-License-Identifier: Apache-2.0
// What becomes of one AuthorizationPolicy at proxies of connections: the message, or why there is none, and what of its rules had to be left out.
// For the tables, for explanations and for whoever writes conditions: one answer for all. Pure.

import { parseBoolean } from '../base/go-values.js'
import type { AuthorizationPolicyRecord } from '../kube/records.js'
import { AuthorizationAction, AuthorizationScope, type AuthorizationMessage } from '../wire/authorization-encoder.js'
import { annotationKeys, labelOf } from './labels.js'
import { isEffective, toGroups, type UnreadableValue } from './policy-rules.js'

/**
 * `targeted`: it is for waypoints. `action`: neither ALLOW nor DENY. `dryRun`: it is only tried out, and the setting for that is off.
 */
export type PolicyRefusal = 'targeted' | 'action' | 'dryRun'

export type PolicyOutcome =
  | { readonly kind: 'refused'; readonly reason: PolicyRefusal }
  | {
      readonly kind: 'sent'
      readonly message: AuthorizationMessage
      /** Attributes that cannot be judged, each once, sorted. ALLOW: their rules are gone. DENY: they are, and their rules hold for more or never. */
      readonly unsupported: readonly string[]
      readonly unreadable: readonly UnreadableValue[]
      /** False: no rule can ever hold. */
      readonly effective: boolean
      /** True: it has a selector without labels to match, so no workload lists it and it does nothing. */
      readonly unattached: boolean
    }

/** Undefined: the policy is for ztunnel. */
export function selectRefusal(policy: AuthorizationPolicyRecord, dryRunPolicies: boolean): PolicyRefusal | undefined {
  if (policy.targeted) return 'targeted'
  if (policy.action !== 'ALLOW' && policy.action !== 'DENY') return 'action'
  return isDryRun(policy) && !dryRunPolicies ? 'dryRun' : undefined
}

/** The policy must be of our revision and in a namespace that is seen. */
export function toPolicyOutcome(
  policy: AuthorizationPolicyRecord,
  mesh: { readonly rootNamespace: string; readonly dryRunPolicies: boolean },
): PolicyOutcome {
  const reason = selectRefusal(policy, mesh.dryRunPolicies)
  if (reason !== undefined) return { kind: 'refused', reason }
  const { name, namespace } = policy
  const denies = policy.action === 'DENY'
  const { groups, unsupported, unreadable } = toGroups(policy.rules ?? [], { namespace, denies })
  const message: AuthorizationMessage = {
    name,
    namespace,
    scope: toScope(policy, mesh.rootNamespace),
    action: denies ? AuthorizationAction.DENY : AuthorizationAction.ALLOW,
    groups,
    dryRun: isDryRun(policy),
  }
  return {
    kind: 'sent',
    message,
    unsupported,
    unreadable,
    effective: isEffective(groups),
    unattached: policy.hasSelector && policy.selector === undefined,
  }
}

function toScope(policy: AuthorizationPolicyRecord, rootNamespace: string): number {
  if (policy.hasSelector) return AuthorizationScope.WORKLOAD_SELECTOR
  return policy.namespace === rootNamespace ? AuthorizationScope.GLOBAL : AuthorizationScope.NAMESPACE
}

function isDryRun(policy: AuthorizationPolicyRecord): boolean {
  const text = labelOf(policy.annotations, annotationKeys.dryRun)
  if (text === undefined) return false
  try {
    return parseBoolean(text)
  } catch {
    // What is no boolean is not true.
    return false
  }
}
