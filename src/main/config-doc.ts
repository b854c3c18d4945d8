// SPDX-License-Identifier: Apache-2.0
// docs/CONFIG.md as made from the settings table: `addressd config-doc` prints it, a test compares. Written for operators; says nothing the table does not.

import { toGroups } from '../base/settings-help.js'
import type { IgnoredFlag, Setting, SettingsTable } from '../base/settings.js'

/** One program that takes settings. */
export interface DocumentedProgram {
  readonly table: SettingsTable
  readonly ignored: readonly IgnoredFlag[]
}

const introduction = `# Configuration

<!-- Made from src/main/settings-table.ts and node-settings-table.ts by \`bin/addressd config-doc > docs/CONFIG.md\`. Edit there. -->

Everything that \`addressd serve\` (alias \`discovery\`) and \`addressd-node run\` can be told. A flag wins over the environment, the environment over the default.
Names marked with * are istiod's, istio-cni's or ztunnel's and mean here what they mean there, so that one can stand in for the other.

- Flags are written \`--name value\` or \`--name=value\`; a switch is on by its name alone and takes a value only after \`=\`. Of a flag given twice the last one counts.
- A DURATION is written as Go writes it: \`20ms\`, \`10s\`, \`1m30s\`. A BOOLEAN is one of \`1 t T true TRUE True 0 f F false FALSE False\`.
- An ADDRESS is \`127.0.0.1:15010\`, \`[::1]:15010\` or \`:15010\` (every address of the machine); port 0 is any free one; an empty text turns the listener off.
- An environment value that is empty counts as not set; an empty flag value is a value.
- A malformed value, an unknown flag or an unknown name that begins with \`ADDRESSD_\` stops the start (exit code 2), with every problem listed at once.
  Other unknown environment names belong to others and are passed over, and so are those that Kubernetes sets for a Service named addressd.
`

/** The whole document; ends with a newline. */
export function formatConfigDoc(server: DocumentedProgram, node: DocumentedProgram): string {
  return [
    introduction,
    '# addressd serve\n',
    ...formatGroups(server.table),
    formatIgnored('istiod', 'a Deployment made for istiod', server.ignored),
    '# addressd-node run\n',
    ...formatGroups(node.table),
    formatIgnored('istio-cni', 'a DaemonSet made for istio-cni', node.ignored),
    siblings,
  ].join('\n')
}

function formatGroups(table: SettingsTable): readonly string[] {
  return [...toGroups(table)].map(([group, settings]) => {
    const rows = settings.map(
      (setting) =>
        `| ${formatNames(setting)} | ${setting.type.label} | ${formatDefault(setting)} | ${escapeCell(setting.sentence)} |`,
    )
    return `## ${group}\n\n| name | value | default | meaning |\n|---|---|---|---|\n${rows.join('\n')}\n`
  })
}

function formatDefault(setting: Setting<unknown>): string {
  const text = setting.shownDefault ?? setting.default
  return text === '' ? '' : `\`${text}\``
}

function formatNames(setting: Setting<unknown>): string {
  const names: string[] = []
  if (setting.flag !== undefined) names.push(`\`--${setting.flag}\``)
  if (setting.short !== undefined) names.push(`\`-${setting.short}\``)
  if (setting.env !== undefined) names.push(`\`${setting.env}\``)
  return `${names.join(', ')}${setting.fromIstiod === true ? ' *' : ''}`
}

function formatIgnored(whose: string, what: string, ignored: readonly IgnoredFlag[]): string {
  const byReason = new Map<string, string[]>()
  for (const flag of ignored) {
    const names = byReason.get(flag.why) ?? []
    names.push(`\`--${flag.flag}\``)
    byReason.set(flag.why, names)
  }
  const rows = [...byReason].map(([why, names]) => `| ${names.join(' ')} | ${escapeCell(why)} |`)
  const head = `## Flags of ${whose} that change nothing here\n\nTaken with a warning, so that ${what} starts.`
  return `${head}\n\n| flags | why |\n|---|---|\n${rows.join('\n')}\n`
}

const siblings = `# addressctl

| name | value | default | meaning |
|---|---|---|---|
| \`--server\`, \`ADDRESSD_SERVER\` | HOST:PORT | \`127.0.0.1:15010\` | The addressd to ask. |
| \`ADDRESSD_NODE_SOCKET\` | PATH | | The socket of the node agent that \`whatis --node\` asks. |
`

function escapeCell(text: string): string {
  return text.replaceAll('|', '\\|')
}
