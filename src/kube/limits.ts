// SPDX-License-Identifier: Apache-2.0
// How patient the reading of an API server is. For the reflectors, and for whoever must know how long to wait for them. All in milliseconds
// unless the name says otherwise.

export const kubeLimits = {
  /** Objects in a page of a list. */
  pageSize: 1000,
  /** A list page, headers and body, must be there by then. */
  listTimeoutMs: 60_000,
  /** A watch must have been opened by then. */
  connectTimeoutMs: 30_000,
  /** A watch that shows nothing for so long is not trusted. API servers send a bookmark about every minute. */
  watchdogMs: 150_000,
  /** We ask for a watch to be closed after a time between this and twice this, so that load spreads over the servers. */
  watchTimeoutSeconds: 300,
  /** No two tries of one kind begin closer to each other than this, once something is wrong. */
  backoffMinMs: 1_000,
  /** The longest pause between two tries, unless the server asks for a longer one. */
  backoffMaxMs: 30_000,
  /** The longest pause that a server may ask for. */
  retryAfterMaxMs: 120_000,
  /** The longest time until a resource definition that appears is noticed. */
  absentRecheckMs: 5_000,
} as const
