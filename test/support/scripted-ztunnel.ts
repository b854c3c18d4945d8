// SPDX-License-Identifier: Apache-2.0
// The bare end of a connection to the agent, for conversations that are played byte by byte: says what it is told to, hands out what it receives.

import { closeSync, fstatSync } from 'node:fs'
import { RecordSocket } from '../../src/node-agent/zds/record-socket.js'
import { connectTo } from '../../src/node-agent/zds/seqpacket.js'

/** A record and the inodes of the files that came with it. */
export interface Heard {
  readonly hex: string
  readonly inodes: readonly bigint[]
}

export class ScriptedZtunnel {
  readonly #socket: RecordSocket
  readonly #heard: (Heard | 'end')[] = []
  #wake: (() => void) | undefined

  constructor(path: string) {
    this.#socket = new RecordSocket(connectTo(path))
    this.#socket.start({
      onRecord: ({ bytes, descriptors }) => {
        const inodes = descriptors.map((fd) => fstatSync(fd, { bigint: true }).ino)
        for (const fd of descriptors) closeSync(fd)
        this.#heard.push({ hex: bytes.toString('hex'), inodes })
        this.#wake?.()
      },
      onEnd: () => {
        this.#heard.push('end')
        this.#wake?.()
      },
    })
  }

  /** What has arrived and was not taken yet. */
  get waiting(): readonly (Heard | 'end')[] {
    return this.#heard
  }

  async say(hex: string, descriptor?: number): Promise<void> {
    await this.#socket.send(Buffer.from(hex, 'hex'), descriptor)
  }

  /** The next record, or the end, as soon as it is there. */
  async next(): Promise<Heard | 'end'> {
    for (;;) {
      const next = this.#heard.shift()
      if (next !== undefined) return next
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }

  /** Says yes to the next record and gives it. */
  async acknowledge(): Promise<Heard | 'end'> {
    const next = await this.next()
    await this.say('0a00')
    return next
  }

  close(): void {
    this.#socket.close()
  }
}
