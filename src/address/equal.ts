// SPDX-License-Identifier: Apache-2.0
// Equality of rows by content. For tables of hundreds or thousands of rows; the tables with one row a pod compare bytes (resource.ts).

import { isDeepStrictEqual } from 'node:util'

export function isSameRow<V>(a: V, b: V): boolean {
  return a === b || isDeepStrictEqual(a, b)
}
