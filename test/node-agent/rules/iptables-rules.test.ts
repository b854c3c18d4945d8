// SPDX-License-Identifier: Apache-2.0
import { spawn } from 'node:child_process'
import { readdirSync, writeFileSync } from 'node:fs'
import { afterAll, describe, expect } from '@jest/globals'
import { Fatal, InvalidInput, Retryable } from '../../../src/base/errors.js'
import type { PodRules } from '../../../src/node-agent/contracts.js'
import { createIptablesRules, removeIptablesLeftovers } from '../../../src/node-agent/rules/iptables-rules.js'
import {
  type IptablesTools,
  type IptablesVariant,
  findNodeTools,
  toNamedTools,
} from '../../../src/node-agent/rules/iptables-tools.js'
import { runRulesCommand } from '../../../src/node-agent/rules/rules-command.js'
import { createNftablesRules } from '../../../src/node-agent/rules/nftables.js'
import { hostParts } from '../../support/host-parts.js'
import { testWith } from '../../support/optional.js'
import type { TestNetns } from '../../support/test-netns.js'
import { Room, plainOptions } from './iptables-room.js'

const room = new Room()
afterAll(() => room.close())

const realTools = toNamedTools(findNodeTools(process.env['PATH'] ?? '/usr/sbin:/sbin'))
const variants = ['nft', 'legacy'] as const
const missing = hostParts.netns ?? hostParts.built ?? hostParts.iptablesNft ?? hostParts.iptablesLegacy
const test = testWith('iptables', missing)

function createRules(
  variant: IptablesVariant,
  tools: IptablesTools = realTools,
  removeStrangeChains = false,
): PodRules {
  const { workers, log, onCommand } = room
  return createIptablesRules({ workers, variant, tools, removeStrangeChains, log, onCommand })
}

/** Rules of both variants and families, IP rules and routes, without what changes by itself. */
function takeKernel(netns: TestNetns): string {
  const programs = ['iptables-nft-save', 'ip6tables-nft-save', 'iptables-legacy-save', 'ip6tables-legacy-save']
  const parts = [
    ...programs.map((program) =>
      netns
        .tryRun([program])
        .stdout.replace(/^#.*\n/gm, '')
        .replace(/\[\d+:\d+\]/g, ''),
    ),
    netns.run(['ip', 'rule']),
    netns.run(['ip', '-6', 'rule']),
    netns.tryRun(['ip', 'route', 'show', 'table', '100']).stdout,
    netns.tryRun(['ip', '-6', 'route', 'show', 'table', '100']).stdout,
  ]
  return parts.join('\n')
}

const withoutEmptyTables = (text: string): string =>
  text.replace(/^\*\w+\n(?::.*\n)*COMMIT\n/gm, '').replace(/\n+/g, '\n')

for (const variant of variants) {
  describe(`the iptables backend, ${variant}`, () => {
    test('makes rules with one program a family, does nothing a second time, and sees what others change', async () => {
      const { netns, handle } = room.addNetns('pod')
      const rules = createRules(variant)
      room.takeCommands()
      expect(await rules.check(handle, plainOptions)).toBe('absent')
      expect(room.takeCommands()).toEqual([])
      await rules.apply(handle, plainOptions)
      expect(room.takeCommands()).toEqual([`iptables-${variant}-restore`, `ip6tables-${variant}-restore`])
      const made = takeKernel(netns)
      const dumps = [`iptables-${variant}-save`, `ip6tables-${variant}-save`]
      expect(await rules.check(handle, plainOptions)).toBe('complete')
      expect(room.takeCommands()).toEqual(variant === 'nft' ? [] : dumps)
      await rules.apply(handle, plainOptions)
      expect(room.takeCommands()).toEqual(dumps)
      expect(takeKernel(netns)).toBe(made)
      netns.run([`ip6tables-${variant}`, '-t', 'nat', '-D', 'OUTPUT', '-j', 'ISTIO_OUTPUT'])
      expect(await rules.check(handle, plainOptions)).toBe('different')
      await rules.apply(handle, plainOptions)
      expect(takeKernel(netns)).toBe(made)
      netns.run(['ip', '-6', 'rule', 'del', 'pref', '32764'])
      expect(await rules.check(handle, plainOptions)).toBe('different')
      await rules.apply(handle, plainOptions)
      expect(await rules.check(handle, plainOptions)).toBe('complete')
      room.takeCommands()
      await rules.remove(handle)
      expect(room.takeCommands()).toHaveLength(4)
      expect(await rules.check(handle, plainOptions)).toBe('absent')
      expect(takeKernel(netns)).not.toMatch(/ISTIO|0x111/)
    })

    test('knows what a call leaves that is killed half way, and takes it out with the setting for open connections', async () => {
      const { netns, handle } = room.addNetns('pod')
      const rules = createRules(variant)
      const readLoose = (): string => netns.run(['cat', '/proc/sys/net/netfilter/nf_conntrack_tcp_loose']).trim()
      for (const families of [['ip6tables'], ['iptables', 'ip6tables']]) {
        await rules.apply(handle, plainOptions)
        for (const family of families)
          for (const table of ['raw', 'mangle', 'nat']) {
            const tool = [`${family}-${variant}`, '-t', table]
            netns.run([...tool, '-D', 'PREROUTING', '-j', 'ISTIO_PRERT'])
            netns.run([...tool, '-D', 'OUTPUT', '-j', 'ISTIO_OUTPUT'])
            netns.run([...tool, '-F'])
            netns.run([...tool, '-X'])
            expect(await rules.check(handle, plainOptions)).toBe('unfinished')
          }
        await rules.remove(handle)
        expect([await rules.check(handle, plainOptions), readLoose()]).toEqual(['absent', '1'])
      }
    })

    test('keeps rules and chains of others through everything', async () => {
      const { netns, handle } = room.addNetns('pod')
      const commands = [
        [`iptables-${variant}`, '-t', 'nat', '-N', 'MINE'],
        [`iptables-${variant}`, '-t', 'nat', '-A', 'OUTPUT', '-m', 'comment', '--comment', 'of "mine"', '-j', 'MINE'],
        [`iptables-${variant}`, '-t', 'nat', '-A', 'MINE', '-p', 'tcp', '--dport', '77', '-j', 'RETURN'],
        [`ip6tables-${variant}`, '-t', 'mangle', '-A', 'PREROUTING', '-p', 'udp', '-j', 'ACCEPT'],
      ]
      for (const command of commands) netns.run(command)
      const before = withoutEmptyTables(takeKernel(netns))
      const rules = createRules(variant)
      await rules.apply(handle, plainOptions)
      await rules.apply(handle, { ...plainOptions, dnsCapture: false, virtualInterfaces: ['tap0'] })
      await rules.remove(handle)
      await rules.remove(handle)
      expect(withoutEmptyTables(takeKernel(netns))).toBe(before)
    })

    test('leaves nothing of a call that fails in the second family, and what was there before it', async () => {
      const { netns, handle } = room.addNetns('pod')
      const folder = room.addPrograms({
        'ip6tables-save': `/usr/sbin/ip6tables-${variant}-save`,
        'ip6tables-restore': 'cat >/dev/null; echo "no such target" >&2; exit 2',
      })
      const broken: IptablesTools = {
        ...realTools,
        [variant]: {
          ...realTools[variant],
          6: { save: `${folder}/ip6tables-save`, restore: `${folder}/ip6tables-restore` },
        },
      }
      const rules = createRules(variant, broken)
      await expect(rules.apply(handle, plainOptions)).rejects.toThrow(InvalidInput)
      expect(takeKernel(netns)).not.toMatch(/ISTIO|0x111/)
      expect(await rules.check(handle, plainOptions)).toBe('absent')
      const whole = createRules(variant)
      await whole.apply(handle, plainOptions)
      const before = takeKernel(netns)
      await expect(rules.apply(handle, { ...plainOptions, dnsCapture: false })).rejects.toThrow('no such target')
      expect(takeKernel(netns).split('\n').sort()).toEqual(before.split('\n').sort())
      expect(await whole.check(handle, plainOptions)).toBe('complete')
    })

    test('leaves nothing of a program that stops half way, and calls a missing lock a thing to try again', async () => {
      const { netns, handle } = room.addNetns('pod')
      const real = `/usr/sbin/iptables-${variant}-restore`
      const folder = room.addPrograms({
        // The first two tables, as a program that is killed between two commits leaves them; whole afterwards.
        'half-restore': `text=$(cat); if [ -e "$0.done" ]; then printf '%s\\n' "$text" | ${real} --noflush; exit; fi
          touch "$0.done"; printf '%s\\n' "$text" | awk '/COMMIT/{n++} n<2{print} n==2{print "COMMIT"; exit}' | ${real} --noflush
          echo "another app holds the lock" >&2; exit 4`,
      })
      const tools = {
        ...realTools[variant][4],
        save: `/usr/sbin/iptables-${variant}-save`,
        restore: `${folder}/half-restore`,
      }
      const rules = createRules(variant, { ...realTools, [variant]: { ...realTools[variant], 4: tools } })
      await expect(rules.apply(handle, plainOptions)).rejects.toThrow(Retryable)
      expect(takeKernel(netns)).not.toMatch(/ISTIO|0x111/)
      await rules.apply(handle, plainOptions)
      expect(await rules.check(handle, plainOptions)).toBe('complete')
    })

    test('runs no program of IPv6 while that is off, and takes out what is left of it', async () => {
      const { netns, handle } = room.addNetns('pod')
      const off = { ...plainOptions, ipv6: false }
      const rules = createRules(variant, {
        ...realTools,
        nft: { 4: realTools.nft[4]! },
        legacy: { 4: realTools.legacy[4]! },
      })
      await rules.apply(handle, off)
      expect(await rules.check(handle, off)).toBe('complete')
      expect(netns.run(['ip', '-6', 'rule'])).not.toContain('0x111')
      await rules.remove(handle)
      await expect(rules.apply(handle, plainOptions)).rejects.toThrow(Fatal)
      room.takeCommands()
      const both = createRules(variant)
      await both.apply(handle, off)
      await both.check(handle, off)
      await both.remove(handle)
      expect(room.takeCommands().filter((name) => name.startsWith('ip6'))).toEqual([])
      await both.apply(handle, plainOptions)
      await both.apply(handle, off)
      expect(await both.check(handle, off)).toBe('complete')
      expect(netns.run([`ip6tables-${variant}-save`])).not.toContain('ISTIO')
    })

    test('works on twenty pods side by side and lets go of every descriptor', async () => {
      const rules = createRules(variant)
      const pods = Array.from({ length: 20 }, () => room.addNetns('many'))
      const count = (): number => readdirSync('/proc/self/fd').length
      // Every thread is there before anything is counted.
      await Promise.all(pods.map(({ handle }) => rules.check(handle, plainOptions)))
      const before = count()
      await Promise.all(
        pods.flatMap(({ handle }) => [rules.apply(handle, plainOptions), rules.check(handle, plainOptions)]),
      )
      expect(await Promise.all(pods.map(({ handle }) => rules.check(handle, plainOptions)))).toEqual(
        pods.map(() => 'complete'),
      )
      await Promise.all(pods.map(({ handle }) => rules.remove(handle)))
      expect(await Promise.all(pods.map(({ handle }) => rules.check(handle, plainOptions)))).toEqual(
        pods.map(() => 'absent'),
      )
      expect(count()).toBeLessThanOrEqual(before)
    })
  })
}

describe('the iptables backend', () => {
  test('takes over what the other variant and the netlink backend left, and the netlink backend what it left', async () => {
    const { netns, handle } = room.addNetns('pod')
    await createRules('legacy').apply(handle, plainOptions)
    await createNftablesRules({ workers: room.workers, removeStrangeChains: false, log: room.log }).apply(
      handle,
      plainOptions,
    )
    for (const table of ['nat', 'mangle']) netns.run(['nft', 'add', 'table', 'inet', `istio-ambient-${table}`])
    const rules = createRules('nft')
    expect(await rules.check(handle, plainOptions)).toBe('different')
    await rules.apply(handle, plainOptions)
    expect(await rules.check(handle, plainOptions)).toBe('complete')
    expect(netns.run(['iptables-legacy-save'])).not.toContain('ISTIO')
    expect(netns.run(['nft', 'list', 'tables'])).not.toMatch(/istio-ambient|addressd/)
    const { workers, onCommand } = room
    const leftovers = { workers, netns: handle, tools: realTools, removeStrangeChains: false, onCommand }
    expect(await removeIptablesLeftovers(leftovers)).toBe(true)
    expect(await removeIptablesLeftovers(leftovers)).toBe(false)
    expect(netns.run(['iptables-nft-save'])).not.toContain('ISTIO')
  })

  test('and the netlink backend put the setting for open connections back, whichever made the rules and whichever takes them out', async () => {
    const netlink = createNftablesRules({
      workers: room.workers,
      removeStrangeChains: false,
      log: room.log,
      removeLegacyLeftovers: (netns) =>
        removeIptablesLeftovers({ workers: room.workers, netns, tools: realTools, removeStrangeChains: false }),
    })
    const loose = '/proc/sys/net/netfilter/nf_conntrack_tcp_loose'
    for (const iptables of variants.map((variant) => createRules(variant))) {
      for (const made of [[netlink], [iptables], [netlink, iptables], [iptables, netlink]]) {
        for (const remover of [netlink, iptables]) {
          const { netns, handle } = room.addNetns('pod')
          const read = (): string => netns.run(['cat', loose]).trim()
          for (const rules of made) await rules.apply(handle, plainOptions)
          const held = read()
          await remover.remove(handle)
          const what = [...made, remover].map(({ backend }) => backend)
          expect([what, held, read(), await remover.check(handle, plainOptions)]).toEqual([what, '0', '1', 'absent'])
        }
      }
    }
    const { netns, handle } = room.addNetns('pod')
    await netlink.apply(handle, plainOptions)
    await netlink.remove(handle)
    netns.run(['sh', '-c', `echo 0 > ${loose}`])
    await netlink.apply(handle, plainOptions)
    await createRules('nft').remove(handle)
    expect(netns.run(['cat', loose]).trim()).toBe('0')
  })

  test('tells people what is missing and what is there beside it', async () => {
    for (const variant of variants) {
      const { netns, handle } = room.addNetns('pod')
      const rules = createRules(variant)
      await rules.apply(handle, plainOptions)
      netns.run([`iptables-${variant}`, '-t', 'nat', '-I', 'ISTIO_OUTPUT', '-p', 'icmp', '-j', 'ACCEPT'])
      netns.run([`ip6tables-${variant}`, '-t', 'nat', '-D', 'OUTPUT', '-j', 'ISTIO_OUTPUT'])
      const lines: string[] = []
      const code = await runRulesCommand({
        ...{ action: 'check', netns: handle, path: 'it', rules, options: plainOptions, workers: room.workers },
        tools: { ...realTools, plain: {} },
        print: (line) => lines.push(line),
      })
      expect([code, lines]).toEqual([
        3,
        [
          `it: iptables-${variant}: different`,
          `it: missing: iptables-${variant}, IPv6, nat: -A OUTPUT -j ISTIO_OUTPUT`,
          `it: unexpected: iptables-${variant}, IPv4, nat: -A ISTIO_OUTPUT -p icmp -j ACCEPT`,
        ],
      ])
    }
  })

  test('does not wait for a lock of the node that somebody holds', async () => {
    const { handle } = room.addNetns('pod')
    const lock = '/run/xtables.lock'
    writeFileSync(lock, '', { flag: 'a' })
    const holder = spawn('/usr/bin/flock', ['-x', '--no-fork', lock, 'sh', '-c', 'echo held; exec sleep 30'], {
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    try {
      await new Promise((resolve) => holder.stdout.once('data', resolve))
      await createRules('legacy').apply(handle, plainOptions)
      expect(await createRules('legacy').check(handle, plainOptions)).toBe('complete')
    } finally {
      holder.kill('SIGKILL')
    }
  })
})
