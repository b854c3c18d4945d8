// SPDX-License-Identifier: Apache-2.0
// Which iptables the node uses, legacy or nft: the one in which somebody has rules. Looks in the host's namespace, changes nothing there, and starts no
// program of IPv6 when that is off.

import { Fatal } from '../../base/errors.js'
import type { Logger } from '../../base/log.js'
import type { Netns } from '../netns/netns.js'
import type { NetnsWorkers } from '../netns/workers.js'
import { type Command, type CommandRecord, type CommandResult, takeResult, toCommandError } from './iptables-command.js'
import { runCommandsJob } from './iptables-job-keys.js'
import { type Dump, parseDump, parseTarget } from './iptables-dump.js'
import type { FamilyTools, IptablesTools, IptablesVariant, NodeTools, VariantTools } from './iptables-tools.js'
import type { Family } from './rule-table.js'

export interface DetectVariantOptions {
  readonly workers: NetnsWorkers
  /** The agent's own namespace without it. */
  readonly hostNetns?: Netns | undefined
  readonly tools: NodeTools
  readonly ipv6: boolean
  /** This one or none (`FORCE_IPTABLES_BINARY`). */
  readonly force?: IptablesVariant | undefined
  readonly log: Logger
  readonly onCommand?: ((record: CommandRecord) => void) | undefined
}

export interface DetectedVariant {
  readonly variant: IptablesVariant
  readonly tools: IptablesTools
}

/** What a look at one family of one variant gave: its dump, or why there is none. */
type Look = { readonly dump: Dump } | { readonly why: string }

/**
 * Legacy where somebody has rules or chains in it, else nft where that works, else legacy where that works. Only those count whose programs work for every
 * family that is on. Rejects with Fatal, naming what is missing, when none is left.
 */
export async function detectVariant(options: DetectVariantOptions): Promise<DetectedVariant> {
  const families: readonly Family[] = options.ipv6 ? [4, 6] : [4]
  const run = async (commands: readonly Command[]): Promise<readonly CommandResult[]> => {
    const ran = await options.workers.run(runCommandsJob, { netns: options.hostNetns, args: commands, occupies: true })
    return takeResult(ran, options.onCommand)
  }
  const tools = await resolveTools(options.tools, families, run)
  const legacy = await lookAll(tools.legacy, 'legacy', { families, run })
  const nft = await lookAll(tools.nft, 'nft', { families, run })
  const works = { legacy: legacy.every(isDump), nft: nft.every(isDump) }
  const variant = selectVariant(options.force, works, legacy.some(hasForeignRules))
  if (variant !== undefined) {
    options.log.info({ variant, forced: options.force !== undefined }, 'iptables variant chosen')
    return { variant, tools }
  }
  const relevant = options.force === undefined ? [...nft, ...legacy] : options.force === 'nft' ? nft : legacy
  const reasons = relevant.flatMap((look) => ('why' in look ? [look.why] : []))
  throw new Fatal(`no iptables on this node works for what is asked of it: ${reasons.join('; ')}`)
}

function selectVariant(
  force: IptablesVariant | undefined,
  works: Readonly<Record<IptablesVariant, boolean>>,
  isLegacyUsed: boolean,
): IptablesVariant | undefined {
  if (force !== undefined) return works[force] ? force : undefined
  if (works.legacy && isLegacyUsed) return 'legacy'
  if (works.nft) return 'nft'
  return works.legacy ? 'legacy' : undefined
}

/** Asks the programs without a variant in their name which one they are, where one with a name is missing; and legacy for its version. */
async function resolveTools(
  found: NodeTools,
  families: readonly Family[],
  run: (commands: readonly Command[]) => Promise<readonly CommandResult[]>,
): Promise<IptablesTools> {
  const isMissing = (tools: VariantTools): boolean => families.some((family) => tools[family] === undefined)
  const plain = found.plain[4]
  const asked = plain !== undefined && (isMissing(found.nft) || isMissing(found.legacy)) ? plain : undefined
  const named = found.legacy[4]
  const files = [asked, named].flatMap((tools) => (tools === undefined ? [] : [tools.save]))
  const answers = await run(files.map((file) => ({ file, args: ['--version'] })))
  const versionOf = (tools: FamilyTools | undefined): string =>
    answers.find(({ file }) => file === tools?.save)?.stdout ?? ''
  const isPlainNft = versionOf(asked).includes('nf_tables')
  const add = (tools: VariantTools, isThis: boolean): VariantTools =>
    asked !== undefined && isThis ? { ...found.plain, ...tools } : tools
  const legacy = add(found.legacy, !isPlainNft)
  return {
    nft: add(found.nft, isPlainNft),
    legacy,
    ipset: found.ipset,
    legacyVersion: parseVersion(versionOf(named ?? asked)),
  }
}

/** `iptables-save v1.8.9 (legacy)` to its numbers; zeros for a program that does not say, as the oldest do not. */
function parseVersion(text: string): readonly [number, number, number] {
  const match = /\bv(\d+)\.(\d+)(?:\.(\d+))?/.exec(text.slice(0, 200))
  return [Number(match?.[1] ?? 0), Number(match?.[2] ?? 0), Number(match?.[3] ?? 0)]
}

async function lookAll(
  tools: VariantTools,
  variant: IptablesVariant,
  how: {
    readonly families: readonly Family[]
    readonly run: (commands: readonly Command[]) => Promise<readonly CommandResult[]>
  },
): Promise<readonly Look[]> {
  const commands = how.families.flatMap((family) => {
    const file = tools[family]?.save
    return file === undefined ? [] : [{ file, args: [] }]
  })
  const results = await how.run(commands)
  return how.families.map((family): Look => {
    const file = tools[family]?.save
    const result = results.find((one) => one.file === file)
    if (result !== undefined) return toLook(result)
    const name = `ip${family === 6 ? '6' : ''}tables-${variant}`
    return { why: `${name}-save and ${name}-restore are not installed` }
  })
}

function toLook(result: CommandResult): Look {
  if (result.exitCode !== 0) return { why: toCommandError(result).message }
  try {
    return { dump: parseDump(result.stdout) }
  } catch (error) {
    return { why: `${result.file}: ${error instanceof Error ? error.message : String(error)}` }
  }
}

function isDump(look: Look): boolean {
  return 'dump' in look
}

/** Whether somebody else has a rule or a chain: tables that were only loaded, and what meshes leave behind, do not count. */
function hasForeignRules(look: Look): boolean {
  if (!('dump' in look)) return false
  const isMesh = (name: string | undefined): boolean => name?.startsWith('ISTIO_') === true
  return [...look.dump.values()].some((table) =>
    [...table].some(([name, chain]) => {
      if (!chain.isBuiltIn) return !isMesh(name)
      return chain.rules.some((rule) => !isMesh(parseTarget(rule)))
    }),
  )
}
