// SPDX-License-Identifier: Apache-2.0
// The probe set in nf_tables of the host, over netlink, as jobs of a worker: sets whose elements carry the pod's uid as their comment, and the rule that
// uses them. Each change is one transaction. Touches no table but the one it shares with istio-cni.

import { Retryable } from '../../base/errors.js'
import { formatIp, parseIp } from '../../base/ip.js'
import { type JobKey, type WorkerPlace, insidePlace } from '../netns/job.js'
import { NetlinkSocket } from '../netns/netlink-socket.js'
import { netlinkNetfilter } from '../netns/sys.js'
import { formatErrno } from './errno.js'
import { type HostRuleOptions, hostTable, planHostTable, probeSetNames, selectHostFamilies } from './host-rules.js'
import {
  createFlag,
  dumpFlag,
  readAttributes,
  readErrno,
  readMessages,
  readText,
  requestFlag,
  toAttribute,
  toBigEndian,
  toCString,
  toMessage,
  toNested,
  visitAttributes,
} from './netlink.js'
import { isAsPlanned } from './nft-dump.js'
import { NftKernel, RefusedBatch, toFailure } from './nft-kernel.js'
import {
  type NftMessage,
  addBaseChain,
  addRule,
  addTable,
  deleteChain,
  deleteRule,
  deleteTable,
  isNftType,
  parseComment,
  toComment,
} from './nft-messages.js'
import type { Family } from './rule-table.js'

/** Canonical address and the pod that it is exempt for. */
export interface ProbeEntry {
  readonly ip: string
  readonly uid: string
}

export const ensureNftProbesJob = 'probes/nft-ensure' as JobKey<HostRuleOptions, { readonly changed: boolean }>
export const putNftProbesJob = 'probes/nft-put' as JobKey<readonly ProbeEntry[], undefined>
export const dropNftProbesJob = 'probes/nft-drop' as JobKey<readonly string[], undefined>
export const listNftProbesJob = 'probes/nft-list' as JobKey<undefined, readonly ProbeEntry[]>
export const destroyNftProbesJob = 'probes/nft-destroy' as JobKey<undefined, undefined>

const setType = { add: 9, get: 10, remove: 11 } as const
const elementType = { add: 12, get: 13, remove: 14 } as const
const subsystem = 0x0a00
const headerBytes = 4
const families: readonly Family[] = [4, 6]
// As nft numbers the types of its sets, to show their elements as addresses.
const keyOf = { 4: { type: 7, length: 4 }, 6: { type: 8, length: 16 } } as const
const noSuch = 2
const none = Buffer.alloc(0)

/** Makes table, sets and rule where they are missing or different; elements stay. */
export function ensureNftProbes(place: WorkerPlace, options: HostRuleOptions): Promise<{ readonly changed: boolean }> {
  return withHost(place, async ({ kernel, ask }) => {
    const planned = planHostTable(options)
    const [chain] = planned.chains
    if (chain === undefined) throw new Error('the host table has a chain')
    const isHere = (one: { family: number; table: string }): boolean =>
      one.family === hostTable.family && one.table === hostTable.table
    const tables = kernel.listTables().filter((table) => isHere(table))
    const chains = kernel.listChains().filter((one) => isHere(one) && one.chain === chain.chain)
    const rules = tables.length === 0 ? [] : kernel.listRules(hostTable).filter((rule) => rule.chain === chain.chain)
    const sets =
      tables.length === 0 ? [] : readSets(ask(toDump(setType.get, toAttribute(1, toCString(hostTable.table)))))
    const wantedSets = selectHostFamilies(options)
    const odd = sets.filter(({ name, isRight }) => !isRight && families.some((f) => probeSetNames[f] === name))
    const missing = wantedSets.filter(
      (family) => !sets.some(({ name, isRight }) => name === probeSetNames[family] && isRight),
    )
    const isWhole = missing.length === 0 && odd.length === 0 && isAsPlanned([planned], { tables, chains, rules })
    if (isWhole && tables.every(({ flags }) => (flags & 1) === 0)) return { changed: false }
    const old = chains.flatMap((one): NftMessage[] => {
      const isSame = one.hook === chain.hook && one.priority === chain.priority && one.type === chain.type
      return isSame && one.policy === 1 ? [deleteRule(one)] : [deleteRule(one), deleteChain(one)]
    })
    await kernel.commit([
      addTable(hostTable),
      ...old,
      ...odd.map(({ name }) => toSetMessage(setType.remove, toAttribute(2, toCString(name)))),
      ...missing.map(addSet),
      addBaseChain(chain),
      ...chain.rules.map((rule) => addRule(chain, rule)),
    ])
    return { changed: true }
  })
}

/** The addresses are these pods' from now on. An element that is there keeps its comment when added again, so it is taken out in between. */
export function putNftProbes(place: WorkerPlace, entries: readonly ProbeEntry[]): Promise<undefined> {
  return withHost(place, async ({ kernel }) => {
    const messages = entries.flatMap(({ ip, uid }) => [
      toElement(elementType.add, ip),
      toElement(elementType.remove, ip),
      toElement(elementType.add, ip, uid),
    ])
    await kernel.commit(messages)
    return undefined
  })
}

/** Takes the addresses out: all, or none and Retryable when one of them is not there (any more). */
export function dropNftProbes(place: WorkerPlace, ips: readonly string[]): Promise<undefined> {
  return withHost(place, async ({ kernel }) => {
    if (ips.length > 0) await kernel.commit(ips.map((ip) => toElement(elementType.remove, ip)))
    return undefined
  })
}

export function listNftProbes(place: WorkerPlace): Promise<readonly ProbeEntry[]> {
  return withHost(place, ({ ask }) =>
    Promise.resolve(
      families.flatMap((family) => {
        const name = Buffer.concat([
          toAttribute(1, toCString(hostTable.table)),
          toAttribute(2, toCString(probeSetNames[family])),
        ])
        return ask(toDump(elementType.get, name)).flatMap(readElements)
      }),
    ),
  )
}

/** Takes the whole table out; without it nothing is to do. */
export function destroyNftProbes(place: WorkerPlace): Promise<undefined> {
  return withHost(place, async ({ kernel }) => {
    await kernel.commit([addTable(hostTable), deleteTable(hostTable)])
    return undefined
  })
}

interface Host {
  readonly kernel: NftKernel
  /** The bodies of the answers, headers cut off; none where what was asked for is not there. */
  readonly ask: (request: Request) => readonly Buffer[]
}

interface Request {
  readonly type: number
  readonly bytes: Buffer
}

async function withHost<T>(place: WorkerPlace, work: (host: Host) => Promise<T>): Promise<T> {
  const kernel = insidePlace(place, () => new NftKernel())
  try {
    const socket = insidePlace(place, () => new NetlinkSocket(netlinkNetfilter))
    try {
      return await work({ kernel, ask: (request) => ask(socket, request) })
    } finally {
      socket.closeOffThread()
    }
  } catch (error) {
    if (!(error instanceof RefusedBatch)) throw error
    const text = `nf_tables refuses a change of the probe set of the host: ${error.message}`
    // Somebody took the set or an entry away: it is made again, or looked for again.
    throw error.errno === noSuch ? new Retryable(text) : toFailure(text, error.errno)
  } finally {
    kernel.close()
  }
}

function ask(socket: NetlinkSocket, { type, bytes }: Request): readonly Buffer[] {
  socket.send(bytes)
  const answers = readMessages(socket.receive())
  for (const answer of answers) {
    const errno = readErrno(answer)
    if (errno !== undefined && errno !== 0 && errno !== noSuch) {
      throw toFailure(`cannot look at the probe set of the host: ${formatErrno(errno)}`, errno)
    }
  }
  return answers.filter((one) => isNftType(one.type, type - 1)).map(({ body }) => body.subarray(headerBytes))
}

function toDump(type: number, attributes: Buffer): Request {
  const header = Buffer.from([hostTable.family, 0, 0, 0])
  const head = { type: subsystem | type, flags: requestFlag | dumpFlag, sequence: 1 }
  return { type, bytes: toMessage(head, Buffer.concat([header, attributes])) }
}

function readSets(answers: readonly Buffer[]): readonly { readonly name: string; readonly isRight: boolean }[] {
  return answers.map((body) => {
    const found = readAttributes(body)
    const read = (type: number): number => found.get(type)?.readUInt32BE(0) ?? 0
    const name = readText(found.get(2))
    const isRight = families.some(
      (family) =>
        probeSetNames[family] === name &&
        read(3) === 0 &&
        read(4) === keyOf[family].type &&
        read(5) === keyOf[family].length,
    )
    return { name, isRight }
  })
}

/** Elements without a comment are of nobody that we know: their uid is empty. */
function readElements(body: Buffer): readonly ProbeEntry[] {
  const out: ProbeEntry[] = []
  visitAttributes(readAttributes(body).get(3) ?? none, (_, element) => {
    const parts = readAttributes(element)
    const key = readAttributes(parts.get(1) ?? none).get(1)
    if (key !== undefined) out.push({ ip: formatIp(key), uid: parseComment(parts.get(6)) ?? '' })
  })
  return out
}

function addSet(family: Family): NftMessage {
  const { type, length } = keyOf[family]
  const attributes = Buffer.concat([
    toAttribute(2, toCString(probeSetNames[family])),
    toAttribute(3, toBigEndian(0)),
    toAttribute(4, toBigEndian(type)),
    toAttribute(5, toBigEndian(length)),
    toAttribute(10, toBigEndian(family)),
  ])
  return toSetMessage(setType.add, attributes, createFlag)
}

function toSetMessage(type: number, attributes: Buffer, flags = 0): NftMessage {
  const table = toAttribute(1, toCString(hostTable.table))
  return { type, family: hostTable.family, flags, attributes: Buffer.concat([table, attributes]) }
}

function toElement(type: number, ip: string, uid?: string): NftMessage {
  const key = parseIp(ip)
  if (key === undefined) throw new Error(`${ip} is no address`)
  const comment = uid === undefined ? none : toAttribute(6, toComment(uid))
  const element = toNested(1, toNested(1, toAttribute(1, key)), comment)
  const set = toAttribute(2, toCString(probeSetNames[key.length === 4 ? 4 : 6]))
  return toSetMessage(type, Buffer.concat([set, toNested(3, element)]), type === elementType.add ? createFlag : 0)
}
