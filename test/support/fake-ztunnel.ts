// SPDX-License-Identifier: Apache-2.0
// The conversation of a ztunnel without its data path: what it holds by what it was told, and its demands, which wait as its connections do.

import { decodeAddress } from '../../src/wire/address-decoder.js'
import { formatIp } from '../../src/base/ip.js'
import { encodeEntry } from '../../src/wire/entry.js'
import type { Resource, ResourceSource, ResourceStore } from '../../src/xds/source.js'
import { applyResponses, XdsClient, type ReceivedResource } from './xds-client.js'

export interface FakeZtunnelOptions {
  readonly host?: string
  readonly port: number
  /** PEM of the roots of the server; without them it speaks plaintext. */
  readonly root?: string
  readonly token: string
  readonly node: string
  readonly onDemand: boolean
}

export class FakeZtunnel {
  readonly #options: FakeZtunnelOptions
  readonly #held = { Address: new Map<string, ReceivedResource>(), Authorization: new Map<string, ReceivedResource>() }
  /** Keys that were asked for and are remembered. */
  readonly #asked = new Set<string>()
  #client: XdsClient
  #applied = 0

  constructor(options: FakeZtunnelOptions) {
    this.#options = options
    this.#client = this.#connect(options.port)
  }

  #connect(port: number): XdsClient {
    const { host = '127.0.0.1', root, token, node, onDemand } = this.#options
    const client = new XdsClient({
      host,
      port,
      ...(root === undefined ? {} : { ca: root }),
      headers: { authorization: `Bearer ${token}`, clusterid: 'Kubernetes' },
      node: {
        id: 'ztunnel~127.0.0.1~ztunnel-test.istio-system~istio-system.svc.cluster.local',
        metadata: { NAME: 'ztunnel-test', NAMESPACE: 'istio-system', NODE_NAME: node },
      },
    })
    const { Address, Authorization } = this.#held
    const versions = (held: ReadonlyMap<string, ReceivedResource>): [string, string][] =>
      [...held.values()].map(({ name, version }) => [name, version])
    const all = onDemand ? { subscribe: ['*'], unsubscribe: ['*'] } : {}
    const asked = [...this.#asked].map((key): [string, string] => [key, ''])
    client.send({ type: 'Address', initial: Object.fromEntries([...asked, ...versions(Address)]), ...all })
    client.send({ type: 'Authorization', initial: Object.fromEntries(versions(Authorization)) })
    return client
  }

  /** Both types were answered. */
  async ready(): Promise<void> {
    await this.#client.until(
      () => ['Address', 'Authorization'].every((type) => this.#client.responses.some((r) => r.type === type)),
      'both types',
    )
  }

  /** As after the loss of its connection. */
  async reconnect(port: number): Promise<void> {
    this.#apply()
    this.#client.destroy()
    this.#applied = 0
    this.#client = this.#connect(port)
    await this.ready()
  }

  #apply(): void {
    const fresh = this.#client.responses.slice(this.#applied)
    this.#applied = this.#client.responses.length
    for (const response of fresh) {
      applyResponses([response], 'Address', this.#held.Address)
      applyResponses([response], 'Authorization', this.#held.Authorization)
      for (const name of response.removed) this.#asked.delete(name)
    }
  }

  /** What it holds, in the form of a store. */
  store(): ResourceStore {
    this.#apply()
    const toSource = (held: ReadonlyMap<string, ReceivedResource>): Pick<ResourceSource, 'all'> => ({
      all: () => [...held.values()].map(toResource),
    })
    const { Address, Authorization } = this.#held
    return {
      source: (typeUrl) => toSource(typeUrl.endsWith('Address') ? Address : Authorization) as ResourceSource,
      onCommit: () => undefined,
    }
  }

  /**
   * As a connection to `network/ip` does: known, or demanded, and demanded once more when that found nothing. Gives the names of what has the
   * address; rejects when it is left to wait.
   */
  async resolve(key: string): Promise<readonly string[]> {
    for (let attempt = 0; attempt < 2 && this.#owners(key).length === 0; attempt++) {
      const before = this.#client.responses.length
      this.#asked.add(key)
      this.#client.send({ type: 'Address', subscribe: [key] })
      // Aliases wake nobody.
      await this.#client.until(
        () =>
          this.#client.responses
            .slice(before)
            .some((r) => r.removed.includes(key) || r.resources.some(({ name }) => name === key)),
        `an answer about ${key}`,
      )
    }
    return this.#owners(key)
  }

  #owners(key: string): readonly string[] {
    this.#apply()
    return [...this.#held.Address.values()]
      .filter(({ hex }) => {
        const decoded = decodeAddress(Buffer.from(hex, 'hex'))
        const keys =
          decoded.kind === 'workload'
            ? decoded.workload.addresses.map((ip) => `${decoded.workload.network}/${formatIp(ip)}`)
            : decoded.service.addresses.map(({ network, address }) => `${network}/${formatIp(address)}`)
        return keys.includes(key)
      })
      .map(({ name }) => name)
      .sort()
  }

  close(): void {
    this.#client.destroy()
  }
}

function toResource({ name, version, hex }: ReceivedResource): Resource {
  const entry = encodeEntry({ name, version, typeUrl: '', body: Buffer.from(hex, 'hex') })
  return { name, version, aliases: [], entry, parents: [], node: '', ranges: [], bringsMembers: false }
}
