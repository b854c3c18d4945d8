// SPDX-License-Identifier: Apache-2.0
// What the jobs of the iptables backend see of one pod's kernel without starting a program: which tables there are, the generation, IP rule and route,
// tables of nftables backends. Used while the thread is inside the namespace; closed at the end.

import { readFileSync } from 'node:fs'
import { InvalidInput, Retryable, formatError } from '../../base/errors.js'
import type { WorkerPlace } from '../netns/job.js'
import { NetlinkSocket } from '../netns/netlink-socket.js'
import { SystemCallError, netlinkNetfilter, netlinkRoute } from '../netns/sys.js'
import { formatErrno, isWorthRetrying } from './errno.js'
import type { RunCommand } from './iptables-command.js'
import { type Received, readErrno, readMessages } from './netlink.js'
import { type FoundTable, readChains, readGeneration, readTables } from './nft-dump.js'
import { ownTables } from './nft-layout.js'
import {
  type NftChain,
  type NftTable,
  deleteTable,
  nftFamily,
  nftType,
  toBatch,
  toDumpRequest,
  toGenerationRequest,
} from './nft-messages.js'
import type { Family } from './rule-table.js'
import { holdTcpConnections, releaseTcpConnections } from './tcp-loose.js'
import { type ReturnPart, addReturnParts, removeReturnParts, selectPresentParts } from './rtnetlink.js'

/** The edge of the jobs: tests put a made-up one in its place. */
export interface PodKernel {
  readonly run: RunCommand
  /** Tables of iptables-legacy that exist in the namespace. Empty where the kernel has none of this family. */
  listLegacyTables(family: Family): readonly string[]
  /** Every chain of nf_tables, those of iptables-nft too. Empty where the kernel has none. */
  listNftChains(): readonly NftChain[]
  /** Tables that nftables backends made for pods: ours, and istio-cni's. */
  listNftBackendTables(): readonly FoundTable[]
  /** All or none of them; tables that have gone meanwhile are an error that is worth retrying. */
  deleteNftTables(tables: readonly NftTable[]): void
  /** Raised by every change of nf_tables in the namespace; undefined where there is no nf_tables. */
  readGeneration(): number | undefined
  addReturnParts(parts: readonly ReturnPart[]): readonly ReturnPart[]
  removeReturnParts(parts: readonly ReturnPart[]): void
  selectPresentParts(parts: readonly ReturnPart[]): readonly ReturnPart[]
  /** Whether lo takes a route of IPv6. */
  hasLoopback6(): boolean
  /** As in tcp-loose. */
  holdTcpConnections(): string | undefined
  releaseTcpConnections(before: string | undefined): void
}

const istioTables = ['istio-ambient-nat', 'istio-ambient-mangle', 'istio-ambient-raw']

export class NetnsKernel implements PodKernel {
  readonly #place: WorkerPlace
  readonly #route: NetlinkSocket
  readonly #netfilter: NetlinkSocket | undefined

  /** Called inside the namespace. */
  constructor(
    place: WorkerPlace,
    readonly run: RunCommand,
  ) {
    this.#place = place
    this.#route = new NetlinkSocket(netlinkRoute)
    this.#netfilter = openNetfilter()
  }

  close(): void {
    this.#route.close()
    this.#netfilter?.close()
  }

  listLegacyTables(family: Family): readonly string[] {
    try {
      // That of the thread: the process itself is in another namespace.
      const text = readFileSync(`/proc/thread-self/net/ip${family === 6 ? '6' : ''}_tables_names`, 'utf8')
      return text.split('\n').filter((name) => name !== '')
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return []
      throw new Retryable(`cannot see which tables of iptables-legacy there are: ${formatError(error)}`, error)
    }
  }

  listNftChains(): readonly NftChain[] {
    return readChains(this.#ask(toDumpRequest(nftType.getChain, nftFamily.any)))
  }

  listNftBackendTables(): readonly FoundTable[] {
    return readTables(this.#ask(toDumpRequest(nftType.getTable, nftFamily.any))).filter(({ family, table }) => {
      const isIstios = family === nftFamily.inet && istioTables.includes(table)
      return isIstios || ownTables.some((own) => own.family === family && own.table === table)
    })
  }

  deleteNftTables(tables: readonly NftTable[]): void {
    if (tables.length === 0) return
    const errno = this.#ask(toBatch(tables.map(deleteTable)))
      .map(readErrno)
      .find((code) => code !== undefined && code !== 0)
    if (errno === undefined) return
    const names = tables.map(({ table }) => table).join(', ')
    const text = `cannot remove the tables ${names} from the pod: ${formatErrno(errno)}`
    const isGone = formatErrno(errno) === 'ENOENT'
    throw isGone || isWorthRetrying(errno) ? new Retryable(text) : new InvalidInput(text)
  }

  readGeneration(): number | undefined {
    return readGeneration(this.#ask(toGenerationRequest()))
  }

  addReturnParts(parts: readonly ReturnPart[]): readonly ReturnPart[] {
    return addReturnParts(this.#route, parts)
  }

  removeReturnParts(parts: readonly ReturnPart[]): void {
    removeReturnParts(this.#route, parts)
  }

  selectPresentParts(parts: readonly ReturnPart[]): readonly ReturnPart[] {
    return selectPresentParts(this.#route, parts)
  }

  hasLoopback6(): boolean {
    try {
      return readFileSync('/proc/sys/net/ipv6/conf/lo/disable_ipv6', 'utf8').trim() !== '1'
    } catch {
      // Where it cannot be read nobody has switched it off.
      return true
    }
  }

  holdTcpConnections(): string | undefined {
    return holdTcpConnections(this.#place)
  }

  releaseTcpConnections(before: string | undefined): void {
    releaseTcpConnections(this.#place, before)
  }

  #ask(request: Buffer): readonly Received[] {
    if (this.#netfilter === undefined) return []
    this.#netfilter.send(request)
    return readMessages(this.#netfilter.receive())
  }
}

/** Undefined where the kernel has no netfilter over netlink. */
function openNetfilter(): NetlinkSocket | undefined {
  try {
    return new NetlinkSocket(netlinkNetfilter)
  } catch (error) {
    if (error instanceof SystemCallError && error.code === 'EPROTONOSUPPORT') return undefined
    throw error
  }
}
