// SPDX-License-Identifier: Apache-2.0
// Finds the report cases and reads them: `$each` templates written out, `${n}`, `${ip}` and `${uid}` put in. Knows no case by name.

import fs from 'node:fs'
import path from 'node:path'

export interface Step {
  readonly note?: string
  readonly do?: unknown
  readonly expect?: Record<string, unknown>
  readonly repeat?: number
}

export interface Report {
  readonly id: string
  readonly part: 'control-plane' | 'xds' | 'node' | 'ctl'
  readonly about: string
  readonly needs?: readonly string[]
  readonly settings?: Record<string, string>
  readonly mesh?: Record<string, unknown>
  readonly start?: 'manual'
  readonly given: readonly unknown[]
  readonly steps: readonly Step[]
}

const own = path.join(import.meta.dirname, 'cases')

/** Folder of the cases: REPORTS_DIR when set, else the project's own. */
export const reportsFolder = process.env['REPORTS_DIR'] ?? own

/** Every `<id>-<name>/report.json` of the folder, by name of its folder. Throws when there is none. */
export function readReports(folder: string): { readonly name: string; readonly report: Report }[] {
  const found = fs
    .readdirSync(folder, { withFileTypes: true })
    .filter((entry) => fs.existsSync(path.join(folder, entry.name, 'report.json')))
    .map((entry) => entry.name)
    .sort()
  if (found.length === 0) throw new Error(`no report.json found in any folder of ${folder}`)
  return found.map((name) => ({
    name,
    report: JSON.parse(fs.readFileSync(path.join(folder, name, 'report.json'), 'utf8')) as Report,
  }))
}

/** A copy with the number's text in every string and key; a string that is exactly `${n}` becomes the number. */
export function substitute(value: unknown, n: number): unknown {
  if (typeof value === 'string') return value === '${n}' ? n : substituteText(value, n)
  if (Array.isArray(value)) return value.map((item) => substitute(item, n))
  if (value !== null && typeof value === 'object') {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [substituteText(key, n), substitute(item, n)]))
  }
  return value
}

function substituteText(text: string, n: number): string {
  const address = (10 * 2 ** 24 + 64 * 2 ** 16 + n) >>> 0
  const ip = [24, 16, 8, 0].map((shift) => (address >>> shift) & 255).join('.')
  return text
    .replaceAll('${n}', String(n))
    .replaceAll('${ip}', ip)
    .replaceAll('${uid}', `00000000-0000-4000-9000-${String(n).padStart(12, '0')}`)
}

/** A list with every `{"$each": …}` in it written out, at any depth of nesting of lists. */
export function writeOut(list: readonly unknown[]): unknown[] {
  return list.flatMap((item) => {
    const each = isRecord(item) ? (item['$each'] as { from: number; to: number; of: unknown } | undefined) : undefined
    if (each === undefined) return [writeOutInside(item)]
    const out: unknown[] = []
    for (let n = each.from; n <= each.to; n++) out.push(...writeOut([substitute(each.of, n)]))
    return out
  })
}

function writeOutInside(value: unknown): unknown {
  if (Array.isArray(value)) return writeOut(value)
  if (!isRecord(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, writeOutInside(item)]))
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value)
}
