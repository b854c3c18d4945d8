// SPDX-License-Identifier: Apache-2.0
// A node that forwards between two pods and a host outside, with applications in each, and an eye on the connections that cross the node. For tests in
// which a real ztunnel carries what pods say. Knows no rules and no ztunnel. Needs root and nft.

import { NetnsCaller } from './netns-caller.js'
import { createTestNetworks, type TestNetns, type TestNetworks } from './test-netns.js'
import { probeAddress4, probeAddress6 } from './packet-room.js'

export type Place = 'node' | 'podA' | 'podB' | 'outside'

const links = {
  podA: { addresses: ['10.244.1.5/24', 'fd00:244:1::5/64'], gateways: ['10.244.1.1/24', 'fd00:244:1::1/64'] },
  podB: { addresses: ['10.244.2.5/24', 'fd00:244:2::5/64'], gateways: ['10.244.2.1/24', 'fd00:244:2::1/64'] },
  outside: { addresses: ['10.99.0.2/24', 'fd00:99::2/64'], gateways: ['10.99.0.1/24', 'fd00:99::1/64'] },
} as const

const withoutLength = (prefix: string): string => prefix.replace(/\/.*/, '')

/** Address of a place: the IPv4 one, or the IPv6 one. */
export function addressOf(place: keyof typeof links, family: 4 | 6 = 4): string {
  return withoutLength(links[place].addresses[family === 4 ? 0 : 1])
}

/** Every first packet of a TCP connection that comes to the node from one of its links, each pair of ends once. */
const watchRules = `
table inet watch {
  set seen4 { type ipv4_addr . ipv4_addr . inet_service; flags dynamic; size 4096; }
  set seen6 { type ipv6_addr . ipv6_addr . inet_service; flags dynamic; size 4096; }
  chain come {
    type filter hook prerouting priority -500;
    tcp flags & (syn | ack) == syn ip version 4 add @seen4 { ip saddr . ip daddr . tcp dport }
    tcp flags & (syn | ack) == syn ip6 version 6 add @seen6 { ip6 saddr . ip6 daddr . tcp dport }
  }
}
`

export class TrafficRoom {
  readonly netns: Readonly<Record<Place, TestNetns>>
  readonly #networks: TestNetworks = createTestNetworks()
  readonly #callers = new Map<Place, NetnsCaller>()

  private constructor(label: string) {
    const places: readonly Place[] = ['node', 'podA', 'podB', 'outside']
    this.netns = Object.fromEntries(
      places.map((place) => [place, this.#networks.add(`${label}-${place.toLowerCase()}`)]),
    ) as Record<Place, TestNetns>
  }

  static async open(label: string): Promise<TrafficRoom> {
    const room = new TrafficRoom(label)
    try {
      await room.#open()
      return room
    } catch (error) {
      room.close()
      throw error
    }
  }

  /** The applications of a place. */
  at(place: Place): NetnsCaller {
    const caller = this.#callers.get(place)
    if (caller === undefined) throw new Error(`nobody is at ${place}`)
    return caller
  }

  /** `source -> destination:port` of the connections that came to the node since the last forgetting, sorted. */
  connectionsSeen(): readonly string[] {
    return ['seen4', 'seen6']
      .flatMap((set) => {
        const { nftables } = JSON.parse(this.netns.node.run(['nft', '-j', 'list', 'set', 'inet', 'watch', set])) as {
          nftables: readonly { readonly set?: { readonly elem?: readonly { readonly concat: readonly unknown[] }[] } }[]
        }
        return nftables.flatMap(({ set: listed }) => listed?.elem ?? [])
      })
      .map(({ concat: [from, to, port] }) => `${String(from)} -> ${String(to)}:${String(port)}`)
      .sort()
  }

  /** One more namespace, with an address but without a way to the others. */
  addApart(label: string, address: string): TestNetns {
    const netns = this.#networks.add(label)
    netns.run(['ip', 'link', 'add', 'eth0', 'type', 'bridge'])
    netns.run(['ip', 'link', 'set', 'eth0', 'up'])
    netns.addAddress(`${address}/32`, 'eth0')
    return netns
  }

  forgetConnections(): void {
    this.netns.node.run(['nft', '-f', '-'], 'flush set inet watch seen4\nflush set inet watch seen6\n')
  }

  close(): void {
    for (const caller of this.#callers.values()) caller.close()
    this.#networks.close()
  }

  async #open(): Promise<void> {
    const { node } = this.netns
    for (const netns of Object.values(this.netns)) {
      netns.run(['sysctl', '-qw', 'net.ipv6.conf.all.accept_dad=0', 'net.ipv6.conf.default.accept_dad=0'])
      netns.run(['sysctl', '-qw', 'net.ipv4.conf.all.rp_filter=0', 'net.ipv4.conf.default.rp_filter=0'])
    }
    node.run(['sysctl', '-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1'])
    for (const [place, { addresses, gateways }] of Object.entries(links) as [keyof typeof links, typeof links.podA][]) {
      const netns = this.netns[place]
      this.#networks.link(
        { netns: node, device: `to-${place.toLowerCase()}`, addresses: gateways },
        { netns, device: 'eth0', addresses },
      )
      const [via4 = '', via6 = ''] = gateways.map(withoutLength)
      netns.run(['ip', 'route', 'add', 'default', 'via', via4])
      netns.run(['ip', '-6', 'route', 'add', 'default', 'via', via6])
    }
    node.addAddress(`${probeAddress4}/32`)
    node.addAddress(`${probeAddress6}/128`)
    node.run(['nft', '-f', '-'], watchRules)
    await Promise.all(
      Object.entries(this.netns).map(async ([place, netns]) => {
        this.#callers.set(place as Place, await NetnsCaller.start(netns, place))
      }),
    )
    await this.at('node').listen(80)
    await this.at('outside').listen(80, 443, 8080)
    for (const place of ['podA', 'podB'] as const) await this.at(place).listen(80, 8080)
    // Neighbours are found before the first connection that counts.
    for (const place of ['podA', 'podB', 'outside'] as const)
      for (const family of [4, 6] as const) await this.at('node').call({ dst: addressOf(place, family), port: 80 })
    for (const pod of ['podA', 'podB'] as const)
      for (const family of [4, 6] as const) await this.at(pod).call({ dst: addressOf('outside', family), port: 80 })
    this.forgetConnections()
  }
}
