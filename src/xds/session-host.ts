// SPDX-License-Identifier: Apache-2.0
// What stands on either side of a session: the stream below it, the server around it. Shapes only, so that tests can be either.

import type { Clock } from '../base/clock.js'
import type { Logger } from '../base/log.js'
import type { Asker, StreamAccess } from './access.js'
import type { ClientView } from './client-view.js'
import type { DebugTypes } from './debug-types.js'
import type { XdsMetrics } from './metrics.js'
import type { ClientNode } from './node-id.js'
import type { Resource } from './source.js'
import type { Topic } from './topic.js'

/** A stream as a session sees it. */
export interface Stream {
  /** Peer address, `ip:port`. */
  readonly peer: string
  /** Who is on it. */
  readonly asker: Asker
  /** Takes one gRPC message in parts. False: write no more until `drained`. */
  write(parts: readonly Uint8Array[]): boolean
  /** Whether to go on reading. */
  setReading(on: boolean): void
  /** Ends the stream with a gRPC status after everything written. */
  end(status: number, message: string): void
}

/** What sessions need of the server around them. */
export interface SessionHost {
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: XdsMetrics
  readonly debugTypes: DebugTypes | undefined
  /** Absent: everybody may everything. */
  readonly access?: StreamAccess | undefined
  /** Most names one type of one stream may remember. */
  readonly maxNames: number
  /** A type's topic; a type that nobody makes has one without a source, of its own for each caller. */
  topic(typeUrl: string): Topic
  /** The client said who it is; gives its connection id. */
  opened(session: ServedSession, node: ClientNode): string
  closed(session: ServedSession): void
}

/** A session as the server sees it. */
export interface ServedSession {
  readonly connectionId: string
  /** Nothing waits here: no message unread, no answer under way, no push that the stream does not take. */
  readonly idle: boolean
  view(): ClientView | undefined
  held(): ReadonlyMap<string, readonly Resource[]>
}
