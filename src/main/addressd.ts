// SPDX-License-Identifier: Apache-2.0
// The program addressd: reads its command line, serves until it is told to stop, and gives an exit code:
// 0 stopped as asked, 1 could not go on, 2 wrong usage. All else is in serve.ts.

import { systemClock } from '../base/clock.js'
import { formatSettingsHelp } from '../base/settings-help.js'
import { formatConfigDoc } from './config-doc.js'
import { istiodFlags } from './istiod-flags.js'
import { istioCniFlags, nodeSettingsTable } from './node-settings-table.js'
import { createProgram, runMain, runProgram, type CrashIo } from './program.js'
import { runService, type ServiceCommand } from './service.js'
import { selectContradictions, settingsTable } from './settings-table.js'

const serverDocument = { table: settingsTable, ignored: istiodFlags }
const nodeDocument = { table: nodeSettingsTable, ignored: istioCniFlags }

/** The whole program against the real outside. */
export async function main(): Promise<void> {
  await runMain(runAddressd)
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
      code = await runService(serving, (command as { args: string[] }).args, io)
    })
  program
    .command('config-doc')
    .description('print every setting as Markdown')
    .action(() => io.stdout(formatConfigDoc(serverDocument, nodeDocument)))
  return (await runProgram(program, argv)) || code
}

const closing = `Flags of istiod that change nothing here are taken with a warning: ${istiodFlags.map((f) => `--${f.flag}`).join(' ')}
`

const serving: ServiceCommand<typeof settingsTable> = {
  program: 'addressd',
  command: 'serve',
  table: settingsTable,
  ignored: istiodFlags,
  siblingTable: nodeSettingsTable,
  check: selectContradictions,
  async start(settings, log, registry) {
    // Serving pulls in everything; help and mistakes shall be quick.
    const { startServer } = await import('./serve.js')
    return await startServer({ settings, clock: systemClock, log, registry })
  },
}
