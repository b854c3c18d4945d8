// SPDX-License-Identifier: Apache-2.0
// Stands between a client and a server on loopback and fails as networks do: refuses, or goes silent without closing anything. Reads nothing.

import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'

export class TcpRelay {
  readonly #target: number
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  #isRefusing = false

  private constructor(target: number) {
    this.#target = target
    this.#server = createServer((socket) => this.#join(socket))
  }

  /** A relay on a free port to `target`, a port of 127.0.0.1. */
  static async open(target: number): Promise<TcpRelay> {
    const relay = new TcpRelay(target)
    relay.#server.listen(0, '127.0.0.1')
    await once(relay.#server, 'listening')
    return relay
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  /** Breaks what is open and everything new, until `accept`. */
  refuse(): void {
    this.#isRefusing = true
    for (const socket of this.#sockets) socket.destroy()
  }

  accept(): void {
    this.#isRefusing = false
  }

  /** Nothing passes over what is open now, and neither side is told. New connections work. */
  goSilent(): void {
    for (const socket of this.#sockets) {
      socket.unpipe()
      socket.removeAllListeners('close')
      socket.on('close', () => this.#sockets.delete(socket))
      // What still comes is taken and dropped: the sender's kernel finds nothing wrong.
      socket.resume()
    }
  }

  async close(): Promise<void> {
    this.refuse()
    this.#server.close()
    await once(this.#server, 'close')
  }

  #join(near: Socket): void {
    near.on('error', () => undefined)
    if (this.#isRefusing) {
      near.destroy()
      return
    }
    const far = connect(this.#target, '127.0.0.1')
    far.on('error', () => undefined)
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(one)
      one.setNoDelay(true)
      one.pipe(other)
      one.on('close', () => {
        this.#sockets.delete(one)
        other.destroy()
      })
    }
  }
}
