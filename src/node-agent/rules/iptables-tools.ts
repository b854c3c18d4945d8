// SPDX-License-Identifier: Apache-2.0
// The programs of iptables and ipset on this node: found once on a PATH that is given, used by absolute path ever after. Starts none of them.

import { accessSync, constants, statSync } from 'node:fs'
import { isAbsolute, join } from 'node:path'
import type { Command } from './iptables-command.js'
import type { Family } from './rule-table.js'

export type IptablesVariant = 'nft' | 'legacy'

export interface FamilyTools {
  readonly save: string
  readonly restore: string
}

/** The programs of one variant (or of no named one) by family. */
export type VariantTools = Readonly<Partial<Record<Family, FamilyTools>>>

/** What lies on the node. `plain` are the programs without a variant in their name; which it is they say themselves. */
export interface NodeTools {
  readonly nft: VariantTools
  readonly legacy: VariantTools
  readonly plain: VariantTools
  readonly ipset: string | undefined
}

/** What is known of them after detection: `plain` has become one of the two. */
export interface IptablesTools {
  readonly nft: VariantTools
  readonly legacy: VariantTools
  readonly ipset: string | undefined
  /** `legacy` takes a private lock file by environment (from 1.8.6) and waits for locks (from 1.6.2). */
  readonly legacyVersion: readonly [number, number, number]
}

/** Looks for the programs in the folders of `path` (separated by colons). A variant's family is there when both its `-save` and its `-restore` are. */
export function findNodeTools(path: string): NodeTools {
  const folders = path.split(':').filter((folder) => isAbsolute(folder))
  const find = (name: string): string | undefined => folders.map((folder) => join(folder, name)).find(isProgram)
  const pair = (prefix: string): FamilyTools | undefined => {
    const save = find(`${prefix}-save`)
    const restore = find(`${prefix}-restore`)
    return save === undefined || restore === undefined ? undefined : { save, restore }
  }
  const variant = (suffix: string): VariantTools => {
    const v4 = pair(`iptables${suffix}`)
    const v6 = pair(`ip6tables${suffix}`)
    return { ...(v4 === undefined ? {} : { 4: v4 }), ...(v6 === undefined ? {} : { 6: v6 }) }
  }
  return { nft: variant('-nft'), legacy: variant('-legacy'), plain: variant(''), ipset: find('ipset') }
}

/** Those that say by their name what they are, without starting one: for taking out what is left of either, where another backend makes the rules. */
export function toNamedTools({ nft, legacy, ipset }: NodeTools): IptablesTools {
  // Programs have had a variant in their names since 1.8.
  return { nft, legacy, ipset, legacyVersion: [1, 8, 6] }
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    // Not there, or not for us: the next folder.
    return false
  }
}

/** How the variant's `-restore` is called on the node itself: what others hold there stays, and the lock that all programs share is waited for. */
export function restoreCommand(tools: IptablesTools, variant: IptablesVariant, file: string, stdin: string): Command {
  const waits = variant === 'legacy' && isAtLeast(tools.legacyVersion, [1, 6, 2])
  return { file, args: waits ? ['--noflush', '--wait', '5'] : ['--noflush'], stdin }
}

/** The same inside a pod: with a lock of our own, for nobody else works there and the node's may be held for long. */
export function restoreInPodCommand(
  tools: IptablesTools,
  { variant, file, stdin, lockFile }: { variant: IptablesVariant; file: string; stdin: string; lockFile: string },
): Command {
  const command = restoreCommand(tools, variant, file, stdin)
  if (variant === 'nft' || !isAtLeast(tools.legacyVersion, [1, 8, 6])) return command
  return { ...command, env: { XTABLES_LOCKFILE: lockFile } }
}

function isAtLeast(version: readonly number[], least: readonly number[]): boolean {
  for (const [i, number] of least.entries()) {
    const own = version[i] ?? 0
    if (own !== number) return own > number
  }
  return true
}
