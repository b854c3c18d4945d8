// SPDX-License-Identifier: Apache-2.0
// The program addressd-node: reads its command line, runs the agent of one node until it is told to stop, or shows and makes the rules of one namespace.
// Exit codes of run: 0 stopped as asked, 1 could not go on, 2 wrong usage. All else is in node.ts.

import { collectDefaultMetrics, Registry } from 'prom-client'
import { systemClock } from '../base/clock.js'
import { Fatal, InvalidInput, formatError } from '../base/errors.js'
import type { Logger } from '../base/log.js'
import { createPinoLog, openLogTarget } from '../base/pino-log.js'
import { formatSettingsHelp } from '../base/settings-help.js'
import { parseSettings } from '../base/settings.js'
import { createShutdown, type Shutdown } from '../base/shutdown.js'
import { addRulesCommands } from './node-rules.js'
import { istioCniFlags, nodeSettingsTable, selectNodeContradictions, type NodeSettings } from './node-settings-table.js'
import { selectOwnEnv } from './own-env.js'
import { createProgram, listenForCrashes, runProgram, toProcessIo, type CrashIo } from './program.js'
import { settingsTable } from './settings-table.js'

/** The whole program against the real outside. */
export async function main(): Promise<void> {
  const code = await runAddressdNode(process.argv.slice(2), { ...toProcessIo(), onCrash: listenForCrashes })
  process.exitCode = code
  // Whatever still holds the event loop is of no use any more; give stdout a moment.
  setTimeout(() => process.exit(code), 500).unref()
}

/** Runs one command line. `argv` is what follows the program's name. */
export async function runAddressdNode(argv: readonly string[], io: CrashIo): Promise<number> {
  let code = 0
  const program = createProgram('addressd-node', io).description(
    'Enrols the pods of a node into an Istio-style ambient mesh and hands their network namespaces to ztunnel.',
  )
  program
    .command('run')
    .description('run the agent of this node')
    .usage('[flags]')
    .allowUnknownOption()
    .allowExcessArguments()
    .addHelpText('after', () => `\n${formatSettingsHelp(nodeSettingsTable)}\n${closing}`)
    .action(async (_options: unknown, command) => {
      code = await run((command as { args: string[] }).args, io)
    })
  addRulesCommands(program, io, (given) => (code = given))
  return (await runProgram(program, argv)) || code
}

const closing = `Flags of istio-cni that change nothing here are taken with a warning: ${istioCniFlags.map((f) => `--${f.flag}`).join(' ')}
`

async function run(argv: readonly string[], io: CrashIo): Promise<number> {
  let read: { settings: NodeSettings; warnings: readonly string[] }
  try {
    read = parseSettings({
      table: nodeSettingsTable,
      ignored: istioCniFlags,
      argv,
      env: io.env,
      ownPrefix: 'ADDRESSD_',
      siblingEnv: selectOwnEnv(settingsTable),
      check: selectNodeContradictions,
    })
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    io.stderr(`addressd-node: ${error.message}\nSee addressd-node run --help.\n`)
    return 2
  }
  const { settings } = read
  let log: Logger
  try {
    log = createPinoLog(settings.logLevels, openLogTarget(settings.logTarget))
  } catch (error) {
    io.stderr(`addressd-node: --log_target: ${formatError(error)}\n`)
    return 2
  }
  for (const warning of read.warnings) log.warn({ warning }, 'setting has no effect')
  io.onCrash?.((error) => log.error({ error, fatal: true }, 'unexpected failure, stopping'))
  const shutdown = createShutdown(io.signals)
  try {
    await runUntil(shutdown, settings, log, io.env['PATH'] ?? '')
    log.info({}, 'stopped')
    return 0
  } catch (error) {
    if (error instanceof InvalidInput) {
      io.stderr(`addressd-node: ${error.message}\n`)
      return 2
    }
    if (!(error instanceof Fatal)) throw error
    log.error({ error, fatal: true }, 'cannot go on')
    io.stderr(`addressd-node: ${error.message}\n`)
    return 1
  } finally {
    shutdown.dispose()
  }
}

async function runUntil(shutdown: Shutdown, settings: NodeSettings, log: Logger, path: string): Promise<void> {
  // The agent pulls in everything; help and mistakes shall be quick.
  const { startNode } = await import('./node.js')
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  // Timers do not keep the process alive, and with every listener off nothing else would.
  const hold = setInterval(() => undefined, 0x7fff_ffff)
  try {
    const node = await startNode({ settings, clock: systemClock, log, path, registry })
    const stopped = new Promise<void>((resolve) => {
      if (shutdown.graceful.aborted) resolve()
      else shutdown.graceful.addEventListener('abort', () => resolve(), { once: true })
    })
    await Promise.race([stopped, node.ended])
    log.info({ reason: formatError(shutdown.graceful.reason) }, 'stopping')
    await node.stop()
    await node.ended
  } finally {
    clearInterval(hold)
  }
}
