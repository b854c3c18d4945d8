// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { InvalidInput } from '../../../src/base/errors.js'
import type { PodRuleOptions } from '../../../src/node-agent/contracts.js'
import { parseDump } from '../../../src/node-agent/rules/iptables-dump.js'
import { formatRestore, selectDumpState, selectPresent } from '../../../src/node-agent/rules/iptables-plan.js'
import { selectNothing, selectWanted } from '../../../src/node-agent/rules/iptables-text.js'

const options: PodRuleOptions = {
  ipv6: true,
  dnsCapture: false,
  bypassInbound: false,
  virtualInterfaces: [],
  excludedInboundPorts: [],
  excludedOutboundCidrs: [],
  probeAddress4: '169.254.7.127',
  probeAddress6: 'fd16:9254:7127:1337:ffff:ffff:ffff:ffff',
}
const isOurs = (_table: string, chain: string): boolean => chain === 'ISTIO_PRERT' || chain === 'ISTIO_OUTPUT'
const isOursOrStrange = (_table: string, chain: string): boolean => chain.startsWith('ISTIO_')

const wholeMangle = [
  '*mangle',
  ':PREROUTING ACCEPT [0:0]',
  ':OUTPUT ACCEPT [0:0]',
  ':ISTIO_OUTPUT - [0:0]',
  ':ISTIO_PRERT - [0:0]',
  '-A PREROUTING -j ISTIO_PRERT',
  '-A OUTPUT -j ISTIO_OUTPUT',
  '-A ISTIO_OUTPUT -m connmark --mark 0x111/0xfff -j CONNMARK --restore-mark --nfmask 0xffffffff --ctmask 0xffffffff',
  '-A ISTIO_PRERT -m mark --mark 0x539/0xfff -j CONNMARK --set-xmark 0x111/0xfff',
  'COMMIT',
  '',
].join('\n')
const mangle = new Map([...selectWanted(4, options)].filter(([table]) => table === 'mangle'))

describe('what makes a pod as wanted', () => {
  test('in a pod without tables: chains, jumps at the end of built-in chains, rules', () => {
    expect(formatRestore(new Map(), mangle, isOurs)).toBe(
      [
        '*mangle',
        ':ISTIO_OUTPUT - [0:0]',
        ':ISTIO_PRERT - [0:0]',
        '-A PREROUTING -j ISTIO_PRERT',
        '-A OUTPUT -j ISTIO_OUTPUT',
        '-A ISTIO_OUTPUT -m connmark --mark 0x111/0xfff -j CONNMARK --restore-mark --nfmask 0xffffffff --ctmask 0xffffffff',
        '-A ISTIO_PRERT -m mark --mark 0x539/0xfff -j CONNMARK --set-xmark 0x111/0xfff',
        'COMMIT',
        '',
      ].join('\n'),
    )
  })

  test('is nothing where it is whole, and only what differs where it is not', () => {
    expect(selectDumpState(parseDump(wholeMangle), mangle, isOurs)).toBe('complete')
    const doubled = wholeMangle.replace(
      '-A OUTPUT -j ISTIO_OUTPUT',
      '-A OUTPUT -p tcp -j ISTIO_OUTPUT\n-A OUTPUT -p udp -j X',
    )
    expect(selectDumpState(parseDump(doubled), mangle, isOurs)).toBe('different')
    expect(formatRestore(parseDump(doubled), mangle, isOurs)).toBe(
      '*mangle\n-D OUTPUT -p tcp -j ISTIO_OUTPUT\n-A OUTPUT -j ISTIO_OUTPUT\nCOMMIT\n',
    )
  })

  test('takes out chains of ours and every rule that leads to them, and leaves those of others', () => {
    const foreign = wholeMangle
      .replace(':ISTIO_PRERT', ':ISTIO_ODD - [0:0]\n:MINE - [0:0]\n:ISTIO_PRERT')
      .replace('COMMIT', '-A MINE -p tcp -g ISTIO_PRERT\n-A MINE -j ACCEPT\n-A OUTPUT -j ISTIO_ODD\nCOMMIT')
    const nothing = selectNothing()
    expect(formatRestore(parseDump(foreign), nothing, isOurs).split('\n').slice(1, -2)).toEqual([
      '-D PREROUTING -j ISTIO_PRERT',
      '-D OUTPUT -j ISTIO_OUTPUT',
      '-D MINE -p tcp -g ISTIO_PRERT',
      '-F ISTIO_OUTPUT',
      '-F ISTIO_PRERT',
      '-X ISTIO_OUTPUT',
      '-X ISTIO_PRERT',
    ])
    const withStrange = formatRestore(parseDump(foreign), nothing, isOursOrStrange)
    expect(withStrange).toContain('-D OUTPUT -j ISTIO_ODD\n')
    expect(withStrange).toContain('-X ISTIO_ODD\n')
    expect(withStrange).not.toContain('-A MINE')
  })

  test('puts back what was there, from a dump taken before', () => {
    const before = parseDump(
      '*nat\n:OUTPUT ACCEPT [0:0]\n:ISTIO_OUTPUT - [0:0]\n-A OUTPUT -j ISTIO_OUTPUT\n-A ISTIO_OUTPUT -p tcp -j RETURN\nCOMMIT\n',
    )
    const present = selectPresent(before, ['nat', 'raw'], isOurs)
    expect(formatRestore(before, present, isOurs)).toBe('')
    expect(formatRestore(new Map(), present, isOurs)).toBe(
      '*nat\n:ISTIO_OUTPUT - [0:0]\n-A OUTPUT -j ISTIO_OUTPUT\n-A ISTIO_OUTPUT -p tcp -j RETURN\nCOMMIT\n',
    )
  })

  test('holds exclusions before the rule they exempt from', () => {
    const excluding = {
      ...options,
      excludedInboundPorts: [8443],
      excludedOutboundCidrs: ['10.9.0.0/16', 'fd00:9::/32'],
    }
    const chains = (family: 4 | 6): unknown => [...(selectWanted(family, excluding).get('nat')?.chains ?? [])]
    expect(chains(4)).toEqual([
      [
        'ISTIO_OUTPUT',
        [
          '-d 169.254.7.127/32 -p tcp -m tcp -j ACCEPT',
          '-p tcp -m mark --mark 0x111/0xfff -j ACCEPT',
          '! -d 127.0.0.1/32 -o lo -j ACCEPT',
          '-d 10.9.0.0/16 -p tcp -m tcp -j RETURN',
          '! -d 127.0.0.1/32 -p tcp -m mark ! --mark 0x539/0xfff -j REDIRECT --to-ports 15001',
        ],
      ],
      [
        'ISTIO_PRERT',
        [
          '-s 169.254.7.127/32 -p tcp -m tcp -j ACCEPT',
          '-p tcp -m tcp --dport 8443 -j RETURN',
          '! -d 127.0.0.1/32 -p tcp -m tcp ! --dport 15008 -m mark ! --mark 0x539/0xfff -j REDIRECT --to-ports 15006',
        ],
      ],
    ])
    expect(JSON.stringify(chains(6))).toContain('-d fd00:9::/32 -p tcp -m tcp -j RETURN')
    expect(JSON.stringify(chains(6))).not.toContain('10.9.0.0')
  })

  test.each([
    ['a b', 'virtualInterfaces'],
    ['tap+', 'virtualInterfaces'],
    ['a\n-A OUTPUT -j DROP', 'virtualInterfaces'],
    ['-x', 'virtualInterfaces'],
    ['..', 'virtualInterfaces'],
    ['interface-name-too-long', 'virtualInterfaces'],
    ['10.0.0.0/8 -j DROP', 'excludedOutboundCidrs'],
    ['10.0.0.0', 'excludedOutboundCidrs'],
  ])('refuses %j before it can reach the loader', (value, key) => {
    expect(() => selectWanted(4, { ...options, [key]: [value] })).toThrow(InvalidInput)
  })

  test('refuses a port and a probe address that are none', () => {
    expect(() => selectWanted(4, { ...options, excludedInboundPorts: [70_000] })).toThrow(InvalidInput)
    expect(() => selectWanted(4, { ...options, probeAddress4: 'x' })).toThrow(InvalidInput)
  })
})
