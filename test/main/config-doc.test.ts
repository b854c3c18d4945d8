// SPDX-License-Identifier: Apache-2.0
import { expect, test } from '@jest/globals'
import { readFileSync } from 'node:fs'
import { formatConfigDoc } from '../../src/main/config-doc.js'
import { istiodFlags } from '../../src/main/istiod-flags.js'
import { istioCniFlags, nodeSettingsTable } from '../../src/main/node-settings-table.js'
import { settingsTable } from '../../src/main/settings-table.js'

test('docs/CONFIG.md is what the tables say; after a change: npm run build && bin/addressd config-doc > docs/CONFIG.md', () => {
  const written = readFileSync(new URL('../../docs/CONFIG.md', import.meta.url), 'utf8')
  const server = { table: settingsTable, ignored: istiodFlags }
  const node = { table: nodeSettingsTable, ignored: istioCniFlags }
  expect(written).toBe(formatConfigDoc(server, node))
})
