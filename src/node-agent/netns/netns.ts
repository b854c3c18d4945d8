// SPDX-License-Identifier: Apache-2.0
// A network namespace as an owned, counted descriptor. Whoever holds a handle closes it; the descriptor goes with the last one. Nothing is left to
// the garbage collector, and no handle is closed before the work that needs it is over.

/** What a namespace is known by: equal exactly while both are the same living namespace. */
export interface NetnsId {
  readonly inode: bigint
  readonly device: bigint
}

/** One handle. */
export interface Netns extends NetnsId {
  /** Open until the last handle is closed. Never to be closed by others. */
  readonly fd: number
  /** One more handle to the same descriptor. Throws when this one is closed. */
  share(): Netns
  /** Idempotent for each handle. */
  close(): void
}

export function isSameNetns(a: NetnsId, b: NetnsId): boolean {
  return a.inode === b.inode && a.device === b.device
}

/** For logs and maps: `4026532281`, with the device where it matters to nobody but machines. */
export function formatNetns(id: NetnsId): string {
  return `${id.device}:${id.inode}`
}
