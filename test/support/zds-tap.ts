// SPDX-License-Identifier: Apache-2.0
// Stands between a ztunnel and the agent's socket, passes every record on with its descriptor, and keeps what was said. For tests that compare both sides of a
// conversation. Adds nothing and holds nothing back.

import { fstatSync, rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { decodeAcknowledgement } from '../../src/node-agent/zds/messages.js'
import { RecordSocket } from '../../src/node-agent/zds/record-socket.js'
import { acceptOne, closeDescriptor, connectTo, listenAt } from '../../src/node-agent/zds/seqpacket.js'
import { decodeRequest } from './zds-messages.js'

/** One message of the agent, and whether ztunnel said yes; undefined while it has not answered. */
export interface TappedMessage {
  readonly kind: string
  readonly uid: string
  readonly hex: string
  readonly inodes: readonly bigint[]
  refused: boolean | undefined
}

export class ZdsTap {
  /** What was said on each connection, in the order in which they came. */
  readonly conversations: TappedMessage[][] = []
  readonly #path: string
  readonly #agent: string
  readonly #sockets = new Set<RecordSocket>()
  #listener: number | undefined
  #isOpen = false

  /** ztunnels come to `path`; the agent is at `agent`. */
  constructor(path: string, agent: string) {
    this.#path = path
    this.#agent = agent
  }

  /** Listens; to be called when the agent does. */
  open(): void {
    this.#listener = listenAt(this.#path, 16)
    this.#isOpen = true
    void this.#accept()
  }

  /** Ends what goes on, as when the agent is gone. Idempotent. */
  close(): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    if (this.#listener !== undefined) closeDescriptor(this.#listener)
    rmSync(this.#path, { force: true })
    for (const socket of this.#sockets) socket.close()
    this.#sockets.clear()
  }

  async #accept(): Promise<void> {
    while (this.#isOpen && this.#listener !== undefined) {
      const fd = acceptOne(this.#listener)
      if (fd === undefined) await sleep(2)
      else this.#join(new RecordSocket(fd), new RecordSocket(connectTo(this.#agent)))
    }
  }

  #join(ztunnel: RecordSocket, agent: RecordSocket): void {
    const said: TappedMessage[] = []
    this.conversations.push(said)
    let answered = -1
    const pass = (from: RecordSocket, to: RecordSocket, note: (bytes: Uint8Array, fds: readonly number[]) => void) => {
      this.#sockets.add(from)
      from.start({
        onRecord: ({ bytes, descriptors }) => {
          note(bytes, descriptors)
          // What ends the one side ends the other; a record on the way is lost then, as it would be without anyone in between.
          void to
            .send(bytes, descriptors[0])
            .catch(() => undefined)
            .finally(() => descriptors.forEach(closeDescriptor))
        },
        onEnd: () => to.close(),
      })
    }
    pass(ztunnel, agent, (bytes) => {
      const message = said[answered]
      if (message !== undefined) message.refused = decodeAcknowledgement(bytes) !== ''
      answered++
    })
    pass(agent, ztunnel, (bytes, descriptors) => {
      const request = decodeRequest(bytes)
      said.push({
        kind: request?.kind ?? 'nothing',
        uid: request === undefined || request.kind === 'snapshotSent' ? '' : request.uid,
        hex: Buffer.from(bytes).toString('hex'),
        inodes: descriptors.map((fd) => fstatSync(fd, { bigint: true }).ino),
        refused: undefined,
      })
    })
  }
}
