// SPDX-License-Identifier: Apache-2.0
import { expect, test } from '@jest/globals'
import { readFileSync } from 'node:fs'
import { formatConfigDoc } from '../../src/main/config-doc.js'
import { istiodFlags } from '../../src/main/istiod-flags.js'
import { settingsTable } from '../../src/main/settings-table.js'

test('docs/CONFIG.md is what the table says; after a change: npm run build && bin/addressd config-doc > docs/CONFIG.md', () => {
  const written = readFileSync(new URL('../../docs/CONFIG.md', import.meta.url), 'utf8')
  expect(written).toBe(formatConfigDoc(settingsTable, istiodFlags))
})
