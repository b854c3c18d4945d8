// SPDX-License-Identifier: Apache-2.0
// The rules of one pod by iptables: look, make, take out, take back. Runs inside the pod's namespace and waits for programs; sees the kernel through
// PodKernel alone. Programs of a family or variant run only where there is something for them to see or to do.

import { Fatal, Retryable } from '../../base/errors.js'
import type { Logger } from '../../base/log.js'
import type { PodRuleOptions, RuleState } from '../contracts.js'
import { mustRun } from './iptables-command.js'
import { type Dump, parseDump } from './iptables-dump.js'
import type { PodKernel } from './iptables-kernel.js'
import { type IsOurs, type WantedTable, formatRestore, selectDumpState, selectPresent } from './iptables-plan.js'
import { podChains, podTables, selectNothing, selectWanted } from './iptables-text.js'
import { type FamilyTools, type IptablesTools, type IptablesVariant, restoreInPodCommand } from './iptables-tools.js'
import { nftFamily } from './nft-messages.js'
import { isOwn } from './nft-seen.js'
import { type Family, selectFamilies } from './rule-table.js'
import type { ReturnPart } from './rtnetlink.js'
import { parseTcpLooseComment } from './tcp-loose.js'

/** Everything about this node that the work in a pod depends on. */
export interface PodWork {
  readonly variant: IptablesVariant
  readonly tools: IptablesTools
  /** Whether chains `ISTIO_*` that nobody of ours makes go too. */
  readonly removeStrangeChains: boolean
  /** The lock of iptables-legacy for pods; nobody else's. */
  readonly lockFile: string
}

/** One family in one variant: what is there and what shall be. */
interface View {
  readonly variant: IptablesVariant
  readonly family: Family
  readonly dump: Dump
  readonly wanted: ReadonlyMap<string, WantedTable>
}

const variants: readonly IptablesVariant[] = ['legacy', 'nft']
const families: readonly Family[] = [4, 6]
const allParts = families.flatMap((family): readonly ReturnPart[] => [
  { kind: 'route', family },
  { kind: 'rule', family },
])
const noDump: Dump = new Map()
const strangePrefix = 'ISTIO_'
const ownNames: readonly string[] = Object.values(podChains)
const tableNames: readonly string[] = podTables

/** Makes the rules exactly as wanted, or leaves everything as it was and throws. `changed`: whether there was anything to do. */
export function applyInPod(
  kernel: PodKernel,
  work: PodWork,
  options: PodRuleOptions,
  log: Logger,
): { readonly changed: boolean; readonly generation: number | undefined } {
  const before = kernel.readGeneration()
  const views = lookAt(kernel, { work, options, log })
  const parts = selectWantedParts(kernel, options)
  const spare = kernel.selectPresentParts(allParts.filter((part) => !hasPart(parts, part)))
  const leftovers = kernel.listNftBackendTables()
  const todo = views.filter((view) => toText(view, work) !== '')
  const isThere = kernel.selectPresentParts(parts).length === parts.length
  if (todo.length === 0 && spare.length === 0 && leftovers.length === 0 && isThere) {
    return { changed: false, generation: before }
  }
  // IP rule and route first: whoever finds them alone knows that somebody was interrupted here.
  const made: readonly ReturnPart[] = isThere ? [] : kernel.addReturnParts(parts)
  const trackingBefore = kernel.holdTcpConnections()
  const begun: View[] = []
  try {
    for (const view of todo) {
      begun.push(view)
      restore(kernel, work, view, toText(view, work))
    }
    kernel.deleteNftTables(leftovers)
  } catch (error) {
    takeBack(kernel, work, { views: begun, parts: made, error })
    if (!hasOwnRules(views)) kernel.releaseTcpConnections(trackingBefore)
    throw error
  }
  kernel.removeReturnParts(spare)
  return { changed: true, generation: toOwnGeneration(kernel, before, { todo, work, leftovers: leftovers.length }) }
}

/** How the pod stands. `generation` is that of before the look: what happens meanwhile makes the next look a real one. */
export function checkInPod(
  kernel: PodKernel,
  work: PodWork,
  { options, knownGeneration, log }: { options: PodRuleOptions; knownGeneration: number | undefined; log: Logger },
): { readonly state: RuleState; readonly generation: number | undefined } {
  const generation = kernel.readGeneration()
  const parts = selectWantedParts(kernel, options)
  const present = kernel.selectPresentParts(allParts)
  const arePartsRight = present.length === parts.length && parts.every((part) => hasPart(present, part))
  const isKnown = work.variant === 'nft' && generation !== undefined && generation === knownGeneration
  if (isKnown) return { state: arePartsRight ? 'complete' : 'different', generation }
  const views = lookAt(kernel, { work, options, log })
  if (kernel.listNftBackendTables().length > 0) return { state: 'different', generation }
  const isAbsent = views.every(({ dump, wanted }) => selectDumpState(dump, wanted, isOwnChain) === 'absent')
  if (isAbsent && present.length === 0) return { state: 'absent', generation }
  if (!isAbsent && arePartsRight && views.every((view) => toText(view, work) === '')) {
    return { state: 'complete', generation }
  }
  const arePartsBegun = isAbsent ? present.every((part) => hasPart(parts, part)) : arePartsRight
  const isUnfinished = arePartsBegun && views.every((view) => isEachTableWholeOrAbsent(view, work))
  return { state: isUnfinished ? 'unfinished' : 'different', generation }
}

/** So an interrupted call leaves them: the programs change one table after the other. */
function isEachTableWholeOrAbsent({ dump, wanted }: View, work: PodWork): boolean {
  return [...wanted].every(([name, table]) => {
    const one = new Map([[name, table]])
    return selectDumpState(dump, one, isOwnChain) === 'absent' || toText({ dump, wanted: one }, work) === ''
  })
}

/** Takes out everything of ours and of istio-cni, whichever backend made it. Goes on after a failure and throws the first one at the end. */
export function removeInPod(kernel: PodKernel, work: PodWork, log: Logger): void {
  const failures: unknown[] = []
  const attempt = (step: () => void): void => {
    try {
      step()
    } catch (error) {
      failures.push(error)
    }
  }
  const views = lookForLeftovers(kernel, work, log)
  const tables = kernel.listNftBackendTables()
  const parts = kernel.selectPresentParts(allParts)
  for (const view of views) attempt(() => restore(kernel, work, view, toText(view, work)))
  attempt(() => kernel.deleteNftTables(tables))
  attempt(() => kernel.removeReturnParts(parts))
  // Our table of the netlink backend says what the setting was before; iptables has no place to write it down. Parts alone are of somebody who was
  // interrupted when he had changed it.
  const own = tables.find(isOwn)
  if (own !== undefined || hasOwnRules(views) || parts.length > 0)
    kernel.releaseTcpConnections(parseTcpLooseComment(own?.comment))
  if (failures.length > 0) throw failures[0]
}

/** Takes out chains and jumps of iptables, and nothing else. For a backend that keeps its rules elsewhere. Gives back whether there were any. */
export function removeIptablesLeftovers(kernel: PodKernel, work: PodWork, log: Logger): boolean {
  const views = lookForLeftovers(kernel, work, log).filter((view) => toText(view, work) !== '')
  for (const view of views) restore(kernel, work, view, toText(view, work))
  return views.length > 0
}

function lookForLeftovers(kernel: PodKernel, work: PodWork, log: Logger): readonly View[] {
  return lookAt(kernel, { work, options: undefined, log })
}

/** Views of all families and variants; `options` are what is wanted in the variant in use, nothing is in the other. */
function lookAt(
  kernel: PodKernel,
  { work, options, log }: { work: PodWork; options: PodRuleOptions | undefined; log: Logger },
): readonly View[] {
  const order = variants.toSorted((a, b) => Number(b === work.variant) - Number(a === work.variant))
  const chains = kernel.listNftChains()
  return order.flatMap((variant) =>
    families.flatMap((family): View[] => {
      const isWanted = options !== undefined && variant === work.variant && selectFamilies(options).includes(family)
      const tools = work.tools[variant][family]
      if (tools === undefined && isWanted) {
        throw new Fatal(`the programs of iptables-${variant} for IPv${family} are not installed`)
      }
      const held = variant === 'legacy' ? kernel.listLegacyTables(family) : selectNftTables(chains, family)
      const isInteresting = held.some((table) => tableNames.includes(table) || table === 'filter')
      if (tools === undefined) {
        if (isInteresting) {
          log.debug({ variant, family }, 'tables of an iptables that is not installed stay as they are in a pod')
        }
        return []
      }
      if (!isInteresting && !isWanted) return []
      const dump = isInteresting ? takeDump(kernel, tools, variant === 'legacy' ? held : []) : noDump
      const wanted = isWanted ? selectWanted(family, options) : selectNothing()
      return [{ variant, family, dump, wanted: work.removeStrangeChains ? withFilter(wanted) : wanted }]
    }),
  )
}

/** Tables of iptables-nft that hold chains with names such as ours. */
function selectNftTables(
  chains: readonly { readonly family: number; readonly table: string; readonly chain: string }[],
  family: Family,
): readonly string[] {
  const number = family === 4 ? nftFamily.ip : nftFamily.ip6
  return chains.filter((one) => one.family === number && one.chain.startsWith(strangePrefix)).map(({ table }) => table)
}

function takeDump(kernel: PodKernel, tools: FamilyTools, expected: readonly string[]): Dump {
  const dump = parseDump(mustRun(kernel.run, { file: tools.save, args: [] }).stdout)
  // Without the right to see them the program prints nothing and calls it success.
  const unseen = expected.find((table) => !dump.has(table))
  if (unseen === undefined) return dump
  throw new Retryable(`${tools.save} does not show the table ${unseen}; does the agent have the capability NET_RAW?`)
}

function isOwnChain(table: string, chain: string): boolean {
  return tableNames.includes(table) && ownNames.includes(chain)
}

function toIsOurs({ removeStrangeChains }: PodWork): IsOurs {
  return (table, chain) => isOwnChain(table, chain) || (removeStrangeChains && chain.startsWith(strangePrefix))
}

function withFilter(wanted: ReadonlyMap<string, WantedTable>): ReadonlyMap<string, WantedTable> {
  return new Map([...wanted, ['filter', { chains: new Map(), jumps: [] }]])
}

function toText({ dump, wanted }: Pick<View, 'dump' | 'wanted'>, work: PodWork): string {
  return formatRestore(dump, wanted, toIsOurs(work))
}

function restore(kernel: PodKernel, work: PodWork, { variant, family }: View, stdin: string): void {
  const tools = work.tools[variant][family]
  if (stdin === '' || tools === undefined) return
  const { lockFile } = work
  mustRun(kernel.run, restoreInPodCommand(work.tools, { variant, file: tools.restore, stdin, lockFile }))
}

/** Puts back what was there before: each table changed as a whole or not at all, so that a fresh look tells which. */
function takeBack(
  kernel: PodKernel,
  work: PodWork,
  { views, parts, error }: { views: readonly View[]; parts: readonly ReturnPart[]; error: unknown },
): void {
  const failures: unknown[] = []
  const attempt = (step: () => void): void => {
    try {
      step()
    } catch (failure) {
      failures.push(failure)
    }
  }
  for (const view of views.toReversed()) {
    attempt(() => {
      const tools = work.tools[view.variant][view.family]
      if (tools === undefined) return
      const wanted = selectPresent(view.dump, view.wanted.keys(), toIsOurs(work))
      restore(kernel, work, view, toText({ dump: takeDump(kernel, tools, []), wanted }, work))
    })
  }
  attempt(() => kernel.removeReturnParts(parts))
  if (failures.length === 0) return
  throw new Retryable('rules in a pod could not be made, and what was made of them could not be taken back', {
    error,
    failures,
  })
}

/** The generation after our own commits; undefined when somebody else changed something meanwhile, so that the next check looks. */
function toOwnGeneration(
  kernel: PodKernel,
  before: number | undefined,
  { todo, work, leftovers }: { todo: readonly View[]; work: PodWork; leftovers: number },
): number | undefined {
  if (before === undefined) return undefined
  const commits = todo
    .filter(({ variant }) => variant === 'nft')
    .reduce(
      (sum, view) =>
        sum +
        toText(view, work)
          .split('\n')
          .filter((line) => line === 'COMMIT').length,
      0,
    )
  const after = kernel.readGeneration()
  return after === before + commits + (leftovers > 0 ? 1 : 0) ? after : undefined
}

function selectWantedParts(kernel: PodKernel, options: PodRuleOptions): readonly ReturnPart[] {
  const wanted = selectFamilies(options)
  const hasRoute = (family: Family): boolean => family === 4 || kernel.hasLoopback6()
  return allParts.filter(({ kind, family }) => wanted.includes(family) && (kind === 'rule' || hasRoute(family)))
}

function hasPart(parts: readonly ReturnPart[], part: ReturnPart): boolean {
  return parts.some(({ kind, family }) => kind === part.kind && family === part.family)
}

function hasOwnRules(views: readonly View[]): boolean {
  return views.some(({ dump, wanted }) => selectDumpState(dump, wanted, isOwnChain) !== 'absent')
}
