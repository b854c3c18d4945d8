// SPDX-License-Identifier: Apache-2.0
// `addressd-node rules show|check|apply|remove --netns PATH`: the rules of one namespace, for people. Settings come from the environment, as the agent's do.

import { Option, type Command } from 'commander'
import { InvalidInput, formatError } from '../base/errors.js'
import { createPinoLog, openLogTarget, parseLogLevels } from '../base/pino-log.js'
import { parseSettings } from '../base/settings.js'
import type { PodRuleOptions } from '../node-agent/contracts.js'
import { parsePodOverrides, ruleAnnotations } from '../node-agent/rules/overrides.js'
import { rulesActions, runRulesCommand, type RulesAction } from '../node-agent/rules/rules-command.js'
import { Kernel } from './node-data-plane.js'
import { toHostPlaces } from './node-places.js'
import { nodeSettingsTable, type NodeSettings } from './node-settings-table.js'
import { selectOwnEnv } from './own-env.js'
import type { ProgramIo } from './program.js'
import { settingsTable } from './settings-table.js'

const about: Readonly<Record<RulesAction, string>> = {
  show: 'print the rules of addressd, and of istio-cni, that are there',
  check: 'say whether the rules are complete, and what differs; exit code 3 when they are absent or different',
  apply: 'make the rules',
  remove: 'take out the rules of addressd and of istio-cni',
}

interface RulesFlags {
  readonly netns: string
  readonly annotation?: readonly string[]
}

/** Adds the commands to the program; `setCode` is told the exit code, as the help says. */
export function addRulesCommands(program: Command, io: ProgramIo, setCode: (code: number) => void): void {
  const group = program
    .command('rules')
    .description('show, check, make or take out the rules in one network namespace')
    .addHelpText('after', closing)
  for (const action of rulesActions) {
    const command = group
      .command(action)
      .description(about[action])
      .addOption(
        new Option('--netns <path>', 'the namespace: /var/run/netns/NAME or /proc/PID/ns/net').makeOptionMandatory(),
      )
      .action(async ({ netns, annotation = [] }: RulesFlags) => {
        setCode(await run({ action, path: netns, annotations: annotation }, io))
      })
    if (action === 'check' || action === 'apply') {
      command.option(
        '--annotation <key=value>',
        'as of a pod with this annotation; may be repeated. Without any: as of a pod without annotations',
        (text: string, earlier: readonly string[] | undefined): readonly string[] => [...(earlier ?? []), text],
      )
    }
  }
}

const closing = `
Backend, IPv6 and DNS capture are chosen as the agent chooses them, from the same environment names: see addressd-node run --help.
Exit codes: 0 complete or done, 1 failed, 2 wrong usage, 3 (check alone) the rules are absent or different.
`

interface RulesRequest {
  readonly action: RulesAction
  readonly path: string
  /** Each `KEY=VALUE`. */
  readonly annotations: readonly string[]
}

async function run(request: RulesRequest, io: ProgramIo): Promise<number> {
  try {
    const { settings } = parseSettings({
      table: nodeSettingsTable,
      argv: [],
      env: io.env,
      ownPrefix: 'ADDRESSD_',
      siblingEnv: selectOwnEnv(settingsTable),
    })
    return await runWith(settings, request, io)
  } catch (error) {
    io.stderr(`addressd-node: ${formatError(error)}\n`)
    return error instanceof InvalidInput ? 2 : 1
  }
}

async function runWith(
  settings: NodeSettings,
  { action, path, annotations }: RulesRequest,
  io: ProgramIo,
): Promise<number> {
  const options = parseRuleOptions(annotations, settings)
  const log = createPinoLog(parseLogLevels('default:error'), openLogTarget('stderr'))
  const kernel = new Kernel({ settings, places: toHostPlaces(settings), path: io.env['PATH'] ?? '', log })
  try {
    const netns = await kernel.finder.open(path)
    try {
      const { rules } = await kernel.openDataPlane()
      return await runRulesCommand({
        action,
        netns,
        path,
        rules,
        options,
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

/** Throws InvalidInput for what the agent would refuse or not follow on a pod, and for annotations that are not about rules. */
function parseRuleOptions(annotations: readonly string[], settings: NodeSettings): PodRuleOptions {
  const known: readonly string[] = Object.values(ruleAnnotations)
  const pairs = annotations.map((text): [string, string] => {
    const at = text.indexOf('=')
    const key = text.slice(0, Math.max(0, at))
    if (known.includes(key)) return [key, text.slice(at + 1)]
    throw new InvalidInput(`--annotation ${JSON.stringify(text)}: write KEY=VALUE with one of ${known.join(', ')}`)
  })
  const pod = { namespace: 'of', name: '--annotation', annotations: Object.fromEntries(pairs) }
  const { options, warnings } = parsePodOverrides(pod, settings)
  if (warnings.length > 0) throw new InvalidInput(`--annotation: ${warnings.join('; ')}`)
  return options
}
