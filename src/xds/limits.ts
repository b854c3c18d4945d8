// SPDX-License-Identifier: Apache-2.0
// How much one caller may take, and how long is too long. Defaults for production; tests and settings change them one by one.

const KiB = 1024
const MiB = 1024 * KiB

export const xdsLimits = {
  /** Longest request message in bytes. A reconnecting client lists all that it holds, about 100 bytes a resource. */
  maxRequestBytes: 64 * MiB,
  /** Headers of one call, in bytes as HTTP/2 counts them. A bearer token is among them. */
  maxHeaderBytes: 64 * KiB,
  maxStreamsPerConnection: 256,
  /** Streams that one connection may open and reset in a second. */
  maxResetsPerSecond: 100,
  /** Connections that have not yet finished to greet (TLS and HTTP/2 settings). */
  maxHandshakes: 4096,
  handshakeTimeoutMs: 10_000,
  /** Names that one type of one stream may remember. */
  maxNames: 2_000_000,
  /** A stream that takes nothing for so long is closed. */
  sendTimeoutMs: 60_000,
  /** Time between pings of ours. */
  keepaliveMs: 30_000,
  /** A ping unanswered for so long ends the connection. */
  keepaliveTimeoutMs: 10_000,
  /** Connections are ended in good order at this age, give or take a tenth, so that clients spread over replicas. 0 = never. */
  maxConnectionAgeMs: 30 * 60_000,
  /** What a connection may take to end in good order before it is cut. */
  endGraceMs: 10_000,
  /** A drain spreads the ends of connections over so long. */
  drainMs: 5_000,
  /** Shared response bodies that are kept at hand. */
  sharedBytes: 256 * MiB,
}

export type XdsLimits = Readonly<typeof xdsLimits>

/** Longest time until a dead peer is noticed. */
export function toDeadPeerMs(limits: XdsLimits): number {
  return limits.keepaliveMs + limits.keepaliveTimeoutMs
}
