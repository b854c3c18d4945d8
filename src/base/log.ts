// SPDX-License-Identifier: Apache-2.0
// The shape of a logger as the code uses it: fields first, then a constant message. main makes one from pino; tests collect records.

export type Fields = Readonly<Record<string, unknown>>

/** `warn` and `error` name the object concerned in their fields. `info` is lifecycle and one line a push. */
export interface Logger {
  debug(fields: Fields, message: string): void
  info(fields: Fields, message: string): void
  warn(fields: Fields, message: string): void
  error(fields: Fields, message: string): void
  child(fields: Fields): Logger
}

const nothing = (): void => undefined

/** Drops everything. For tests and benchmarks. */
export const silentLogger: Logger = {
  debug: nothing,
  info: nothing,
  warn: nothing,
  error: nothing,
  child: () => silentLogger,
}
