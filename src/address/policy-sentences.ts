// SPDX-License-Identifier: Apache-2.0
// What becomes of a policy, as sentences for people: why it is not sent, and where it does other than it says. For explanations and for the log.

import type { AuthorizationPolicyRecord } from '../kube/records.js'
import type { PolicyOutcome, PolicyRefusal } from './policy-conversion.js'

/** Why ztunnel is not told of the policy. */
export function formatRefusal(reason: PolicyRefusal, policy: Pick<AuthorizationPolicyRecord, 'action'>): string {
  switch (reason) {
    case 'targeted':
      return 'not sent to ztunnel: it has targetRefs, so it is for waypoints'
    case 'action':
      return `not sent to ztunnel, which does not support action ${policy.action}`
    case 'dryRun':
      return 'not sent to ztunnel: annotation istio.io/dry-run is true, and AMBIENT_ENABLE_DRY_RUN_AUTHORIZATION_POLICY is off'
  }
}

/** In which ways a policy that is sent does other than it says; empty when it does what it says. */
export function formatDoubts(
  outcome: PolicyOutcome & { readonly kind: 'sent' },
  policy: Pick<AuthorizationPolicyRecord, 'action' | 'rules'>,
): readonly string[] {
  const { unsupported, unreadable, effective, unattached } = outcome
  const doubts: string[] = []
  if (unsupported.length > 0) doubts.push(formatUnsupported(unsupported, policy.action, effective))
  for (const { attribute, value } of unreadable) doubts.push(`${attribute}: "${value}" cannot be read and is left out`)
  if (!effective && unsupported.length === 0 && (policy.rules ?? []).length > 0)
    doubts.push(
      policy.action === 'DENY' ? 'no rule can hold: it denies nothing' : 'no rule can hold: it lets nobody in',
    )
  if (unattached) doubts.push('its selector has no matchLabels, so no workload lists it and it does nothing')
  return doubts
}

function formatUnsupported(unsupported: readonly string[], action: string, effective: boolean): string {
  const what = `ztunnel cannot judge ${unsupported.join(', ')}`
  if (action !== 'DENY') return `${what}: rules with them are left out, so less is allowed than they say`
  return effective
    ? `${what}: they are left out, so more is denied than the rules say`
    : `${what}: no rule can hold without them, so it denies nothing`
}
