// SPDX-License-Identifier: Apache-2.0
// Making, comparing and taking out a pod's rules over netlink, as jobs of a worker. Waits for the kernel off-thread, so that many pods wait at once.
// IP rule and route come before the rules and go after them: without rules they touch no packet, so nothing is ever half there.

import { existsSync, readFileSync } from 'node:fs'
import { Retryable } from '../../base/errors.js'
import type { PodRuleOptions, RuleState } from '../contracts.js'
import type { JobKey, WorkerPlace } from '../netns/job.js'
import { NetlinkSocket } from '../netns/netlink-socket.js'
import { netlinkRoute } from '../netns/sys.js'
import { NftKernel, RefusedBatch, toFailure } from './nft-kernel.js'
import { type NftLayout, toReplacement } from './nft-layout.js'
import { deleteTable, toBatch } from './nft-messages.js'
import { selectPlan } from './nft-plan.js'
import { type Seen, isClean, isOwn, isPlanned, isWhole, look } from './nft-seen.js'
import { formatExpressions } from './nft-text.js'
import {
  type ReturnPart,
  addReturnParts,
  formatReturnPart,
  removeReturnParts,
  selectPresentParts,
} from './rtnetlink.js'
import { selectFamilies } from './rule-table.js'
import {
  formatTcpLooseComment,
  hasTcpLooseSetting,
  holdTcpConnections,
  parseTcpLooseComment,
  releaseTcpConnections,
} from './tcp-loose.js'

export interface NftJobArgs {
  readonly options: PodRuleOptions
  readonly layout: NftLayout
  readonly removeStrangeChains: boolean
  /** The generation at which these rules were seen whole. */
  readonly known: number | undefined
}

export interface NftApplyResult {
  /** At which the rules are whole; undefined when somebody else committed meanwhile. */
  readonly generation: number | undefined
  readonly changed: boolean
  /** Tables of iptables-legacy are in use in the namespace. */
  readonly hasLegacy: boolean
  /** No rule of ours was there before. */
  readonly wasAbsent: boolean
  /** Names of what others or earlier releases had left. */
  readonly removed: readonly string[]
}

export interface NftCheckResult {
  readonly state: RuleState
  readonly generation: number
}

export const applyNftJob = 'rules/nft-apply' as JobKey<NftJobArgs, NftApplyResult>
export const checkNftJob = 'rules/nft-check' as JobKey<NftJobArgs, NftCheckResult>
export const removeNftJob = 'rules/nft-remove' as JobKey<{ readonly removeStrangeChains: boolean }, NftRemoveResult>

export const showNftJob = 'rules/nft-show' as JobKey<{ readonly removeStrangeChains: boolean }, readonly string[]>

export interface NftRemoveResult {
  readonly removed: readonly string[]
  readonly hasLegacy: boolean
}

const mostTries = 5
const allParts: readonly ReturnPart[] = ([4, 6] as const).flatMap((family): readonly ReturnPart[] => [
  { kind: 'route', family },
  { kind: 'rule', family },
])

/** Makes the rules exactly these. Throws InvalidInput or Retryable, and then nothing of this call is left. */
export function applyNft(place: WorkerPlace, args: NftJobArgs): Promise<NftApplyResult> {
  return withKernel(place, async (kernel, route) => {
    const wanted = selectWantedParts(place, args.options)
    const unwanted = allParts.filter((part) => !wanted.includes(part))
    const planned = selectPlan(args.options, args.layout).tables
    const seen = look(kernel, args)
    const present = selectPresentParts(route, allParts)
    if (isWhole(seen, planned) && isSameParts(wanted, present)) {
      return {
        generation: seen.generation,
        changed: false,
        hasLegacy: hasLegacyTables(place),
        wasAbsent: false,
        removed: [],
      }
    }
    const made = addReturnParts(route, wanted)
    const own = seen.tables.filter(isOwn)
    const before = await holdConnections(place, kernel)
    // Where IP rule or route are there, the setting is already ours: somebody took the table away, and the note with it.
    const isOurs = own.length > 0 || present.length > 0
    const comment = isOurs ? parseTcpLooseComment(own[0]?.comment) : before
    let done: NftApplyResult
    try {
      const result = await replace(kernel, { args, seen, comment: formatTcpLooseComment(comment) })
      done = { ...result, changed: true, hasLegacy: hasLegacyTables(place), wasAbsent: own.length === 0 }
    } catch (error) {
      removeReturnParts(route, made)
      if (!isOurs) releaseTcpConnections(place, before)
      throw error
    }
    removeReturnParts(route, unwanted)
    return done
  })
}

/** Compares. Looks at nf_tables only when the generation is not the known one; at IP rules and routes, which have none, every time. */
export function checkNft(place: WorkerPlace, args: NftJobArgs): Promise<NftCheckResult> {
  return withKernel(place, (kernel, route) => {
    const wanted = selectWantedParts(place, args.options)
    const seen = look(kernel, args)
    const present = selectPresentParts(route, allParts)
    const planned = selectPlan(args.options, args.layout).tables
    const isComplete = isWhole(seen, planned) && isSameParts(wanted, present)
    const hasNothing = !seen.isKnown && !seen.tables.some(isOwn) && isClean(seen)
    const isUnfinished = hasNothing && present.every((part) => wanted.includes(part))
    const isAbsent = hasNothing && present.length === 0
    const state = isComplete ? 'complete' : isAbsent ? 'absent' : isUnfinished ? 'unfinished' : 'different'
    return Promise.resolve({ state, generation: seen.generation })
  })
}

/** Takes out everything of ours, of istio-cni and of earlier releases. What is not there is fine. */
export function removeNft(
  place: WorkerPlace,
  { removeStrangeChains }: { readonly removeStrangeChains: boolean },
): Promise<NftRemoveResult> {
  return withKernel(place, async (kernel, route) => {
    const present = selectPresentParts(route, allParts)
    const removed = await tryAgainWhenOvertaken(async () => {
      const seen = look(kernel, { known: undefined, removeStrangeChains, isOwnOpened: false })
      const own = seen.tables.filter(isOwn)
      const messages = [...own.map(deleteTable), ...seen.leftovers.messages]
      if (messages.length > 0) await kernel.commit(messages, seen.generation)
      // IP rule and route without our table are of the iptables backend, which writes nothing down, or of somebody who was interrupted: the setting is ours.
      if (own.length > 0 || present.length > 0) releaseTcpConnections(place, parseTcpLooseComment(own[0]?.comment))
      return seen.leftovers.names
    })
    removeReturnParts(route, allParts)
    return { removed, hasLegacy: hasLegacyTables(place) }
  })
}

async function holdConnections(place: WorkerPlace, kernel: NftKernel): Promise<string | undefined> {
  if (!hasTcpLooseSetting(place)) await kernel.loadConnectionTracking()
  return holdTcpConnections(place)
}

/** What is there of ours and of what apply() would take out, as lines for people; none when there is nothing. */
export function showNft(
  place: WorkerPlace,
  { removeStrangeChains }: { readonly removeStrangeChains: boolean },
): Promise<readonly string[]> {
  return withKernel(place, (kernel, route) => {
    const seen = look(kernel, { known: undefined, removeStrangeChains })
    const own = seen.tables
      .filter(isOwn)
      .flatMap((table) => [
        `table ${familyNames[table.family] ?? table.family} ${table.table}`,
        ...seen.chains
          .filter((chain) => chain.family === table.family && chain.table === table.table)
          .flatMap(({ chain }) => [
            `  ${chain}`,
            ...seen.rules
              .filter((rule) => rule.family === table.family && rule.table === table.table && rule.chain === chain)
              .map(({ expressions }) => `    ${formatExpressions(expressions)}`),
          ]),
      ])
    const parts = selectPresentParts(route, allParts).map(formatReturnPart)
    // Chains in tables that others share are shown by the programs they came by.
    const tables = seen.leftovers.names.filter((name) => !/^ip6? /.test(name))
    return Promise.resolve([...own, ...tables.map((name) => `not of this backend: ${name}`), ...parts])
  })
}

export const familyNames: Readonly<Record<number, string>> = { 1: 'inet', 2: 'ip', 10: 'ip6' }

/** One transaction: leftovers out, our tables anew. */
async function replace(
  kernel: NftKernel,
  { args, seen, comment }: { readonly args: NftJobArgs; readonly seen: Seen; readonly comment: string },
): Promise<{ generation: number | undefined; removed: readonly string[] }> {
  const plan = selectPlan(args.options, args.layout)
  let current: Seen | undefined = seen.isKnown ? undefined : seen
  return tryAgainWhenOvertaken(async () => {
    const { generation, tables, leftovers } = current ?? look(kernel, { ...args, known: undefined })
    current = undefined
    const unplanned = tables.filter((table) => isOwn(table) && !isPlanned(table, plan.tables))
    const others = [...leftovers.messages, ...unplanned.map(deleteTable)]
    const batch =
      others.length === 0
        ? plan.toBatch(comment)
        : toBatch([...others, ...toReplacement(plan.tables, comment)], generation)
    await kernel.commitBytes(batch)
    const after = kernel.readGeneration()
    return { generation: after === generation + 1 ? after : undefined, removed: leftovers.names }
  })
}

const overtaken = [85, 2]

/** Somebody else changed the tables between look and commit: look again. Refusals become errors of a class. */
async function tryAgainWhenOvertaken<T>(attempt: () => Promise<T>): Promise<T> {
  for (let left = mostTries; ; left -= 1) {
    try {
      return await attempt()
    } catch (error) {
      if (!(error instanceof RefusedBatch)) throw error
      const isOvertaken = overtaken.includes(error.errno)
      if (isOvertaken && left > 1) continue
      const where = error.at === undefined ? '' : ` (message ${error.at})`
      throw toFailure(`nf_tables refuses the rules of the pod: ${error.message}${where}`, error.errno)
    }
  }
}

function isSameParts(wanted: readonly ReturnPart[], present: readonly ReturnPart[]): boolean {
  return present.length === wanted.length && wanted.every((part) => present.includes(part))
}

function selectWantedParts(place: WorkerPlace, options: PodRuleOptions): readonly ReturnPart[] {
  const hasLo6 = options.ipv6 && place.inside(isLo6On)
  const families = selectFamilies(options)
  return allParts.filter(({ kind, family }) => families.includes(family) && (kind === 'rule' || family === 4 || hasLo6))
}

function isLo6On(): boolean {
  try {
    return readFileSync('/proc/sys/net/ipv6/conf/lo/disable_ipv6', 'utf8').trim() !== '1'
  } catch {
    return true
  }
}

/** The files list the tables that are in use in the thread's namespace. */
function hasLegacyTables(place: WorkerPlace): boolean {
  const files = ['/proc/thread-self/net/ip_tables_names', '/proc/thread-self/net/ip6_tables_names']
  return place.inside(() => files.some((file) => existsSync(file) && readFileSync(file, 'utf8') !== ''))
}

function openSockets(): { readonly kernel: NftKernel; readonly route: NetlinkSocket } {
  const kernel = new NftKernel()
  try {
    return { kernel, route: new NetlinkSocket(netlinkRoute) }
  } catch (error) {
    kernel.close()
    throw error
  }
}

async function withKernel<T>(
  place: WorkerPlace,
  work: (kernel: NftKernel, route: NetlinkSocket) => Promise<T>,
): Promise<T> {
  if (place.fd === undefined) throw new Retryable('no namespace to work in')
  const { kernel, route } = place.inside(openSockets)
  try {
    return await work(kernel, route)
  } finally {
    route.close()
    kernel.close()
  }
}
