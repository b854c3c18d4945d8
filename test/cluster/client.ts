// SPDX-License-Identifier: Apache-2.0
// A client of type Address for the stories of this folder: knows what it holds, and which names came since it was last told to forget.

import { XdsClient, applyResponses, type ReceivedResource } from '../support/xds-client.js'

/** Names, sorted, each once. */
export interface News {
  readonly sent: readonly string[]
  readonly removed: readonly string[]
}

/** Nothing came. */
export const nothing: News = { sent: [], removed: [] }

const sorted = (names: Iterable<string>): string[] => [...new Set(names)].sort()

export class RoomClient {
  readonly client: XdsClient
  #from = 0

  constructor(client: XdsClient) {
    this.client = client
  }

  static async connect(port: number, names: readonly string[]): Promise<RoomClient> {
    const client = new XdsClient({ port })
    client.send({ type: 'Address', subscribe: names })
    await client.receivedAtLeast(1)
    return new RoomClient(client)
  }

  /** What came since `forget`, or ever. */
  get news(): News {
    const responses = this.client.responses.slice(this.#from)
    return {
      sent: sorted(responses.flatMap(({ resources }) => resources.map(({ name }) => name))),
      removed: sorted(responses.flatMap(({ removed }) => removed)),
    }
  }

  /** Names that came more than once since `forget`. */
  get repeated(): readonly string[] {
    const seen = new Set<string>()
    const all = this.client.responses.slice(this.#from)
    const names = all.flatMap(({ resources, removed }) => [...resources.map(({ name }) => name), ...removed])
    return names.filter((name) => seen.size === seen.add(name).size)
  }

  /** How many responses came since `forget`, empty ones too. */
  get count(): number {
    return this.client.responses.length - this.#from
  }

  get held(): ReadonlyMap<string, ReceivedResource> {
    return applyResponses(this.client.responses)
  }

  forget(): void {
    this.#from = this.client.responses.length
  }

  /** Asks for more names and waits for one answer. */
  async subscribe(...names: string[]): Promise<void> {
    const before = this.client.received
    this.client.send({ type: 'Address', subscribe: names })
    await this.client.receivedAtLeast(before + 1)
  }

  ping(): Promise<void> {
    return this.client.ping()
  }

  close(): void {
    this.client.destroy()
  }
}
