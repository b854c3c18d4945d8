// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import type { PodRuleOptions } from '../../../src/node-agent/contracts.js'
import { type Rule, selectRules, selectRulesOf } from '../../../src/node-agent/rules/rule-table.js'

const options: PodRuleOptions = {
  ipv6: true,
  dnsCapture: true,
  bypassInbound: false,
  virtualInterfaces: [],
  excludedInboundPorts: [],
  excludedOutboundCidrs: [],
  probeAddress4: '169.254.7.127',
  probeAddress6: 'fd16::7f',
}
const ids = (rules: readonly Rule[]): string[] =>
  rules.map(({ id, table, hook, family }) => `${table} ${hook} ${id}${family === undefined ? '' : `/${family}`}`)

describe('the table of rules', () => {
  test('has every rule in its place, that of IPv6 behind its twin', () => {
    expect(ids(selectRules(options))).toEqual([
      'mangle prerouting M1',
      'mangle output M2',
      'nat prerouting N3/4',
      'nat prerouting N3/6',
      'nat prerouting N4/4',
      'nat prerouting N4/6',
      'nat output N5/4',
      'nat output N5/6',
      'nat output N6',
      'nat output N7/4',
      'nat output N7/6',
      'nat output N8',
      'nat output N9/4',
      'nat output N9/6',
      'nat output N10/4',
      'nat output N10/6',
      'raw prerouting R2',
      'raw output R1',
    ])
  })

  test('without capture of DNS and of inbound plaintext holds the rest', () => {
    expect(ids(selectRules({ ...options, ipv6: false, dnsCapture: false, bypassInbound: true }))).toEqual([
      'mangle prerouting M1',
      'mangle output M2',
      'nat output N5/4',
      'nat output N8',
      'nat output N9/4',
      'nat output N10/4',
    ])
  })

  test('puts virtual interfaces first, exclusions before what they exclude from', () => {
    const full = {
      ...options,
      ipv6: false,
      dnsCapture: false,
      virtualInterfaces: ['a', 'b'],
      excludedInboundPorts: [22],
      excludedOutboundCidrs: ['10.0.0.0/8', 'fd00::/8'],
    }
    const rules = selectRules(full)
    expect(ids(rules.filter(({ table }) => table === 'nat'))).toEqual([
      'nat prerouting N1',
      'nat prerouting N2',
      'nat prerouting N1',
      'nat prerouting N2',
      'nat prerouting N3/4',
      'nat prerouting X1',
      'nat prerouting N4/4',
      'nat output N5/4',
      'nat output N8',
      'nat output N9/4',
      'nat output X2/4',
      'nat output N10/4',
    ])
    expect(rules.find(({ id }) => id === 'X2')).toEqual({
      id: 'X2',
      table: 'nat',
      hook: 'output',
      family: 4,
      matches: [
        { kind: 'destination', prefix: '10.0.0.0/8' },
        { kind: 'protocol', protocol: 'tcp' },
      ],
      action: { kind: 'return' },
    })
  })

  test('gives each family its own, and IPv6 none when it is off', () => {
    expect(selectRulesOf(4, options)).toHaveLength(12)
    expect(selectRulesOf(6, options)).toHaveLength(12)
    expect(selectRulesOf(6, { ...options, ipv6: false })).toEqual([])
  })
})
