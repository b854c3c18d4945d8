// SPDX-License-Identifier: Apache-2.0
// Which answers would leave a workload open for a moment: those that name policies to a client that was told of none. For sessions, which then wait for the
// client to ask for them. Pure.

import type { Reply } from './reply.js'
import type { Subscription } from './subscription.js'

/** An answer that may be written. */
export interface Planned {
  readonly subscription: Subscription
  readonly reply: Reply
}

/** Does any resource in it need policies? A snapshot is looked through up to the first that does. */
export function isNeedy({ subscription, reply }: Planned): boolean {
  if (reply.kind === 'delta' || reply.kind === 'ranges') return true
  const resources = reply.kind === 'selection' ? reply.resources : (subscription.topic.source?.all() ?? [])
  for (const { needs } of resources) if (needs !== undefined && needs.length > 0) return true
  return false
}
