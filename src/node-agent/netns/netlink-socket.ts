// SPDX-License-Identifier: Apache-2.0
// A netlink socket, made in the namespace that the thread is in and bound to it for good. For rules, routes and addresses. Knows no message's meaning.

import { closeFd, closeFdOffThread, openNetlink, receiveNow, send, sendAsync, setSendBuffer } from './sys.js'

// A dump comes in datagrams of at most 32 KiB.
const receiveBytes = 128 * 1024
let receiveBuffer: Buffer | undefined
// More than the pool can wait for at the same time help nobody.
const mostClosing = 64
let closing = 0

export class NetlinkSocket {
  readonly #fd: number
  #isOpen = true

  /** Called inside the namespace it is for. `protocol`: netlinkRoute or netlinkNetfilter. Throws SystemCallError. */
  constructor(protocol: number) {
    this.#fd = openNetlink(protocol)
  }

  /** For batches larger than the system's default of some 200 KiB. */
  setSendBuffer(bytes: number): void {
    setSendBuffer(this.#fd, bytes)
  }

  /** Sends one datagram; the kernel has done the work when this returns, and all its answers (of a dump: the first part) are there to be read. */
  send(bytes: Uint8Array): void {
    send(this.#fd, bytes)
  }

  /** The same off-thread. Do not close the socket before it is settled. */
  sendAsync(bytes: Uint8Array): Promise<void> {
    return sendAsync(this.#fd, bytes)
  }

  /** Everything that is there to be read, a dump to its end; never waits. One buffer per datagram, each may hold several messages. */
  receive(): Buffer[] {
    receiveBuffer ??= Buffer.allocUnsafeSlow(receiveBytes)
    const datagrams: Buffer[] = []
    for (;;) {
      const length = receiveNow(this.#fd, receiveBuffer)
      if (length === undefined) return datagrams
      datagrams.push(Buffer.from(receiveBuffer.subarray(0, length)))
    }
  }

  /** Idempotent. */
  close(): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    closeFd(this.#fd)
  }

  /**
   * The same without a wait. For sockets of netfilter: whoever closes one waits until nf_tables has cleared up after the latest transaction in the
   * namespace, which takes the kernel some 10 ms.
   */
  closeOffThread(): void {
    if (!this.#isOpen || closing >= mostClosing) {
      this.close()
      return
    }
    this.#isOpen = false
    closing += 1
    closeFdOffThread(this.#fd, () => {
      closing -= 1
    })
  }
}
