// SPDX-License-Identifier: Apache-2.0
// The netlink backend in real namespaces: whole or nothing, again without change, drift seen and mended, leftovers out, everything of others kept.

import { readdirSync } from 'node:fs'
import { afterAll, afterEach, beforeAll, describe, expect } from '@jest/globals'
import { Retryable } from '../../../src/base/errors.js'
import { silentLogger } from '../../../src/base/log.js'
import type { PodRuleOptions, PodRules } from '../../../src/node-agent/contracts.js'
import { openNetnsFile } from '../../../src/node-agent/netns/handle.js'
import type { Netns } from '../../../src/node-agent/netns/netns.js'
import { type NetnsWorkers, createNetnsWorkers } from '../../../src/node-agent/netns/workers.js'
import { createNftablesRules } from '../../../src/node-agent/rules/nftables.js'
import { findNodeTools } from '../../../src/node-agent/rules/iptables-tools.js'
import { runRulesCommand } from '../../../src/node-agent/rules/rules-command.js'
import { hostParts } from '../../support/host-parts.js'
import { testWith } from '../../support/optional.js'
import { type TestNetns, type TestNetworks, createTestNetworks } from '../../support/test-netns.js'

const options: PodRuleOptions = {
  ipv6: true,
  dnsCapture: true,
  bypassInbound: false,
  virtualInterfaces: [],
  excludedInboundPorts: [],
  excludedOutboundCidrs: [],
  probeAddress4: '169.254.7.127',
  probeAddress6: 'fd16:9254:7127:1337:ffff:ffff:ffff:ffff',
}
const maybe = testWith('nft', hostParts.netns ?? hostParts.built ?? hostParts.nft ?? hostParts.iptablesNft)

let workers: NetnsWorkers
let networks: TestNetworks
const handles: Netns[] = []
beforeAll(() => {
  workers = createNetnsWorkers({ log: silentLogger })
  networks = createTestNetworks()
})
afterEach(() => {
  for (const handle of handles.splice(0)) handle.close()
  networks.close()
})
afterAll(() => workers.close())

const create = (removeStrangeChains = false): PodRules =>
  createNftablesRules({ workers, removeStrangeChains, log: silentLogger })

function addPod(): { pod: TestNetns; netns: Netns } {
  const pod = networks.add('pod')
  const netns = openNetnsFile(pod.path)
  handles.push(netns)
  return { pod, netns }
}

const sh = (pod: TestNetns, ...commands: string[]): void =>
  commands.forEach((command) => pod.run(['sh', '-c', command]))
const ruleset = (pod: TestNetns): string => pod.run(['nft', 'list', 'ruleset'])
const paths = (pod: TestNetns): string =>
  pod.run([
    'sh',
    '-c',
    'ip rule; ip -6 rule; ip route show table 100 2>/dev/null; ip -6 route show table 100 2>/dev/null; true',
  ])

describe('rules of a pod over netlink', () => {
  maybe('are not made again when they are there', async () => {
    const { pod, netns } = addPod()
    await create().apply(netns, options)
    const handlesBefore = pod.run(['nft', '-a', 'list', 'ruleset'])
    await create().apply(netns, options)
    expect(pod.run(['nft', '-a', 'list', 'ruleset'])).toBe(handlesBefore)
    expect(await create().check(netns, options)).toBe('complete')
  })

  const drifts: readonly (readonly [string, string])[] = [
    ['a rule added', 'nft add rule inet addressd-ambient nat-output counter accept'],
    ['a rule put first', 'nft insert rule inet addressd-ambient nat-output accept'],
    ['a chain flushed', 'nft flush chain inet addressd-ambient mangle-output'],
    ['a chain added', 'nft add chain inet addressd-ambient more'],
    ['the table gone', 'nft delete table inet addressd-ambient'],
    ['the table asleep', "nft add table inet addressd-ambient '{ flags dormant; }'"],
    ['a policy changed', "nft chain inet addressd-ambient nat-output '{ policy drop; }'"],
    ['a table of the other layout', 'nft add table ip addressd-ambient'],
    ['the IP rule gone', 'ip rule del pref 32764'],
    ['the IP rule of IPv6 gone', 'ip -6 rule del pref 32764'],
    ['the route gone', 'ip route flush table 100'],
    ['the route of IPv6 gone', 'ip -6 route flush table 100'],
    ['tables of istio-cni', 'nft add table inet istio-ambient-nat'],
    ['chains of istio-cni', 'iptables-nft -t nat -N ISTIO_OUTPUT; iptables-nft -t nat -I OUTPUT -j ISTIO_OUTPUT'],
  ]
  maybe.each(drifts)('%s: is seen and mended', async (_, command) => {
    const { pod, netns } = addPod()
    const rules = create()
    await rules.apply(netns, options)
    const whole = [pod.run(['nft', 'list', 'table', 'inet', 'addressd-ambient']), paths(pod)]
    sh(pod, command)
    // IP rule and route alone are what somebody leaves who is killed before he has made the table.
    const state = command.includes('delete table') ? 'unfinished' : 'different'
    expect([await rules.check(netns, options), await create().check(netns, options)]).toEqual([state, state])
    await rules.apply(netns, options)
    expect([pod.run(['nft', 'list', 'table', 'inet', 'addressd-ambient']), paths(pod)]).toEqual(whole)
    expect([await rules.check(netns, options), await create().check(netns, options)]).toEqual(['complete', 'complete'])
  })

  maybe('are taken out where only IP rule and route were made, with the setting for open connections', async () => {
    const { pod, netns } = addPod()
    await create().apply(netns, options)
    sh(pod, 'nft delete table inet addressd-ambient')
    await create().remove(netns)
    const setting = pod.run(['sysctl', '-n', 'net.netfilter.nf_conntrack_tcp_loose']).trim()
    expect([await create().check(netns, options), setting]).toEqual(['absent', '1'])
  })

  maybe('keep what others have, also in tables that are shared', async () => {
    const { pod, netns } = addPod()
    sh(
      pod,
      'nft add table inet mine',
      'nft "add chain inet mine in { type filter hook input priority 0; }"',
      'nft add rule inet mine in udp dport 7 drop',
      'iptables-nft -t nat -N KUBE-SERVICES',
      'iptables-nft -t nat -A KUBE-SERVICES -p tcp --dport 7 -j DNAT --to-destination 10.0.0.1:7',
      'iptables-nft -t nat -A OUTPUT -j KUBE-SERVICES',
      'ip rule add pref 100 fwmark 0x111 lookup 200',
      'ip route add local 10.9.9.9 dev lo table 200',
    )
    const before = [ruleset(pod), paths(pod), pod.run(['ip', 'route', 'show', 'table', '200'])]
    sh(
      pod,
      'iptables-nft -t nat -N ISTIO_OUTPUT',
      'iptables-nft -t nat -N ISTIO_PRERT',
      'iptables-nft -t nat -N ISTIO_STRANGE',
      'iptables-nft -t nat -A ISTIO_OUTPUT -j ISTIO_STRANGE',
      'iptables-nft -t nat -I OUTPUT 1 -j ISTIO_OUTPUT',
      'iptables-nft -t nat -A PREROUTING -j ISTIO_PRERT',
    )
    await create().apply(netns, options)
    expect(ruleset(pod)).toContain('ISTIO_STRANGE')
    expect(ruleset(pod)).not.toMatch(/ISTIO_OUTPUT|ISTIO_PRERT/)
    await create(true).apply(netns, options)
    expect(ruleset(pod)).not.toContain('ISTIO_')
    await create().remove(netns)
    sh(pod, 'iptables-nft -t nat -D OUTPUT -j NOBODY 2>/dev/null || true')
    const empty = /\tchain PREROUTING \{\n[^}]*?\n\t\}\n\n?/
    expect([ruleset(pod).replace(empty, '').replace(/\s+/g, ' '), paths(pod)]).toEqual([
      before[0]!.replace(empty, '').replace(/\s+/g, ' '),
      before[1],
    ])
    expect(pod.run(['ip', 'route', 'show', 'table', '200'])).toBe(before[2])
  })

  maybe('are not half there when lo is down, and nothing is left', async () => {
    const { pod, netns } = addPod()
    pod.run(['ip', 'link', 'set', 'lo', 'down'])
    const before = [ruleset(pod), paths(pod)]
    await expect(create().apply(netns, options)).rejects.toBeInstanceOf(Retryable)
    expect([ruleset(pod), paths(pod), pod.run(['sysctl', '-n', 'net.netfilter.nf_conntrack_tcp_loose'])]).toEqual([
      ...before,
      '1\n',
    ])
    expect(await create().check(netns, options)).toBe('absent')
  })

  maybe('are one transaction: what is refused at its end leaves nothing', async () => {
    const entry = new URL('../../support/broken-batch-jobs.mjs', import.meta.url)
    const broken = createNetnsWorkers({ log: silentLogger, entry })
    try {
      const { pod, netns } = addPod()
      const run = (job: string): Promise<string> => broken.run(job, { netns, args: options })
      expect(await run('broken batch')).toMatch(/^ENOENT at \d+$/)
      expect(await run('load tracking')).toBe('went well')
      expect(ruleset(pod)).toBe('')
      await create().apply(netns, options)
      const whole = ruleset(pod)
      expect(await run('broken batch')).toMatch(/^ENOENT at \d+$/)
      expect(ruleset(pod)).toBe(whole)
    } finally {
      await broken.close()
    }
  })

  maybe('of fifty pods are made and taken out side by side, and no descriptor is left', async () => {
    const pods = Array.from({ length: 50 }, addPod)
    const rules = create()
    await Promise.all(pods.map(({ netns }) => rules.apply(netns, options)))
    const open = (): number => readdirSync('/proc/self/fd').length
    const before = open()
    const states = await Promise.all(pods.map(({ netns }) => rules.check(netns, options)))
    expect(new Set(states)).toEqual(new Set(['complete']))
    // The same namespace from several sides at once ends as the last one says.
    const { pod, netns } = pods[0]!
    await Promise.all([
      rules.remove(netns),
      rules.apply(netns, options),
      rules.remove(netns),
      rules.apply(netns, options),
    ])
    expect(await create().check(netns, options)).toBe('complete')
    await Promise.all(pods.map((one) => rules.remove(one.netns)))
    expect(pods.map((one) => ruleset(one.pod)).join('')).toBe('')
    expect(paths(pod)).not.toMatch(/0x111|local default/)
    expect(open()).toBeLessThanOrEqual(before)
  })

  maybe('are shown, checked, made and taken out for people', async () => {
    const { netns } = addPod()
    const lines: string[] = []
    const run = (action: 'show' | 'check' | 'apply' | 'remove', wanted = options): Promise<number> =>
      runRulesCommand({
        ...{ action, netns, path: '/run/netns/x', rules: create(), options: wanted, workers },
        tools: findNodeTools('/usr/sbin:/sbin'),
        print: (line) => lines.push(line),
      })
    const codes = [await run('check'), await run('show'), await run('apply'), await run('check')]
    expect([codes, lines]).toEqual([
      [3, 0, 0, 0],
      [
        'nftables: absent',
        'no rule of addressd or istio-cni is there',
        'nftables: rules made',
        'nftables: complete',
      ].map((line) => `/run/netns/x: ${line}`),
    ])
    lines.length = 0
    expect(await run('check', { ...options, excludedInboundPorts: [9100] })).toBe(3)
    expect(lines).toEqual([
      '/run/netns/x: nftables: different',
      '/run/netns/x: missing: table inet addressd-ambient, nat-prerouting: protocol = tcp, destination port = 9100, return',
    ])
    lines.length = 0
    expect(await run('show')).toBe(0)
    expect(lines.filter((line) => !/ip6?v?6|::/.test(line))).toEqual([
      'table inet addressd-ambient',
      '  mangle-prerouting',
      '    mark & 0xfff = 0x539, set connection mark to (connection mark & 0xfffff000) ^ 0x111',
      '  mangle-output',
      '    connection mark & 0xfff = 0x111, set mark to connection mark',
      '  nat-prerouting',
      '    family = ipv4, source = 169.254.7.127, protocol = tcp, accept',
      '    family = ipv4, destination != 127.0.0.1, protocol = tcp, destination port != 15008, mark & 0xfff != 0x539, redirect to 15006',
      '  nat-output',
      '    family = ipv4, destination = 169.254.7.127, protocol = tcp, accept',
      '    oifname != "lo", protocol = udp, destination port = 53, mark & 0xfff != 0x539, redirect to 15053',
      '    family = ipv4, destination != 127.0.0.1, protocol = tcp, destination port = 53, mark & 0xfff != 0x539, redirect to 15053',
      '    protocol = tcp, mark & 0xfff = 0x111, accept',
      '    family = ipv4, destination != 127.0.0.1, oifname = "lo", accept',
      '    family = ipv4, destination != 127.0.0.1, protocol = tcp, mark & 0xfff != 0x539, redirect to 15001',
      '  raw-prerouting',
      '    protocol = udp, source port = 53, mark & 0xfff != 0x539, set connection zone to 1',
      '  raw-output',
      '    protocol = udp, destination port = 53, mark & 0xfff = 0x539, set connection zone to 1',
      'ip -4 route local default dev lo table 100',
      'ip -4 rule from all fwmark 0x111/0xfff lookup 100 priority 32764',
      'ip -6 route local default dev lo table 100',
      'ip -6 rule from all fwmark 0x111/0xfff lookup 100 priority 32764',
    ])
    expect([await run('remove'), await run('check')]).toEqual([0, 3])
  })
})
