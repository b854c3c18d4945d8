// SPDX-License-Identifier: Apache-2.0
// Conversations with nf_tables of one namespace: looking, and committing a transaction. For the jobs; decides nothing about rules.

import { InvalidInput, Retryable } from '../../base/errors.js'
import { NetlinkSocket } from '../netns/netlink-socket.js'
import { netlinkNetfilter } from '../netns/sys.js'
import { formatErrno, isWorthRetrying } from './errno.js'
import { type Received, readErrno, readMessages } from './netlink.js'
import {
  type FoundChain,
  type FoundRule,
  type FoundTable,
  readChains,
  readGeneration,
  readRules,
  readTables,
} from './nft-dump.js'
import { loadConnectionMark } from './nft-expressions.js'
import {
  type NftMessage,
  type NftTable,
  addBaseChain,
  addRule,
  addTable,
  deleteTable,
  hookNumber,
  nftFamily,
  nftType,
  toBatch,
  toDumpRequest,
  toGenerationRequest,
  toRuleDumpRequest,
} from './nft-messages.js'

/** A transaction that the kernel refused; nothing of it happened. */
export class RefusedBatch extends Error {
  constructor(
    readonly errno: number,
    /** Place of the first message that was refused, counted from 0; undefined when it is the batch as a whole. */
    readonly at: number | undefined,
  ) {
    super(formatErrno(errno))
    this.name = 'RefusedBatch'
  }
}

const generationRequest = toGenerationRequest()
const tableRequest = toDumpRequest(nftType.getTable, nftFamily.any)
const chainRequest = toDumpRequest(nftType.getChain, nftFamily.any)
// Below the system's default for a send buffer, with room for what the kernel counts besides the bytes.
const smallBatchBytes = 64 * 1024

export class NftKernel {
  readonly #socket: NetlinkSocket

  /** Called inside the namespace it is for. Throws SystemCallError. */
  constructor() {
    this.#socket = new NetlinkSocket(netlinkNetfilter)
  }

  close(): void {
    this.#socket.closeOffThread()
  }

  /** One number a namespace; every commit of anybody raises it by one. */
  readGeneration(): number {
    const generation = readGeneration(this.#ask(generationRequest))
    if (generation === undefined) throw new Retryable('nf_tables does not tell its generation')
    return generation
  }

  listTables(): readonly FoundTable[] {
    return readTables(this.#ask(tableRequest))
  }

  /** Of all tables. */
  listChains(): readonly FoundChain[] {
    return readChains(this.#ask(chainRequest))
  }

  listRules(table: NftTable): readonly FoundRule[] {
    return readRules(this.#ask(toRuleDumpRequest(table)))
  }

  /** All of it or nothing, waiting off-thread. Throws RefusedBatch. With `generation` refused as ERESTART when somebody was faster. */
  async commit(messages: readonly NftMessage[], generation?: number): Promise<void> {
    await this.commitBytes(toBatch(messages, generation))
  }

  async commitBytes(batch: Buffer): Promise<void> {
    if (batch.length > smallBatchBytes) this.#socket.setSendBuffer(batch.length * 4)
    await this.#socket.sendAsync(batch)
    const answers = readMessages(this.#socket.receive())
    const errnos = answers.map((answer) => ({ errno: readErrno(answer), sequence: answer.sequence }))
    const refused = errnos.find(({ errno }) => errno !== undefined && errno > 0)
    if (refused?.errno !== undefined) {
      throw new RefusedBatch(refused.errno, refused.sequence > 0 ? refused.sequence - 1 : undefined)
    }
    if (errnos.length === 0) throw new Retryable('nf_tables did not answer to a transaction')
  }

  /**
   * Makes the kernel load connection tracking, as the first rule that needs it would: by a transaction with such a rule whose last message must be refused,
   * so that nothing is left of it. Whatever becomes of it is fine.
   */
  async loadConnectionTracking(): Promise<void> {
    const table = { family: nftFamily.ip, table: 'addressd-load' }
    const chain = { ...table, chain: 'load', type: 'filter', hook: hookNumber.output, priority: 0 } as const
    const messages = [addTable(table), addBaseChain(chain), addRule(chain, loadConnectionMark()), deleteTable(nobody)]
    try {
      await this.commit(messages)
    } catch (error) {
      if (!(error instanceof RefusedBatch)) throw error
    }
  }

  #ask(request: Buffer): readonly Received[] {
    this.#socket.send(request)
    const answers = readMessages(this.#socket.receive())
    for (const answer of answers) {
      const errno = readErrno(answer)
      if (errno !== undefined && errno !== 0 && errno !== noSuch) {
        throw toFailure(`cannot look at the rules in the pod: ${formatErrno(errno)}`, errno)
      }
    }
    return answers
  }
}

const nobody: NftTable = { family: nftFamily.ip, table: 'addressd-no-such-table' }

// Of a table that went away between two looks.
const noSuch = 2

/** A refusal as the error of a class that callers decide by. */
export function toFailure(text: string, errno: number): Error {
  return isWorthRetrying(errno) ? new Retryable(text) : new InvalidInput(text)
}
