// SPDX-License-Identifier: Apache-2.0
// The program addressd-node: reads its command line, runs the agent of one node until it is told to stop, or shows and makes the rules of one namespace.
// Exit codes of run: 0 stopped as asked, 1 could not go on, 2 wrong usage. All else is in node.ts.

import { systemClock } from '../base/clock.js'
import { formatSettingsHelp } from '../base/settings-help.js'
import { addRulesCommands } from './node-rules.js'
import { istioCniFlags, nodeSettingsTable, selectNodeContradictions } from './node-settings-table.js'
import { createProgram, runMain, runProgram, type CrashIo } from './program.js'
import { runService, type ServiceCommand } from './service.js'
import { settingsTable } from './settings-table.js'

/** The whole program against the real outside. */
export async function main(): Promise<void> {
  await runMain(runAddressdNode)
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
      code = await runService(running, (command as { args: string[] }).args, io)
    })
  addRulesCommands(program, io, (given) => (code = given))
  return (await runProgram(program, argv)) || code
}

const closing = `Flags of istio-cni that change nothing here are taken with a warning: ${istioCniFlags.map((f) => `--${f.flag}`).join(' ')}
`

const running: ServiceCommand<typeof nodeSettingsTable> = {
  program: 'addressd-node',
  command: 'run',
  table: nodeSettingsTable,
  ignored: istioCniFlags,
  siblingTable: settingsTable,
  check: selectNodeContradictions,
  async start(settings, log, registry, env) {
    // The agent pulls in everything; help and mistakes shall be quick.
    const { startNode } = await import('./node.js')
    return await startNode({ settings, clock: systemClock, log, path: env['PATH'] ?? '', registry })
  },
}
