// SPDX-License-Identifier: Apache-2.0
// Tests that need a part which a machine may lack: they skip aloud with the reason and are counted. On CI the parts named in TEST_MUST_RUN may not be missing.

import { test } from '@jest/globals'

type Test = typeof test

/**
 * `test` when the part is there, else a skipping one that says why.
 * `part` is a short name (`api-server`, `grpcurl`, `root`); `missing` is the reason, undefined when the part is there.
 */
export function testWith(part: string, missing: string | undefined): Test {
  if (missing === undefined) return test
  const must = (process.env['TEST_MUST_RUN'] ?? '').split(',')
  if (must.includes(part)) {
    return ((name: string) => {
      test(name, () => {
        throw new Error(`${part} must be there on this machine, but: ${missing}`)
      })
    }) as unknown as Test
  }
  process.stderr.write(`SKIPPED: ${part}: ${missing}\n`)
  return test.skip as unknown as Test
}
