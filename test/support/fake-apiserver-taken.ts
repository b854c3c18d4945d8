// SPDX-License-Identifier: Apache-2.0
// Has the other side read what was written? For tests that make one change after another. Asks the kernel where it can: a loopback socket
// whose queues are empty on both sides has been read.

import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'

/** Waits until a condition holds, letting sockets work in between. Fails loudly after ten seconds of real time. */
export async function until(condition: () => boolean, what: string): Promise<void> {
  const end = performance.now() + 10_000
  while (!condition()) {
    if (performance.now() > end) throw new Error(`waited in vain: ${what}`)
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** Lets this process read and act on what has arrived. */
export async function ticks(count = 5): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve))
}

/** Resolves when everything written to these sockets has been read by their peers. */
export async function waitForRead(sockets: readonly Socket[]): Promise<void> {
  await until(() => sockets.every(isFlushed) && isRead(sockets), 'everything written is read')
  await ticks()
}

function isFlushed(socket: Socket): boolean {
  return socket.destroyed || socket.writableLength === 0
}

function isRead(sockets: readonly Socket[]): boolean {
  const open = sockets.filter((s) => !s.destroyed && s.localPort !== undefined && s.remotePort !== undefined)
  if (open.length === 0) return true
  const queues = readQueues()
  if (queues === undefined) return true // no such file here: the ticks that follow must do
  return open.every((s) => {
    const ours = queues.get(`${s.localPort}>${s.remotePort}`)
    const theirs = queues.get(`${s.remotePort}>${s.localPort}`)
    return (ours === undefined || ours.send === 0) && (theirs === undefined || theirs.receive === 0)
  })
}

/** Queue lengths by `local port>remote port`. */
function readQueues(): Map<string, { send: number; receive: number }> | undefined {
  const out = new Map<string, { send: number; receive: number }>()
  let table: string
  try {
    table = readFileSync('/proc/net/tcp', 'latin1')
  } catch {
    return undefined // not Linux
  }
  for (const line of table.split('\n').slice(1)) {
    const [, , local = '', remote = '', , queues = ''] = line.split(/\s+/)
    const port = (address: string): number => Number.parseInt(address.split(':')[1] ?? '', 16)
    const [send = '0', receive = '0'] = queues.split(':')
    out.set(`${port(local)}>${port(remote)}`, {
      send: Number.parseInt(send, 16),
      receive: Number.parseInt(receive, 16),
    })
  }
  return out
}
