// SPDX-License-Identifier: Apache-2.0
// Which process is at the other end of a connection, across pid namespaces and reused numbers. For the server, which tells a restarted ztunnel from one
// that merely connected again. Only reads.

import { closeSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { openPeerProcess, readPeer } from './seqpacket.js'

/** Equal exactly while both are the same run of the same program. */
export interface ProcessIdentity {
  /** As the given procfs counts. */
  readonly pid: number
  /** Clock ticks from the start of the machine to the start of the process. */
  readonly startTicks: bigint
}

export interface Processes {
  /** undefined: it cannot be seen from here, or is gone. */
  identify(socket: number): ProcessIdentity | undefined
  isRunning(identity: ProcessIdentity): boolean
  /** This process; undefined when its own procfs does not show it. */
  readonly own: ProcessIdentity | undefined
}

export function formatIdentity(identity: ProcessIdentity): string {
  return `${identity.pid}@${identity.startTicks}`
}

/** `procRoot`: a procfs, as a rule the host's, whatever pid namespace this process is in. */
export function createProcesses(procRoot: string): Processes {
  const identityOf = (pid: number | undefined): ProcessIdentity | undefined => {
    if (pid === undefined || pid <= 0) return undefined
    const startTicks = readStartTicks(procRoot, String(pid))
    return startTicks === undefined ? undefined : { pid, startTicks }
  }
  const ownPid = readOwnPid(procRoot)
  return {
    own: identityOf(ownPid),
    identify(socket) {
      const descriptor = openPeerProcess(socket)
      if (descriptor !== undefined) {
        try {
          return identityOf(readDescribedPid(procRoot, descriptor))
        } finally {
          closeSync(descriptor)
        }
      }
      // A plain number counts in our own pid namespace. It says something in that procfs only where both are the same.
      return ownPid === process.pid ? identityOf(readPeer(socket).pid) : undefined
    },
    isRunning: ({ pid, startTicks }) => readStartTicks(procRoot, String(pid)) === startTicks,
  }
}

function readOwnPid(procRoot: string): number | undefined {
  try {
    const pid = Number(readlinkSync(join(procRoot, 'self')))
    return Number.isInteger(pid) ? pid : undefined
  } catch {
    // No procfs there: nobody can be told from anybody, which is the answer then.
    return undefined
  }
}

/** A procfs shows the process behind a descriptor by its own count: -1 when it is gone, 0 when it is out of sight. */
function readDescribedPid(procRoot: string, descriptor: number): number | undefined {
  try {
    const text = readFileSync(join(procRoot, 'self/fdinfo', String(descriptor)), 'utf8')
    const match = /^Pid:\s*(-?\d+)$/m.exec(text)
    return match === null ? undefined : Number(match[1])
  } catch {
    return undefined
  }
}

function readStartTicks(procRoot: string, pid: string): bigint | undefined {
  try {
    const text = readFileSync(join(procRoot, pid, 'stat'), 'utf8')
    // The name of the program stands in brackets and may hold anything.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    const isDead = fields[0] === 'Z' || fields[0] === 'X'
    const start = fields[19] ?? ''
    return isDead || !/^\d+$/.test(start) ? undefined : BigInt(start)
  } catch {
    return undefined
  }
}
