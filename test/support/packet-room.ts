// SPDX-License-Identifier: Apache-2.0
// A node, a pod, another host and a machine behind the pod, as namespaces with links, and the program that sends packets between them. For tests that
// see rules by what becomes of packets. Needs root.

import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { type TestNetns, createTestNetworks } from './test-netns.js'

export const probeAddress4 = '169.254.7.127'
export const probeAddress6 = 'fd16:9254:7127:1337:ffff:ffff:ffff:ffff'

export interface Packet {
  readonly from: string
  readonly proto: 'tcp' | 'udp'
  readonly dst: string
  readonly port: number
  readonly src?: string
  readonly mark?: string
  readonly transparent?: boolean
}

export interface PacketRoom {
  readonly node: TestNetns
  readonly pod: TestNetns
  /** Starts the listeners; the rules may come before or after. */
  start(): Promise<void>
  /** Where it landed, as recorded cases say it. */
  send(packet: Packet): Promise<Record<string, unknown>>
  /** Opens a connection and keeps it. */
  open(name: string, packet: Packet): Promise<Record<string, unknown>>
  /** Whether data goes through a kept connection both ways: `carries`, or what happens instead. */
  exchange(name: string): Promise<string>
  /** Idempotent. */
  close(): void
}

const program = fileURLToPath(new URL('./packet-probe.mjs', import.meta.url))

export function createPacketRoom(label: string): PacketRoom {
  const networks = createTestNetworks()
  let probe: ChildProcess | undefined
  let lines: AsyncIterator<string> | undefined
  try {
    const named = Object.fromEntries(
      ['node', 'pod', 'peer', 'vm'].map((name) => [name, networks.add(`${label}-${name}`)]),
    )
    const { node, pod, peer, vm } = named as Record<'node' | 'pod' | 'peer' | 'vm', TestNetns>
    const set = (netns: TestNetns, ...settings: string[]): string => netns.run(['sysctl', '-qw', ...settings])
    for (const netns of [node, pod, peer, vm])
      set(netns, 'net.ipv6.conf.all.accept_dad=0', 'net.ipv6.conf.default.accept_dad=0')
    for (const netns of [node, pod]) {
      set(netns, 'net.ipv4.conf.all.rp_filter=0', 'net.ipv4.conf.default.rp_filter=0')
      set(netns, 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1')
    }
    networks.link(
      { netns: node, device: 'to-pod', addresses: ['10.244.1.1/24', 'fd00:244::1/64'] },
      { netns: pod, device: 'eth0', addresses: ['10.244.1.5/24', 'fd00:244::5/64'] },
    )
    networks.link(
      { netns: node, device: 'to-peer', addresses: ['10.99.0.1/24', 'fd00:99::1/64'] },
      { netns: peer, device: 'eth0', addresses: ['10.99.0.2/24', 'fd00:99::2/64'] },
    )
    networks.link(
      { netns: pod, device: 'virt0', addresses: ['10.88.0.1/24', 'fd00:88::1/64'] },
      { netns: vm, device: 'eth0', addresses: ['10.88.0.2/24', 'fd00:88::2/64'] },
    )
    node.addAddress(`${probeAddress4}/32`)
    node.addAddress(`${probeAddress6}/128`)
    const route = (netns: TestNetns, to: string, via: string): string =>
      netns.run(['ip', 'route', 'add', to, 'via', via])
    for (const netns of [pod, peer, vm]) {
      const [via4, via6] = { [pod.name]: ['10.244.1.1', 'fd00:244::1'], [peer.name]: ['10.99.0.1', 'fd00:99::1'] }[
        netns.name
      ] ?? ['10.88.0.1', 'fd00:88::1']
      route(netns, 'default', via4 ?? '')
      netns.run(['ip', '-6', 'route', 'add', 'default', 'via', via6 ?? ''])
    }
    route(node, '10.88.0.0/24', '10.244.1.5')
    node.run(['ip', '-6', 'route', 'add', 'fd00:88::/64', 'via', 'fd00:244::5'])
    const ask = async (command: unknown): Promise<Record<string, unknown>> => {
      if (probe === undefined || lines === undefined) throw new Error('start() was not awaited')
      probe.stdin?.write(`${JSON.stringify(command)}\n`)
      const { value, done } = await lines.next()
      if (done === true) throw new Error('the program that sends packets ended')
      return JSON.parse(value)
    }
    return {
      node,
      pod,
      async start() {
        const paths = Object.fromEntries(Object.entries(named).map(([name, { path }]) => [name, path]))
        probe = spawn(process.execPath, [program, JSON.stringify(paths)], { stdio: ['pipe', 'pipe', 'inherit'] })
        lines = createInterface({ input: probe.stdout! })[Symbol.asyncIterator]()
        const { done } = await lines.next()
        if (done === true) throw new Error('the program that sends packets did not start')
        // Neighbours are found before the first packet that counts.
        const first: readonly Omit<Packet, 'proto'>[] = [
          { from: 'node', dst: '10.244.1.5', port: 8080 },
          { from: 'node', dst: 'fd00:244::5', port: 8080 },
          { from: 'node', dst: '10.99.0.2', port: 9000 },
          { from: 'node', dst: 'fd00:99::2', port: 9000 },
          { from: 'vm', dst: '10.88.0.1', port: 8080 },
          { from: 'vm', dst: 'fd00:88::1', port: 8080 },
        ]
        for (const packet of first) {
          for (let left = 5; left > 0; left -= 1) {
            if ((await ask({ do: 'send', packet: { ...packet, proto: 'udp' } }))['answered'] === true) break
          }
        }
      },
      send: (packet) => ask({ do: 'send', packet }),
      open: (name, packet) => ask({ do: 'open', name, packet }),
      exchange: async (name) => String((await ask({ do: 'exchange', name }))['state']),
      close() {
        probe?.kill('SIGKILL')
        probe = undefined
        networks.close()
      },
    }
  } catch (error) {
    networks.close()
    throw error
  }
}
