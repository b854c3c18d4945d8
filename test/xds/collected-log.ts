// SPDX-License-Identifier: Apache-2.0
// A logger that keeps what it is told.

import type { Fields, Logger } from '../../src/base/log.js'

export interface LogRecord {
  readonly level: 'debug' | 'info' | 'warn' | 'error'
  readonly fields: Fields
  readonly message: string
}

export class CollectedLog implements Logger {
  readonly records: LogRecord[]
  readonly #fields: Fields

  constructor(records: LogRecord[] = [], fields: Fields = {}) {
    this.records = records
    this.#fields = fields
  }

  debug = (fields: Fields, message: string): void => this.#add('debug', fields, message)
  info = (fields: Fields, message: string): void => this.#add('info', fields, message)
  warn = (fields: Fields, message: string): void => this.#add('warn', fields, message)
  error = (fields: Fields, message: string): void => this.#add('error', fields, message)

  child(fields: Fields): Logger {
    return new CollectedLog(this.records, { ...this.#fields, ...fields })
  }

  #add(level: LogRecord['level'], fields: Fields, message: string): void {
    this.records.push({ level, fields: { ...this.#fields, ...fields }, message })
  }
}
