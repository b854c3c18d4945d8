// SPDX-License-Identifier: Apache-2.0
// A Logger that keeps what it is told, so that a test can look for a record or for its absence.

import type { Fields, Logger } from '../../src/base/log.js'

export type Level = 'debug' | 'info' | 'warn' | 'error'

const levels: readonly Level[] = ['debug', 'info', 'warn', 'error']

export interface LogRecord {
  readonly level: Level
  readonly message: string
  readonly fields: Fields
}

export class LogBook implements Logger {
  readonly records: LogRecord[]
  readonly #fields: Fields

  constructor(records: LogRecord[] = [], fields: Fields = {}) {
    this.records = records
    this.#fields = fields
  }

  debug(fields: Fields, message: string): void {
    this.#add('debug', fields, message)
  }
  info(fields: Fields, message: string): void {
    this.#add('info', fields, message)
  }
  warn(fields: Fields, message: string): void {
    this.#add('warn', fields, message)
  }
  error(fields: Fields, message: string): void {
    this.#add('error', fields, message)
  }
  child(fields: Fields): Logger {
    return new LogBook(this.records, { ...this.#fields, ...fields })
  }

  #add(level: Level, fields: Fields, message: string): void {
    this.records.push({ level, message, fields: { ...this.#fields, ...fields } })
  }
}

/** Records of this level or above. */
export function selectRecords(records: readonly LogRecord[], level: string): LogRecord[] {
  return records.filter((r) => levels.indexOf(r.level) >= levels.indexOf(level as Level))
}

/** Everything a record says, as one lower-case text. */
export function formatRecord(record: LogRecord): string {
  const fields = JSON.stringify(record.fields, (_key, value: unknown) =>
    value instanceof Error
      ? `${value.message} ${value.cause instanceof Error ? value.cause.message : ''}`
      : typeof value === 'bigint'
        ? String(value)
        : value,
  )
  return `${record.message} ${fields}`.toLowerCase()
}
