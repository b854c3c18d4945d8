// SPDX-License-Identifier: Apache-2.0
// The Logger of running programs: pino, one JSON object a line, fields first. Levels are given as istiod's --log_output_level gives them.

import {
  destination,
  pino,
  stdTimeFunctions,
  type DestinationStream,
  type Level,
  type Logger as PinoLogger,
} from 'pino'
import { InvalidInput } from './errors.js'
import type { Fields, Logger } from './log.js'

export type LogLevel = Level | 'silent'

export interface LogLevels {
  readonly standard: LogLevel
  /** Level of a child logger whose fields have this `scope`. */
  readonly byScope: Readonly<Record<string, LogLevel>>
}

const levels: Readonly<Record<string, LogLevel>> = {
  trace: 'trace',
  debug: 'debug',
  info: 'info',
  warn: 'warn',
  error: 'error',
  fatal: 'fatal',
  none: 'silent',
}

/** Reads `info` or `default:info,xds:debug`; the levels are debug, info, warn, error, fatal and none. Throws InvalidInput. */
export function parseLogLevels(text: string): LogLevels {
  let standard: LogLevel = 'info'
  const byScope: Record<string, LogLevel> = {}
  for (const item of text.split(',')) {
    const colon = item.indexOf(':')
    const scope = colon < 0 ? 'default' : item.slice(0, colon)
    const name = item.slice(colon + 1)
    const level = Object.hasOwn(levels, name) ? levels[name] : undefined
    if (level === undefined || scope === '') {
      throw new InvalidInput(
        `"${item}" is not a log level; write default:info, or SCOPE:LEVEL pairs with debug, info, warn, error, fatal or none`,
      )
    }
    if (scope === 'default' || scope === 'all') standard = level
    else byScope[scope] = level
  }
  return { standard, byScope }
}

/** A stream for `stdout`, `stderr` or a file that lines are appended to. Written synchronously, so that the last words before an end are not lost. */
export function openLogTarget(target: string): DestinationStream {
  const dest = target === 'stdout' ? 1 : target === 'stderr' ? 2 : target
  return destination({ dest, sync: true, append: true })
}

/** A Logger that writes to `stream`. Errors among the fields (key `error`) are written with message, class and stack. */
export function createPinoLog(levelsByScope: LogLevels, stream: DestinationStream): Logger {
  const root = pino(
    {
      level: levelsByScope.standard,
      base: null,
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    stream,
  )
  return wrap(root, levelsByScope)
}

function wrap(target: PinoLogger, levelsByScope: LogLevels): Logger {
  return {
    debug: (fields, message) => target.debug(toPlain(fields), message),
    info: (fields, message) => target.info(toPlain(fields), message),
    warn: (fields, message) => target.warn(toPlain(fields), message),
    error: (fields, message) => target.error(toPlain(fields), message),
    child(fields) {
      const { scope } = fields
      const level =
        typeof scope === 'string' && Object.hasOwn(levelsByScope.byScope, scope)
          ? levelsByScope.byScope[scope]
          : undefined
      return wrap(target.child(toPlain(fields), level === undefined ? {} : { level }), levelsByScope)
    },
  }
}

/** Errors turn into `{}` when they are written as JSON; say what they are instead. */
function toPlain(fields: Fields): Record<string, unknown> {
  const out: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(fields)) {
    out[key] = value instanceof Error ? toPlainError(value) : value
  }
  return out
}

function toPlainError(error: Error): Record<string, unknown> {
  const plain: Record<string, unknown> = { type: error.name, message: error.message, stack: error.stack }
  if (error.cause !== undefined) plain['cause'] = error.cause instanceof Error ? toPlainError(error.cause) : error.cause
  return plain
}
