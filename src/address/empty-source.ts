// SPDX-License-Identifier: Apache-2.0
// A type that is known and has no resources.

import type { ResourceSource } from '../xds/source.js'

export function createEmptySource(typeUrl: string): ResourceSource {
  return {
    typeUrl,
    size: 0,
    get: () => undefined,
    all: () => [],
    lookup: () => [],
    members: () => [],
    local: () => [],
  }
}
