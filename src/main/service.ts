// SPDX-License-Identifier: Apache-2.0
// A command that runs until it is told to stop: reads its settings, opens the log, starts, waits for a signal, ends in good order. The same for both
// servers; what is started is given. Exit codes: 0 stopped as asked, 1 could not go on, 2 wrong usage.

import { collectDefaultMetrics, Registry } from 'prom-client'
import { Fatal, InvalidInput, formatError } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import { createPinoLog, openLogTarget } from '../base/pino-log.js'
import { parseSettings, type IgnoredFlag, type SettingsOf, type SettingsTable } from '../base/settings.js'
import { createShutdown, whenAborted, type Shutdown } from '../base/shutdown.js'
import { selectOwnEnv } from './own-env.js'
import type { CrashIo } from './program.js'
import type { toLogSettings } from './shared-settings.js'

/** What was started. */
export interface Service {
  /** Resolves after stop(); rejects with Fatal when it cannot go on (it has stopped by then). */
  readonly ended: Promise<void>
  /** Lets go of clients in good order, at once when `now` aborts. */
  drain?(now: AbortSignal): Promise<void>
  stop(): Promise<void>
}

type ServiceTable = SettingsTable & ReturnType<typeof toLogSettings>
type LogSettings = SettingsOf<ReturnType<typeof toLogSettings>>

export interface ServiceCommand<T extends ServiceTable> {
  /** Program and command as a person types them. */
  readonly program: string
  readonly command: string
  readonly table: T
  readonly ignored: readonly IgnoredFlag[]
  /** The other program's: its names in the environment are nobody's mistake. */
  readonly siblingTable: SettingsTable
  readonly check: (settings: SettingsOf<T>) => readonly string[]
  /** Rejects with Fatal, or with InvalidInput for a setting whose fault shows only now. */
  start(settings: SettingsOf<T>, log: Logger, registry: Registry, env: CrashIo['env']): Promise<Service>
}

/** Runs one command line; `argv` is what follows the command. */
export async function runService<T extends ServiceTable>(
  command: ServiceCommand<T>,
  argv: readonly string[],
  io: CrashIo,
): Promise<number> {
  const { program, table, ignored, siblingTable, check } = command
  const refuse = (text: string): number => {
    io.stderr(`${program}: ${text}\n`)
    return 2
  }
  let read: { settings: SettingsOf<T>; warnings: readonly string[] }
  try {
    const siblingEnv = selectOwnEnv(siblingTable)
    read = parseSettings({ table, ignored, argv, env: io.env, ownPrefix: 'ADDRESSD_', siblingEnv, check })
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    return refuse(`${error.message}\nSee ${program} ${command.command} --help.`)
  }
  const { settings, warnings } = read
  let log: Logger
  try {
    // The compiler does not follow a mapped type of a type parameter.
    const { logLevels, logTarget } = settings as unknown as LogSettings
    log = createPinoLog(logLevels, openLogTarget(logTarget))
  } catch (error) {
    return refuse(`--log_target: ${formatError(error)}`)
  }
  for (const warning of warnings) log.warn({ warning }, 'setting has no effect')
  io.onCrash?.((error) => log.error({ error, fatal: true }, 'unexpected failure, stopping'))
  const shutdown = createShutdown(io.signals)
  try {
    await runUntilTold(shutdown, log, (registry) => command.start(settings, log, registry, io.env))
    log.info({}, 'stopped')
    return 0
  } catch (error) {
    if (error instanceof InvalidInput) return refuse(error.message)
    if (!(error instanceof Fatal)) throw error
    log.error({ error, fatal: true }, 'cannot go on')
    io.stderr(`${program}: ${error.message}\n`)
    return 1
  } finally {
    shutdown.dispose()
  }
}

async function runUntilTold(
  shutdown: Shutdown,
  log: Logger,
  start: (registry: Registry) => Promise<Service>,
): Promise<void> {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  // Timers do not keep the process alive, and with every listener off nothing else would.
  const hold = setInterval(() => undefined, 0x7fff_ffff)
  try {
    const service = await start(registry)
    await Promise.race([whenAborted(shutdown.graceful), service.ended])
    log.info({ reason: formatError(shutdown.graceful.reason) }, 'stopping')
    await service.drain?.(shutdown.now)
    await service.stop()
    await service.ended
  } finally {
    clearInterval(hold)
  }
}
