// SPDX-License-Identifier: Apache-2.0
// The debug types that people's tools ask for over a discovery stream: who answers them is given from outside. Only identified callers are answered.

export interface DebugAnswer {
  /** Encoded envoy `Resource` entries. */
  readonly entries: readonly Uint8Array[]
  /** control_plane.identifier; empty for none. */
  readonly controlPlane: string
}

export interface DebugTypes {
  /** Rejects with ProtocolError when the caller may not ask or asks wrongly. */
  answer(typeUrl: string, names: readonly string[], identities: readonly string[]): Promise<DebugAnswer>
}

/** These types have no googleapis prefix. */
export function isDebugType(typeUrl: string): boolean {
  return typeUrl === 'istio.io/debug' || typeUrl.startsWith('istio.io/debug/')
}
