// SPDX-License-Identifier: Apache-2.0
// Whether the kernel has nf_tables, as a job: asks for the generation of the namespace's rules and changes nothing.

import { Fatal } from '../../base/errors.js'
import { type JobKey, type WorkerPlace, insidePlace } from '../netns/job.js'
import { NetlinkSocket } from '../netns/netlink-socket.js'
import { SystemCallError, netlinkNetfilter } from '../netns/sys.js'
import { readErrno, readMessages } from './netlink.js'
import { isNftType, nftType, toGenerationRequest } from './nft-messages.js'

export const hasNfTablesJob = 'rules/has-nf-tables' as JobKey<undefined, boolean>

const errnoNotPermitted = 1

/** Throws Fatal when the process may not ask. */
export function hasNfTables(place: WorkerPlace): boolean {
  let socket: NetlinkSocket
  try {
    socket = insidePlace(place, () => new NetlinkSocket(netlinkNetfilter))
  } catch (error) {
    if (error instanceof SystemCallError && ['EPROTONOSUPPORT', 'EAFNOSUPPORT'].includes(error.code)) return false
    throw error
  }
  try {
    socket.send(toGenerationRequest())
    const answers = readMessages(socket.receive())
    if (answers.some((answer) => readErrno(answer) === errnoNotPermitted)) {
      throw new Fatal('the kernel does not let this process see its rules: the capability NET_ADMIN is missing')
    }
    return answers.some(({ type }) => isNftType(type, nftType.newGeneration))
  } finally {
    socket.close()
  }
}
