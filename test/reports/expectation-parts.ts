// SPDX-License-Identifier: Apache-2.0
// Checks of a report's expectations that hold for every kind of room: logs and printed text.

import { isRecord } from './cases.js'
import { formatRecord, selectRecords, type LogRecord } from './log-book.js'

/** Some record of the step, of this level or above, contains each text. */
export function checkLog(records: readonly LogRecord[], expected: unknown): string[] {
  return (Array.isArray(expected) ? expected : [expected]).flatMap((item) => {
    const { level = 'warn', names } = isRecord(item)
      ? (item as { level?: string; names: string[] })
      : { names: [String(item)] }
    const texts = selectRecords(records, level).map(formatRecord)
    if (texts.some((text) => names.every((name) => text.includes(name.toLowerCase())))) return []
    return [`no record of ${level} or above names ${names.join(', ')}; there are ${JSON.stringify(texts)}`]
  })
}

/** No record of the step is of this level or above. */
export function checkNoLog(records: readonly LogRecord[], level: string): string[] {
  return selectRecords(records, level).map((record) => `there is ${formatRecord(record)}`)
}

/** `contains` whatever the case, `nonEmpty`, `json`. */
export function checkText(text: string, expected: unknown, at: string): string[] {
  const { contains, nonEmpty, json } = expected as { contains?: string[]; nonEmpty?: boolean; json?: boolean }
  const out: string[] = []
  for (const part of contains ?? [])
    if (!text.toLowerCase().includes(part.toLowerCase())) out.push(`${at} lacks "${part}": ${text}`)
  if (nonEmpty === true && text.trim() === '') out.push(`${at} is empty`)
  if (json === true) {
    try {
      JSON.parse(text)
    } catch {
      out.push(`${at} is not JSON: ${text}`)
    }
  }
  return out
}
