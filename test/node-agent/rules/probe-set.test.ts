// SPDX-License-Identifier: Apache-2.0
import { basename } from 'node:path'
import { afterAll, describe, expect } from '@jest/globals'
import { Fatal, InvalidInput } from '../../../src/base/errors.js'
import type { ProbeSet } from '../../../src/node-agent/contracts.js'
import type { Netns } from '../../../src/node-agent/netns/netns.js'
import type { ChosenBackend } from '../../../src/node-agent/rules/backend-choice.js'
import { findNodeTools, toNamedTools } from '../../../src/node-agent/rules/iptables-tools.js'
import { createProbeSet } from '../../../src/node-agent/rules/probe-set.js'
import { hostParts } from '../../support/host-parts.js'
import { testWith } from '../../support/optional.js'
import type { TestNetns } from '../../support/test-netns.js'
import { Room } from './iptables-room.js'

const room = new Room()
afterAll(() => room.close())

const tools = toNamedTools(findNodeTools(process.env['PATH'] ?? '/usr/sbin:/sbin'))
const backends: readonly ChosenBackend[] = [
  { backend: 'nftables' },
  { backend: 'iptables-nft', variant: 'nft', tools },
  { backend: 'iptables-legacy', variant: 'legacy', tools },
]

function createProbes(chosen: ChosenBackend, hostNetns: Netns, ipv6 = true): ProbeSet {
  const { workers, log, onCommand } = room
  return createProbeSet({
    chosen,
    workers,
    hostNetns,
    procRoot: '/proc',
    kubeletUid: 1001,
    ipv6,
    probeAddress4: '169.254.7.127',
    probeAddress6: 'fd16:9254:7127:1337:ffff:ffff:ffff:ffff',
    log,
    onCommand,
  })
}

async function listAll(probes: ProbeSet): Promise<Record<string, string>> {
  return Object.fromEntries([...(await probes.list())].sort())
}

/** The host's rules, without what changes by itself. */
function takeHost(netns: TestNetns): string {
  const programs = [['nft', 'list', 'ruleset'], ['iptables-legacy-save'], ['ip6tables-legacy-save']]
  return programs
    .map((program) =>
      netns
        .run(program)
        .replace(/^#.*\n/gm, '')
        .replace(/\[\d+:\d+\]/g, ''),
    )
    .join('\n')
}

for (const chosen of backends) {
  const { backend } = chosen
  const missing =
    hostParts.netns ??
    hostParts.built ??
    (backend === 'nftables' ? hostParts.nft : (hostParts.iptablesNft ?? hostParts.iptablesLegacy ?? hostParts.ipset))
  const test = testWith(backend === 'nftables' ? 'nft' : 'iptables', missing)

  describe(`the probe set, ${backend}`, () => {
    test('keeps its entries through a start, belongs to the last who was put, and is emptied by uid', async () => {
      const { handle } = room.addNetns('host')
      const probes = createProbes(chosen, handle)
      expect(await listAll(probes)).toEqual({})
      await probes.ensure()
      await probes.put('10.0.0.5', 'uid-a')
      await probes.put('fd00:0:0::5', 'uid-a')
      await probes.put('::ffff:10.0.0.6', 'uid-b')
      await probes.put('10.0.0.6', 'uid-b')
      await createProbes(chosen, handle).ensure()
      expect(await listAll(probes)).toEqual({ '10.0.0.5': 'uid-a', 'fd00::5': 'uid-a', '10.0.0.6': 'uid-b' })
      await probes.put('10.0.0.5', 'uid-c')
      await probes.remove('uid-a')
      await probes.remove('uid-a')
      expect(await listAll(probes)).toEqual({ '10.0.0.5': 'uid-c', '10.0.0.6': 'uid-b' })
      await Promise.all([
        ...Array.from({ length: 20 }, (_, i) => probes.put(`10.1.0.${i}`, `uid-${i % 2}`)),
        probes.remove('uid-c'),
        probes.remove('uid-b'),
      ])
      await probes.remove('uid-0')
      expect(new Set(Object.values(await listAll(probes)))).toEqual(new Set(['uid-1']))
      await probes.destroy()
      await probes.destroy()
      expect(await listAll(probes)).toEqual({})
    })

    test('mends what somebody took away, and does nothing where all is well', async () => {
      const { netns, handle } = room.addNetns('host')
      const probes = createProbes(chosen, handle)
      await probes.ensure()
      await probes.put('10.0.0.5', 'uid-a')
      const whole = takeHost(netns)
      expect(whole).toMatch(/--uid-owner 1001 |skuid 1001 /)
      await probes.ensure()
      room.takeCommands()
      const logged = room.lines.length
      await probes.ensure()
      expect(room.lines.slice(logged)).toEqual([])
      const programs = ['ipset', 'ipset', 'ipset', `iptables-${'variant' in chosen ? chosen.variant : ''}-save`]
      if (backend === 'nftables') expect(room.commands.splice(0)).toEqual([])
      else expect(room.takeCommands()).toEqual([...programs, programs[3]?.replace('ip', 'ip6')])
      const damages =
        backend === 'nftables'
          ? [
              'nft flush chain inet istio-ambient-nat postrouting',
              'nft add rule inet istio-ambient-nat postrouting accept',
            ]
          : [
              `${backend} -t nat -F ISTIO_POSTRT`,
              `${backend} -t nat -D POSTROUTING -j ISTIO_POSTRT`,
              `ip6${backend.slice(2)} -t nat -I ISTIO_POSTRT -j RETURN`,
            ]
      for (const damage of damages) {
        netns.run(damage.split(' '))
        expect(takeHost(netns)).not.toBe(whole)
        await probes.ensure()
        expect(takeHost(netns)).toBe(whole)
      }
      const last =
        backend === 'nftables' ? ['nft flush ruleset'] : [`${backend} -t nat -F`, 'ipset destroy istio-inpod-probes-v4']
      for (const command of last) netns.run(command.split(' '))
      // A put that finds no set makes it.
      await probes.put('10.0.0.7', 'uid-b')
      expect(await listAll(probes)).toEqual({ '10.0.0.7': 'uid-b' })
      expect(takeHost(netns)).toContain('1001')
    })

    test('makes a set that cannot say whose its entries are anew', async () => {
      const { netns, handle } = room.addNetns('host')
      const odd =
        backend === 'nftables'
          ? [
              'nft add table inet istio-ambient-nat',
              'nft add set inet istio-ambient-nat istio-inpod-probes-v4 { type ether_addr; }',
              'nft add chain inet istio-ambient-nat postrouting { type nat hook postrouting priority 50; }',
            ]
          : [
              'ipset create istio-inpod-probes-v4 hash:ip',
              'ipset add istio-inpod-probes-v4 10.9.9.9',
              'ipset create istio-inpod-probes-v6 hash:net family inet6',
            ]
      for (const command of odd) netns.run(command.split(' '))
      const probes = createProbes(chosen, handle)
      await probes.ensure()
      await probes.put('10.0.0.5', 'uid-a')
      await probes.put('fd00::5', 'uid-a')
      expect(await listAll(probes)).toEqual({ '10.0.0.5': 'uid-a', 'fd00::5': 'uid-a' })
    })

    test('leaves IPv6 alone while that is off, and rules of others always', async () => {
      const { netns, handle } = room.addNetns('host')
      netns.run(['iptables-legacy', '-t', 'nat', '-A', 'POSTROUTING', '-s', '10.0.0.0/8', '-j', 'MASQUERADE'])
      netns.run(['nft', 'add', 'table', 'inet', 'mine'])
      const probes = createProbes(chosen, handle, false)
      room.takeCommands()
      await probes.ensure()
      await probes.put('fd00::5', 'uid-a')
      await probes.put('10.0.0.5', 'uid-a')
      expect(await listAll(probes)).toEqual({ '10.0.0.5': 'uid-a' })
      await probes.remove('uid-a')
      await probes.destroy()
      expect(room.commands.map(({ file }) => basename(file)).filter((name) => name.startsWith('ip6'))).toEqual([])
      expect(takeHost(netns)).toContain('-A POSTROUTING -s 10.0.0.0/8 -j MASQUERADE')
      expect(takeHost(netns)).toContain('table inet mine')
      expect(takeHost(netns)).not.toMatch(/ISTIO|istio/)
    })

    test('refuses what is no address and what is no uid', async () => {
      const { handle } = room.addNetns('host')
      const probes = createProbes(chosen, handle)
      await probes.ensure()
      await expect(probes.put('10.0.0', 'uid-a')).rejects.toThrow(InvalidInput)
      await expect(probes.put('10.0.0.1', 'a" -exist\nadd x')).rejects.toThrow(InvalidInput)
      expect(await listAll(probes)).toEqual({})
    })
  })
}

describe('the probe set', () => {
  testWith('iptables', hostParts.netns ?? hostParts.built ?? hostParts.iptablesNft)(
    'says what is missing where there is no ipset',
    async () => {
      const { handle } = room.addNetns('host')
      const probes = createProbes(
        { backend: 'iptables-nft', variant: 'nft', tools: { ...tools, ipset: undefined } },
        handle,
      )
      await expect(probes.ensure()).rejects.toThrow(Fatal)
    },
  )
})
