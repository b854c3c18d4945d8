// SPDX-License-Identifier: Apache-2.0
// The program addressd: reads its command line, serves until it is told to stop, and gives an exit code:
// 0 stopped as asked, 1 could not go on, 2 wrong usage. All else is in serve.ts.

import { collectDefaultMetrics, Registry } from 'prom-client'
import { systemClock } from '../base/clock.js'
import { Fatal, InvalidInput, formatError } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import { createPinoLog, openLogTarget } from '../base/pino-log.js'
import { formatSettingsHelp } from '../base/settings-help.js'
import { parseSettings } from '../base/settings.js'
import { createShutdown, type Shutdown } from '../base/shutdown.js'
import { formatConfigDoc } from './config-doc.js'
import { istiodFlags } from './istiod-flags.js'
import { istioCniFlags, nodeSettingsTable } from './node-settings-table.js'
import { selectOwnEnv } from './own-env.js'
import { createProgram, listenForCrashes, runProgram, toProcessIo, type CrashIo } from './program.js'
import { selectContradictions, settingsTable, type Settings } from './settings-table.js'

const serverDocument = { table: settingsTable, ignored: istiodFlags }
const nodeDocument = { table: nodeSettingsTable, ignored: istioCniFlags }

/** The whole program against the real outside. */
export async function main(): Promise<void> {
  const code = await runAddressd(process.argv.slice(2), { ...toProcessIo(), onCrash: listenForCrashes })
  process.exitCode = code
  // Whatever still holds the event loop is of no use any more; give stdout a moment.
  setTimeout(() => process.exit(code), 500).unref()
}

/** Runs one command line. `argv` is what follows the program's name. */
export async function runAddressd(argv: readonly string[], io: CrashIo): Promise<number> {
  let code = 0
  const program = createProgram('addressd', io).description(
    'Answers "what is 1.1.1.1?" for every proxy of an Istio-style ambient mesh.',
  )
  program
    .command('serve')
    .alias('discovery')
    .description('serve the addresses of a cluster, or of a folder of manifests, over delta xDS')
    .usage('[flags]')
    .allowUnknownOption()
    .allowExcessArguments()
    .addHelpText('after', () => `\n${formatSettingsHelp(settingsTable)}\n${closing}`)
    .action(async (_options: unknown, command) => {
      code = await serve((command as { args: string[] }).args, io)
    })
  program
    .command('config-doc')
    .description('print every setting as Markdown')
    .action(() => io.stdout(formatConfigDoc(serverDocument, nodeDocument)))
  return (await runProgram(program, argv)) || code
}

const closing = `Flags of istiod that change nothing here are taken with a warning: ${istiodFlags.map((f) => `--${f.flag}`).join(' ')}
`

async function serve(argv: readonly string[], io: CrashIo): Promise<number> {
  let read: { settings: Settings; warnings: readonly string[] }
  try {
    read = parseSettings({
      table: settingsTable,
      ignored: istiodFlags,
      argv,
      env: io.env,
      ownPrefix: 'ADDRESSD_',
      siblingEnv: selectOwnEnv(nodeSettingsTable),
      check: selectContradictions,
    })
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    io.stderr(`addressd: ${error.message}\nSee addressd serve --help.\n`)
    return 2
  }
  const { settings } = read
  let log: Logger
  try {
    log = createPinoLog(settings.logLevels, openLogTarget(settings.logTarget))
  } catch (error) {
    io.stderr(`addressd: --log_target: ${formatError(error)}\n`)
    return 2
  }
  for (const warning of read.warnings) {
    log.warn({ warning }, 'setting has no effect')
  }
  io.onCrash?.((error) => log.error({ error, fatal: true }, 'unexpected failure, stopping'))
  const shutdown = createShutdown(io.signals)
  try {
    await serveUntil(shutdown, settings, log)
    log.info({}, 'stopped')
    return 0
  } catch (error) {
    if (!(error instanceof Fatal)) throw error
    log.error({ error, fatal: true }, 'cannot go on')
    io.stderr(`addressd: ${error.message}\n`)
    return 1
  } finally {
    shutdown.dispose()
  }
}

async function serveUntil(shutdown: Shutdown, settings: Settings, log: Logger): Promise<void> {
  // Serving pulls in everything; help and mistakes shall be quick.
  const { startServer } = await import('./serve.js')
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  // Timers do not keep the process alive, and with every listener off nothing else would.
  const hold = setInterval(() => undefined, 0x7fff_ffff)
  try {
    const server = await startServer({ settings, clock: systemClock, log, registry })
    const stopped = new Promise<void>((resolve) => {
      if (shutdown.graceful.aborted) resolve()
      else shutdown.graceful.addEventListener('abort', () => resolve(), { once: true })
    })
    await Promise.race([stopped, server.ended])
    log.info({ reason: formatError(shutdown.graceful.reason) }, 'stopping')
    await server.drain(shutdown.now)
    await server.stop()
    await server.ended
  } finally {
    clearInterval(hold)
  }
}
