// SPDX-License-Identifier: Apache-2.0
// The environment names that begin with ADDRESSD_ and belong to a sibling program: a shell that sets them for one must not stop another.

import type { SettingsTable } from '../base/settings.js'

/** What addressctl reads, and those of a table. */
export function selectOwnEnv(table: SettingsTable): readonly string[] {
  const names = Object.values(table).map((setting) => setting.env ?? '')
  return ['ADDRESSD_SERVER', 'ADDRESSD_NODE_SOCKET', ...names.filter((name) => name.startsWith('ADDRESSD_'))]
}
