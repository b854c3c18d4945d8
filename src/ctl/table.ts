// SPDX-License-Identifier: Apache-2.0
// Plain text tables and small values as people read them. Knows nothing of what the cells mean.

/** What stands where nothing is known. */
export const UNKNOWN = 'NA'

/** Header and rows with columns as wide as their widest cell; empty cells say NA. Every line ends with a newline and no line with a space. */
export function formatTable(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = [header, ...rows].map((row) => header.map((_, i) => orUnknown(row[i] ?? '')))
  const widths = header.map((_, i) => cells.reduce((widest, row) => Math.max(widest, (row[i] ?? '').length), 0))
  return cells.map((row) => formatLine(row, widths)).join('')
}

function formatLine(row: readonly string[], widths: readonly number[]): string {
  const padded = row.map((cell, i) => (i === row.length - 1 ? cell : cell.padEnd(widths[i] ?? 0)))
  return `${padded.join('  ')}\n`
}

/** Names and their values below each other; the further values of a name stand under its first. No values at all say NA. */
export function formatFields(fields: readonly (readonly [name: string, values: readonly string[]])[]): string {
  const width = fields.reduce((widest, [name]) => Math.max(widest, name.length), 0)
  const lines = fields.flatMap(([name, values]) =>
    (values.length === 0 ? [UNKNOWN] : values).map(
      (value, i) => `  ${(i === 0 ? `${name}:` : '').padEnd(width + 1)}  ${orUnknown(value)}\n`,
    ),
  )
  return lines.join('')
}

function orUnknown(text: string): string {
  // One row is one line, whatever somebody put into a name or a message.
  // eslint-disable-next-line no-control-regex -- control characters are what is replaced here
  const line = text.replace(/[\u0000-\u001f\u007f]+/g, ' ').trim()
  return line === '' ? UNKNOWN : line
}

/** `250ms`, `42s`, `7m`, `3h`, `12d`: the largest unit that fits, rounded down. */
export function formatAge(ms: number): string {
  if (ms < 1_000) return `${ms}ms`
  const seconds = Math.floor(ms / 1_000)
  if (seconds < 60) return `${seconds}s`
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}m`
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)}h`
  return `${Math.floor(seconds / 86_400)}d`
}
