// SPDX-License-Identifier: Apache-2.0
// Finds the namespaces of pods by looking at every process of the node. Runs in a worker thread; a process that goes away or cannot be read is passed
// over, and never ends the scan.

import { fstatSync, readFileSync, readdirSync, statSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { Retryable, formatError } from '../../base/errors.js'
import { formatIp, parseIp } from '../../base/ip.js'
import type { WantedPod } from '../contracts.js'
import { parseCgroup } from './cgroup.js'
import { listInterfaceAddresses } from './interface-addresses.js'
import type { JobKey, WorkerPlace } from './job.js'
import { formatNetns } from './netns.js'
import { closeFd, openFile } from './sys.js'

export interface ProcessScan {
  /** The node's /proc. */
  readonly procRoot: string
  readonly pods: readonly WantedPod[]
  /** Namespaces that are no pod's, as formatNetns writes them; that of process 1 is always one. */
  readonly excluded: readonly string[]
}

export interface FoundNetns {
  readonly uid: string
  /** Open, and the receiver's to close. */
  readonly fd: number
}

export interface ScanResult {
  readonly found: readonly FoundNetns[]
  /** Pods of which some process has a network namespace of its own, whatever its addresses. */
  readonly seen: readonly string[]
}

interface Candidate {
  readonly fd: number
  /** In the kernel's ticks since the node started. */
  readonly startTime: number
}

export const scanProcessesJob = 'netns/scan-processes' as JobKey<ProcessScan, ScanResult>

// Between two portions the thread's other jobs get their turn.
const portion = 100

/** Throws Retryable when the node's /proc or its first process cannot be read: without the latter the node's own namespace is not known. */
export async function scanProcesses(
  place: WorkerPlace,
  { procRoot, pods, excluded }: ProcessScan,
): Promise<ScanResult> {
  const scan = new Scan(place, procRoot, pods, new Set(excluded))
  try {
    const processes = scan.listProcesses()
    for (const [i, pid] of processes.entries()) {
      if (i % portion === portion - 1) await nextTurn()
      scan.lookAt(pid)
    }
    return scan.result()
  } catch (error) {
    scan.closeAll()
    throw error
  }
}

class Scan {
  readonly #wanted: ReadonlyMap<string, ReadonlySet<string>>
  readonly #taken = new Set<string>()
  readonly #found = new Map<string, Candidate>()
  readonly #seen = new Set<string>()
  readonly #passedOver: string[] = []

  constructor(
    readonly place: WorkerPlace,
    readonly procRoot: string,
    pods: readonly WantedPod[],
    readonly excluded: Set<string>,
  ) {
    this.#wanted = new Map(pods.map(({ uid, ips }) => [uid, new Set(ips.map(toComparable))]))
  }

  listProcesses(): string[] {
    try {
      this.excluded.add(this.#identify('1'))
      return readdirSync(this.procRoot)
        .filter((name) => /^[0-9]+$/.test(name))
        .sort()
    } catch (error) {
      throw new Retryable(`cannot look through the node's processes in ${this.procRoot}: ${formatError(error)}`, error)
    }
  }

  lookAt(pid: string): void {
    try {
      this.#consider(pid)
    } catch (error) {
      this.#passedOver.push(`${pid}: ${formatError(error)}`)
    }
  }

  result(): ScanResult {
    if (this.#passedOver.length > 0) {
      const fields = { count: this.#passedOver.length, first: this.#passedOver[0] }
      this.place.log.debug(fields, 'processes were passed over in the search for namespaces')
    }
    return { found: [...this.#found].map(([uid, { fd }]) => ({ uid, fd })), seen: [...this.#seen] }
  }

  closeAll(): void {
    for (const { fd } of this.#found.values()) closeFd(fd)
    this.#found.clear()
  }

  #consider(pid: string): void {
    const netns = this.#identify(pid)
    if (this.excluded.has(netns) || this.#taken.has(netns)) return
    const { podUid } = parseCgroup(readFileSync(`${this.procRoot}/${pid}/cgroup`, 'utf8'))
    const addresses = this.#wanted.get(podUid)
    if (addresses === undefined || addresses.size === 0) return
    this.#seen.add(podUid)
    const startTime = parseStartTime(readFileSync(`${this.procRoot}/${pid}/stat`, 'utf8'))
    const fd = openFile(`${this.procRoot}/${pid}/ns/net`)
    let keeps = false
    try {
      // The number may be another process's by now.
      if (identifyOpen(fd) !== netns || !this.#holdsOne(fd, addresses)) return
      this.#taken.add(netns)
      keeps = this.#offer(podUid, { fd, startTime })
    } finally {
      if (!keeps) closeFd(fd)
    }
  }

  /** A process may say that it is of any pod; the address cannot be another's. */
  #holdsOne(fd: number, addresses: ReadonlySet<string>): boolean {
    return this.place.insideOf(fd, listInterfaceAddresses).some((address) => addresses.has(toComparable(address)))
  }

  /** Of two namespaces that could be the pod's, the one whose process is older. */
  #offer(uid: string, candidate: Candidate): boolean {
    const rival = this.#found.get(uid)
    if (rival !== undefined && rival.startTime < candidate.startTime) return false
    this.#found.set(uid, candidate)
    if (rival !== undefined) closeFd(rival.fd)
    return true
  }

  #identify(pid: string): string {
    const { ino, dev } = statSync(`${this.procRoot}/${pid}/ns/net`, { bigint: true })
    return formatNetns({ inode: ino, device: dev })
  }
}

function identifyOpen(fd: number): string {
  const { ino, dev } = fstatSync(fd, { bigint: true })
  return formatNetns({ inode: ino, device: dev })
}

/** Field 22 of a process's stat. The second field is the program's name in brackets and may hold blanks and brackets itself. */
export function parseStartTime(stat: string): number {
  const fields = stat
    .slice(stat.lastIndexOf(')') + 1)
    .trim()
    .split(/\s+/)
  const startTime = Number(fields[19] ?? NaN)
  if (!stat.includes(')') || !Number.isInteger(startTime))
    throw new Error('the stat of a process does not say when it started')
  return startTime
}

/** Canonical, IPv4-mapped as IPv4. What is no address equals nothing that is one. */
function toComparable(text: string): string {
  const bytes = parseIp(text)
  if (bytes === undefined) return text
  const formatted = formatIp(bytes)
  return formatted.startsWith('::ffff:') && formatted.includes('.') ? formatted.slice(7) : formatted
}
