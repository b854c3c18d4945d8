// SPDX-License-Identifier: Apache-2.0
// docs/CONFIG.md as made from the settings table: `addressd config-doc` prints it, a test compares. Written for operators; says nothing the table does not.

import { toGroups } from '../base/settings-help.js'
import type { IgnoredFlag, Setting, SettingsTable } from '../base/settings.js'

const introduction = `# Configuration

<!-- Made from src/main/settings-table.ts by \`bin/addressd config-doc > docs/CONFIG.md\`. Edit there. -->

Everything that \`addressd serve\` (alias \`discovery\`) can be told. A flag wins over the environment, the environment over the default.
Names marked with * are istiod's and mean here what they mean there, so that one can stand in for the other.

- Flags are written \`--name value\` or \`--name=value\`; a switch is on by its name alone and takes a value only after \`=\`. Of a flag given twice the last one counts.
- A DURATION is written as Go writes it: \`20ms\`, \`10s\`, \`1m30s\`. A BOOLEAN is one of \`1 t T true TRUE True 0 f F false FALSE False\`.
- An ADDRESS is \`127.0.0.1:15010\`, \`[::1]:15010\` or \`:15010\` (every address of the machine); port 0 is any free one; an empty text turns the listener off.
- An environment value that is empty counts as not set; an empty flag value is a value.
- A malformed value, an unknown flag or an unknown name that begins with \`ADDRESSD_\` stops the start (exit code 2), with every problem listed at once.
  Other unknown environment names belong to others and are passed over, and so are those that Kubernetes sets for a Service named addressd.
`

/** The whole document; ends with a newline. */
export function formatConfigDoc(table: SettingsTable, ignored: readonly IgnoredFlag[]): string {
  const parts = [introduction]
  for (const [group, settings] of toGroups(table)) {
    const rows = settings.map(
      (setting) =>
        `| ${formatNames(setting)} | ${setting.type.label} | ${setting.default === '' ? '' : `\`${setting.default}\``} | ${escapeCell(setting.sentence)} |`,
    )
    parts.push(`## ${group}\n\n| name | value | default | meaning |\n|---|---|---|---|\n${rows.join('\n')}\n`)
  }
  parts.push(formatIgnored(ignored), siblings)
  return parts.join('\n')
}

function formatNames(setting: Setting<unknown>): string {
  const names: string[] = []
  if (setting.flag !== undefined) names.push(`\`--${setting.flag}\``)
  if (setting.short !== undefined) names.push(`\`-${setting.short}\``)
  if (setting.env !== undefined) names.push(`\`${setting.env}\``)
  return `${names.join(', ')}${setting.fromIstiod === true ? ' *' : ''}`
}

function formatIgnored(ignored: readonly IgnoredFlag[]): string {
  const byReason = new Map<string, string[]>()
  for (const flag of ignored) {
    const names = byReason.get(flag.why) ?? []
    names.push(`\`--${flag.flag}\``)
    byReason.set(flag.why, names)
  }
  const rows = [...byReason].map(([why, names]) => `| ${names.join(' ')} | ${escapeCell(why)} |`)
  const head =
    '## Flags of istiod that change nothing here\n\nTaken with a warning, so that a Deployment made for istiod starts.'
  return `${head}\n\n| flags | why |\n|---|---|\n${rows.join('\n')}\n`
}

const siblings = `## addressctl

| name | value | default | meaning |
|---|---|---|---|
| \`--server\`, \`ADDRESSD_SERVER\` | HOST:PORT | \`127.0.0.1:15010\` | The addressd to ask. |
`

function escapeCell(text: string): string {
  return text.replaceAll('|', '\\|')
}
