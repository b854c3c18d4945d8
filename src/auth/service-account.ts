// SPDX-License-Identifier: Apache-2.0
// Service accounts as tokens name them, and the identity that goes with one. Strict: names that would read as something else are refused.

import type { Caller, CallerSource } from '../base/caller.js'
import { formatSpiffeId, parseSpiffeId } from '../base/spiffe.js'

export interface ServiceAccount {
  readonly namespace: string
  readonly name: string
}

export interface BoundPod {
  readonly name: string
  readonly uid: string
}

/** Reads `system:serviceaccount:<namespace>:<name>`; undefined for every other user. */
export function parseServiceAccountUser(user: string): ServiceAccount | undefined {
  const [, namespace, name] = /^system:serviceaccount:([^:]+):([^:]+)$/.exec(user) ?? []
  return namespace === undefined || name === undefined ? undefined : { namespace, name }
}

/** The caller behind a token of this account; undefined when no identity can be written of it. */
export function toTokenCaller(
  account: ServiceAccount,
  pod: BoundPod | undefined,
  trustDomain: string,
  source: CallerSource,
): Caller | undefined {
  const { namespace, name: serviceAccount } = account
  const identity = formatSpiffeId({ trustDomain, namespace, serviceAccount })
  const back = parseSpiffeId(identity)
  if (back?.namespace !== namespace || back.serviceAccount !== serviceAccount) return undefined
  const bound = pod === undefined ? {} : { podName: pod.name, podUid: pod.uid }
  return { identities: [identity], kubernetes: { namespace, serviceAccount, ...bound }, source }
}
