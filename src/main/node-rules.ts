// SPDX-License-Identifier: Apache-2.0
// `addressd-node rules show|check|apply|remove --netns PATH`: the rules of one namespace, for people. Settings come from the environment, as the agent's do.

import { Option, type Command } from 'commander'
import { InvalidInput, formatError } from '../base/errors.js'
import { createPinoLog, openLogTarget, parseLogLevels } from '../base/pino-log.js'
import { parseSettings } from '../base/settings.js'
import { rulesActions, runRulesCommand, type RulesAction } from '../node-agent/rules/rules-command.js'
import { Kernel } from './node-data-plane.js'
import { toHostPlaces } from './node-places.js'
import { nodeSettingsTable, type NodeSettings } from './node-settings-table.js'
import { selectOwnEnv } from './own-env.js'
import type { ProgramIo } from './program.js'
import { settingsTable } from './settings-table.js'

const about: Readonly<Record<RulesAction, string>> = {
  show: 'print the rules of addressd, and of istio-cni, that are there',
  check: 'say whether the rules are complete; exit code 2 when they are absent or different',
  apply: 'make the rules as for a pod without annotations',
  remove: 'take out the rules of addressd and of istio-cni',
}

interface RulesFlags {
  readonly netns: string
}

/** Adds the commands to the program; `setCode` is told the exit code: 0 well, 1 failed, 2 as said of check or wrong usage. */
export function addRulesCommands(program: Command, io: ProgramIo, setCode: (code: number) => void): void {
  const group = program
    .command('rules')
    .description('show, check, make or take out the rules in one network namespace')
    .addHelpText('after', closing)
  for (const action of rulesActions) {
    group
      .command(action)
      .description(about[action])
      .addOption(
        new Option('--netns <path>', 'the namespace: /var/run/netns/NAME or /proc/PID/ns/net').makeOptionMandatory(),
      )
      .action(async (flags: RulesFlags) => {
        setCode(await run(action, flags.netns, io))
      })
  }
}

const closing = `
Backend, IPv6 and DNS capture are chosen as the agent chooses them, from the same environment names: see addressd-node run --help.
`

async function run(action: RulesAction, path: string, io: ProgramIo): Promise<number> {
  try {
    const { settings } = parseSettings({
      table: nodeSettingsTable,
      argv: [],
      env: io.env,
      ownPrefix: 'ADDRESSD_',
      siblingEnv: selectOwnEnv(settingsTable),
    })
    return await runWith(settings, { action, path }, io)
  } catch (error) {
    io.stderr(`addressd-node: ${formatError(error)}\n`)
    return error instanceof InvalidInput ? 2 : 1
  }
}

async function runWith(
  settings: NodeSettings,
  { action, path }: { readonly action: RulesAction; readonly path: string },
  io: ProgramIo,
): Promise<number> {
  const log = createPinoLog(parseLogLevels('default:error'), openLogTarget('stderr'))
  const kernel = new Kernel({ settings, places: toHostPlaces(settings), path: io.env['PATH'] ?? '', log })
  try {
    const netns = await kernel.finder.open(path)
    try {
      const { rules } = await kernel.openDataPlane()
      const { ipv6, dnsCapture, probeAddress4, probeAddress6 } = settings
      const own = { bypassInbound: false, virtualInterfaces: [], excludedInboundPorts: [], excludedOutboundCidrs: [] }
      return await runRulesCommand({
        action,
        netns,
        rules,
        options: { ipv6, dnsCapture, probeAddress4, probeAddress6, ...own },
        workers: kernel.workers,
        tools: kernel.tools,
        print: (line) => io.stdout(`${line}\n`),
      })
    } finally {
      netns.close()
    }
  } finally {
    await kernel.close()
  }
}
