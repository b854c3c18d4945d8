// SPDX-License-Identifier: Apache-2.0
// What goes in and out of a subscription: requests, planned responses, responses as bytes. Shapes only.

import type { TypeCells } from './metrics.js'
import type { Resource } from './source.js'

/** What a request says about a type, apart from the node. */
export interface Ask {
  readonly subscribe: readonly string[]
  readonly unsubscribe: readonly string[]
  /** As held from an earlier stream. */
  readonly initialVersions: HeldVersions
  readonly nonce: string
  /** Present = a rejection, whatever its code. */
  readonly error: { readonly message: string } | undefined
}

/** What a client says it holds: names with versions. */
export interface HeldVersions extends Iterable<readonly [name: string, version: string]> {
  readonly size: number
  /** Compares one of our resources, and remembers that this name was asked for. */
  check(name: string, version: string): 'current' | 'other' | 'absent'
  /** Names that nobody has asked for by `check`. */
  unchecked(): readonly string[]
}

/** Which part of what is due: new and changed, gone, or both. */
export type Part = 'changed' | 'removed' | 'all'

/** One response, as a plan. The first three are the same for every stream that stands at the same place, so their bytes are shared. */
export type Reply =
  | { readonly kind: 'snapshot'; readonly removed: readonly string[] }
  | { readonly kind: 'delta'; readonly from: number; readonly to: number; readonly part: Part }
  | { readonly kind: 'ranges'; readonly from: number; readonly to: number }
  | {
      readonly kind: 'selection'
      readonly resources: readonly Resource[]
      readonly removed: readonly string[]
      readonly aliases: boolean
    }

/** One response, ready to be written. */
export interface Outgoing {
  /** Together one gRPC message with its prefix. */
  readonly parts: readonly Uint8Array[]
  readonly nonce: string
  readonly sizeBytes: number
  readonly resources: number
  readonly removed: number
}

/** Makes bytes of one type's plans. */
export interface Encoder {
  /** Where responses of the type are counted. */
  readonly cells: TypeCells
  /** The bytes of a planned response; undefined when it turns out to say nothing. */
  encode(reply: Reply): Outgoing | undefined
  /** A response that carries entries made by somebody else. */
  encodeEntries(entries: readonly Uint8Array[], controlPlane: string): Outgoing
  /** True for the bytes of a request that says nothing but this type and this nonce, in the usual order. */
  isAck(message: Uint8Array, nonce: string): boolean
  /** Nobody lags: what was made for several is of no more use. */
  forget(): void
}
