// SPDX-License-Identifier: Apache-2.0
// Who may open a stream, as whom, and for what: decided outside, asked here. Shapes only; without an implementation nobody is asked.

import type { Caller, Credentials } from '../base/caller.js'
import type { ClientNode } from './node-id.js'

/** Who is on a stream, as far as is known. */
export interface Asker {
  /** The connection is encrypted. */
  readonly secure: boolean
  /** Undefined where nobody asks for proof. */
  readonly caller: Caller | undefined
}

/** Judges callers. Refusals are ProtocolErrors, whose status and sentence end the stream. */
export interface StreamAccess {
  /** Undefined where nobody asks for proof. Otherwise who calls, within seconds; rejects with ProtocolError. */
  authenticate(credentials: Credentials): Promise<Caller> | undefined
  /** Throws when the asker may not say that it is this node. */
  admitNode(asker: Asker, node: Pick<ClientNode, 'namespace' | 'metadata'>): void
  /** Throws when the asker may not have resources of this type. */
  admitType(asker: Asker, typeUrl: string): void
}
