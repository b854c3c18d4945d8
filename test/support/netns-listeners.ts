// SPDX-License-Identifier: Apache-2.0
// Listening sockets inside network namespaces, for a fake ztunnel: made while this thread is inside for the moment of the calls, served from outside.
// Every connection is answered with a line that names the port. Needs root.

import { closeSync, openSync } from 'node:fs'
import { createServer } from 'node:net'
import type { Server } from 'node:net'
import koffi from 'koffi'
import { setNetns } from '../../src/node-agent/netns/sys.js'
import { SocketError } from '../../src/node-agent/zds/seqpacket.js'

const libc = koffi.load(null)
const call = {
  socket: libc.func('int socket(int, int, int)'),
  setsockopt: libc.func('int setsockopt(int, int, int, const void *, uint32_t)'),
  bind: libc.func('int bind(int, const void *, uint32_t)'),
  listen: libc.func('int listen(int, int)'),
}
const AF_INET = 2
const AF_INET6 = 10
const streamSocket = 1 | 0o2000000 | 0o4000
const SOL_SOCKET = 1
const SO_REUSEPORT = 15

export const ztunnelPorts = [15001, 15006, 15008] as const

export class NetnsListeners {
  readonly #servers = new Map<number, Server[]>()

  /** All ports in the namespace of the descriptor, or none. Throws SocketError when one is taken. */
  open(netns: number): void {
    const fds = listenInside(netns, ztunnelPorts)
    this.#servers.set(
      netns,
      fds.map((fd, i) => {
        const line = `ztunnel ${ztunnelPorts[i] ?? ''}\n`
        const server = createServer((socket) => {
          socket.on('error', () => undefined)
          socket.end(line)
        })
        return server.listen({ fd })
      }),
    )
  }

  /** Closes what was opened for the descriptor, if anything. */
  close(netns: number): void {
    for (const server of this.#servers.get(netns) ?? []) server.close()
    this.#servers.delete(netns)
  }
}

/** Listening sockets, all of them or none, in the namespace of the descriptor. Throws SocketError when a port is taken. */
export function listenInside(netns: number, ports: readonly number[]): readonly number[] {
  const fds: number[] = []
  const home = openSync('/proc/thread-self/ns/net', 'r')
  try {
    setNetns(netns)
    for (const port of ports) fds.push(listenOn(port))
    return fds
  } catch (error) {
    fds.forEach((fd) => closeSync(fd))
    throw error
  } finally {
    setNetns(home)
    closeSync(home)
  }
}

/** Both families where the namespace has IPv6. */
function listenOn(port: number): number {
  let family = AF_INET6
  let fd = call.socket(AF_INET6, streamSocket, 0) as number
  if (fd < 0) {
    family = AF_INET
    fd = call.socket(AF_INET, streamSocket, 0) as number
  }
  const address = Buffer.alloc(family === AF_INET6 ? 28 : 16)
  address.writeUInt16LE(family, 0)
  address.writeUInt16BE(port, 2)
  const one = Buffer.from([1, 0, 0, 0])
  const steps = [
    ['setsockopt', () => call.setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, one, 4) as number],
    ['bind', () => call.bind(fd, address, address.length) as number],
    ['listen', () => call.listen(fd, 128) as number],
  ] as const
  for (const [name, step] of steps) {
    if (step() === 0) continue
    const error = new SocketError(`${name} ${port}`, koffi.errno())
    closeSync(fd)
    throw error
  }
  return fd
}
