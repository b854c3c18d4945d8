// SPDX-License-Identifier: Apache-2.0
// What the API server's answers come down to, whatever their encoding: pages of a list and events of a watch. No decoding here.

import type { InvalidInput } from '../base/errors.js'
import type { Kind, RecordByKind } from './records.js'

/** An object that could be read. `version` is its resourceVersion. */
export interface GoodItem<K extends Kind> {
  readonly key: string
  readonly version: string
  readonly record: RecordByKind[K]
}

/** An object that could not be read: what is known of it, and why. */
export interface BadItem {
  /** Undefined when it has no usable name. */
  readonly key: string | undefined
  readonly version: string
  readonly uid: string | undefined
  readonly record: undefined
  readonly error: InvalidInput
}

export type Item<K extends Kind> = GoodItem<K> | BadItem

export function isGood<K extends Kind>(item: Item<K>): item is GoodItem<K> {
  return item.record !== undefined
}

export interface Page<K extends Kind> {
  readonly items: readonly Item<K>[]
  readonly version: string
  /** Token for the next page; empty on the last one. */
  readonly next: string
}

/** What the server says of itself instead of an object. */
export interface ServerStatus {
  readonly code: number
  readonly reason: string
  readonly message: string
}

export type WatchEvent<K extends Kind> =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly item: Item<K> }
  | { readonly type: 'BOOKMARK'; readonly version: string }
  | { readonly type: 'ERROR'; readonly status: ServerStatus }

/** Takes the bytes of a watch as they come. */
export interface WatchDecoder<K extends Kind> {
  /** The events that these bytes complete. Throws InvalidInput when the stream is not what it should be. */
  push(chunk: Buffer): readonly WatchEvent<K>[]
}

/** One encoding of the Kubernetes API. */
export interface Encoding {
  readonly contentType: string
  decodePage<K extends Kind>(kind: K, bytes: Buffer, cluster: string): Page<K>
  decodeStatus(bytes: Buffer): ServerStatus
  createWatchDecoder<K extends Kind>(kind: K, cluster: string): WatchDecoder<K>
}
