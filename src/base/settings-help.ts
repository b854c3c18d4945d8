// SPDX-License-Identifier: Apache-2.0
// A settings table as the text of `--help`. The Markdown twin for the repository is made by main.

import type { Setting, SettingsTable } from './settings.js'

const columns = 100
const indent = ' '.repeat(6)

/** Groups in the order of the table; each setting with its flag, type, environment name, default and sentence. Ends with a newline. */
export function formatSettingsHelp(table: SettingsTable): string {
  const lines: string[] = []
  for (const [group, settings] of toGroups(table)) {
    lines.push(`${group}:`)
    for (const setting of settings) {
      lines.push(`  ${formatHead(setting)}`)
      lines.push(
        ...wrapText(`${setting.sentence} ${formatFacts(setting)}`, columns - indent.length).map((l) => indent + l),
      )
    }
    lines.push('')
  }
  return `${lines.join('\n').trimEnd()}\n`
}

/** Settings by group, in the order in which groups first appear. */
export function toGroups(table: SettingsTable): Map<string, Setting<unknown>[]> {
  const groups = new Map<string, Setting<unknown>[]>()
  for (const setting of Object.values(table)) {
    const group = groups.get(setting.group)
    if (group === undefined) groups.set(setting.group, [setting])
    else group.push(setting)
  }
  return groups
}

function formatHead(setting: Setting<unknown>): string {
  if (setting.flag === undefined) return `${setting.env ?? ''}=${setting.type.label}`
  const short = setting.short === undefined ? '' : `-${setting.short}, `
  return `${short}--${setting.flag} ${setting.type.label}`
}

function formatFacts(setting: Setting<unknown>): string {
  const shown = setting.shownDefault ?? setting.default
  const facts = [shown === '' ? 'default: empty' : `default: ${shown}`]
  if (setting.flag !== undefined && setting.env !== undefined) facts.push(`environment: ${setting.env}`)
  return `(${facts.join('; ')})`
}

/** Breaks at spaces; a word longer than the width stands alone. */
export function wrapText(text: string, width: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line)
      line = word
    } else {
      line = line === '' ? word : `${line} ${word}`
    }
  }
  return [...lines, line]
}
