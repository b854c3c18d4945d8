// SPDX-License-Identifier: Apache-2.0
// The user that kubelet runs as: probes come from its sockets. Read from the host's /proc, in pieces, so that a full node does not stall the loop.

import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { Retryable } from '../../base/errors.js'

const pidsPerTurn = 50

/** The real uid of the first kubelet in `procRoot` (k3s and MicroK8s run it inside a program of another name). Rejects with Retryable when there is none. */
export async function findKubeletUid(procRoot: string): Promise<number> {
  const pids = readdirSync(procRoot).filter((name) => /^\d+$/.test(name))
  for (const [i, pid] of pids.entries()) {
    if (i % pidsPerTurn === pidsPerTurn - 1) await setImmediate()
    const uid = readUid(join(procRoot, pid))
    if (uid !== undefined) return uid
  }
  throw new Retryable(`no kubelet runs on this node as far as ${procRoot} shows: is it the host's, with hostPID?`)
}

/** The real uid of this process if it is a kubelet; undefined when it is not, or has ended meanwhile. */
function readUid(folder: string): number | undefined {
  try {
    if (!isKubelet(folder)) return undefined
    const uid = /^Uid:\s+(\d+)/m.exec(readFileSync(join(folder, 'status'), 'utf8'))?.[1]
    return uid === undefined ? undefined : Number(uid)
  } catch {
    // It ended while we looked.
    return undefined
  }
}

function isKubelet(folder: string): boolean {
  const name = readFileSync(join(folder, 'comm'), 'utf8').trim()
  if (name === 'k3s' || name === 'k3s-server' || name === 'k3s-agent') return true
  if (name !== 'kubelet' && name !== 'kubelite') return false
  return readFileSync(join(folder, 'cmdline'), 'utf8')
    .toLowerCase()
    .split('\0')
    .some((word) => word.includes('kubelet'))
}
