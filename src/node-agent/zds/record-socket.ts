// SPDX-License-Identifier: Apache-2.0
// One connected SEQPACKET socket on the main loop: records come in order, what the kernel does not take at once waits. Never closes a descriptor
// before its watch, never hands out a record after close().

import { closeDescriptor, receiveRecord, sendRecord, watchDescriptor } from './seqpacket.js'
import type { ReceivedRecord, Watch } from './seqpacket.js'

/** Records of one wake-up; a peer that talks without end must not starve the others. */
const recordsPerTurn = 64

export interface RecordSocketEvents {
  /** The descriptors in it are the receiver's to close. */
  onRecord(record: ReceivedRecord): void
  /** Once, unless close() came first. `error` is undefined at an orderly end. */
  onEnd(error: Error | undefined): void
}

interface Waiting {
  readonly bytes: Uint8Array
  readonly descriptor: number | undefined
  readonly settle: (error?: Error) => void
}

export class RecordSocket {
  readonly fd: number
  readonly #waiting: Waiting[] = []
  #events: RecordSocketEvents | undefined
  #watch: Watch | undefined
  #isClosed = false

  /** Takes the descriptor over. */
  constructor(fd: number) {
    this.fd = fd
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Begins to read. */
  start(events: RecordSocketEvents): void {
    this.#events = events
    this.#watch = watchDescriptor(this.fd, { readable: true, writable: false }, (ready) => {
      // Reading comes first: what is read here was said before anything that is written below.
      if (ready.readable) this.#read(recordsPerTurn)
      if (ready.failed) this.#end(new Error('the socket is in error'))
      if (ready.writable) this.#write()
    })
  }

  /** Reads what has arrived without waiting to be woken. False when the socket ended meanwhile. */
  readNow(): boolean {
    this.#read(recordsPerTurn)
    return !this.#isClosed
  }

  /**
   * Resolves when the kernel has the record, and with it a reference of its own to the descriptor: only then may that be closed. Rejects when the
   * socket ends or is closed before.
   */
  send(bytes: Uint8Array, descriptor?: number): Promise<void> {
    if (this.#isClosed) return Promise.reject(new Error('the connection is closed'))
    if (this.#waiting.length === 0) {
      try {
        if (sendRecord(this.fd, bytes, descriptor)) return Promise.resolve()
      } catch (error) {
        return Promise.reject(error instanceof Error ? error : new Error(String(error)))
      }
    }
    return new Promise((resolve, reject) => {
      const settle = (error?: Error): void => (error === undefined ? resolve() : reject(error))
      this.#waiting.push({ bytes, descriptor, settle })
      this.#watch?.change({ readable: true, writable: true })
    })
  }

  /** Idempotent. What waits is rejected. */
  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#watch?.close()
    closeDescriptor(this.fd)
    for (const { settle } of this.#waiting.splice(0)) settle(new Error('the connection is closed'))
  }

  #read(most: number): void {
    for (let count = 0; count < most && !this.#isClosed; count++) {
      let record: ReturnType<typeof receiveRecord>
      try {
        record = receiveRecord(this.fd)
      } catch (error) {
        this.#end(error as Error)
        return
      }
      if (record === 'nothing') return
      if (record === 'end') {
        this.#end(undefined)
        return
      }
      if (this.#events === undefined) record.descriptors.forEach(closeDescriptor)
      else this.#events.onRecord(record)
    }
  }

  #write(): void {
    while (!this.#isClosed) {
      const next = this.#waiting[0]
      if (next === undefined) {
        this.#watch?.change({ readable: true, writable: false })
        return
      }
      try {
        if (!sendRecord(this.fd, next.bytes, next.descriptor)) return
      } catch (error) {
        this.#end(error as Error)
        return
      }
      this.#waiting.shift()
      next.settle()
    }
  }

  #end(error: Error | undefined): void {
    if (this.#isClosed) return
    this.close()
    this.#events?.onEnd(error)
  }
}
