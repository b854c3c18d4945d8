// SPDX-License-Identifier: Apache-2.0
// The version of a resource: a hash of its bytes, equal across replicas and restarts. For whoever publishes or compares resources. Never random, never counted.

import xxhash from 'xxhash-wasm'

const hashes = await xxhash()

/** Lower-case hex, without leading zeros, of xxHash64 (seed 0) over the bytes of an `istio.workload.Address`. */
export function versionOf(addressBytes: Uint8Array): string {
  return hashes.h64Raw(addressBytes).toString(16)
}
