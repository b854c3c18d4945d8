// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { InvalidInput } from '../../../src/base/errors.js'
import { parsePodOverrides } from '../../../src/node-agent/rules/overrides.js'

const defaults = {
  ipv6: true,
  dnsCapture: true,
  probeAddress4: '169.254.7.127',
  probeAddress6: 'fd16:9254:7127:1337:ffff:ffff:ffff:ffff',
}
const parse = (annotations: Record<string, string>) =>
  parsePodOverrides({ namespace: 'shop', name: 'web', annotations }, defaults)
const plain = {
  ...defaults,
  bypassInbound: false,
  virtualInterfaces: [],
  excludedInboundPorts: [],
  excludedOutboundCidrs: [],
}

describe('annotations of a pod', () => {
  test('without any, the settings of the agent hold', () => {
    expect(parse({})).toEqual({ options: plain, warnings: [] })
  })

  test('override the settings', () => {
    const annotations = {
      'ambient.istio.io/bypass-inbound-capture': 'T',
      'ambient.istio.io/dns-capture': 'False',
      'istio.io/reroute-virtual-interfaces': ' virt0,, tap-1 ,virt0',
      'addressd.io/exclude-inbound-ports': '9090, 22,9090',
      'addressd.io/exclude-outbound-cidrs': '10.1.2.3/8, fd00::1/8,192.0.2.7, ::/0',
    }
    expect(parse(annotations)).toEqual({
      options: {
        ...plain,
        dnsCapture: false,
        bypassInbound: true,
        virtualInterfaces: ['virt0', 'tap-1', 'virt0'],
        excludedInboundPorts: [9090, 22],
        excludedOutboundCidrs: ['10.0.0.0/8', 'fd00::/8', '192.0.2.7/32', '::/0'],
      },
      warnings: [],
    })
  })

  test.each(['', ' true', 'yes', 'tRUE'])('a boolean that is none is ignored with a warning: %j', (value) => {
    expect(parse({ 'ambient.istio.io/dns-capture': value })).toEqual({
      options: plain,
      warnings: [
        `annotation ambient.istio.io/dns-capture is ignored: ${JSON.stringify(value)} is not a boolean; write true or false`,
      ],
    })
  })

  test.each([
    ['istio.io/reroute-virtual-interfaces', 'a b'],
    ['istio.io/reroute-virtual-interfaces', 'sixteen-letters-'],
    ['istio.io/reroute-virtual-interfaces', 'tap+'],
    ['istio.io/reroute-virtual-interfaces', 'tap*'],
    ['istio.io/reroute-virtual-interfaces', '..'],
    ['istio.io/reroute-virtual-interfaces', 'x\nCOMMIT'],
    ['istio.io/reroute-virtual-interfaces', 'naïve'],
    ['addressd.io/exclude-inbound-ports', '0'],
    ['addressd.io/exclude-inbound-ports', '65536'],
    ['addressd.io/exclude-inbound-ports', '080'],
    ['addressd.io/exclude-inbound-ports', '80-90'],
    ['addressd.io/exclude-inbound-ports', '15008'],
    ['addressd.io/exclude-outbound-cidrs', '10.0.0.0/33'],
    ['addressd.io/exclude-outbound-cidrs', '10.0.0/8'],
    ['addressd.io/exclude-outbound-cidrs', 'fe80::1%eth0'],
    ['addressd.io/exclude-outbound-cidrs', '::ffff:10.0.0.0/104'],
    ['addressd.io/exclude-outbound-cidrs', 'example.com'],
  ])('a value that would end in the rules is refused by name: %s=%j', (annotation, value) => {
    const act = (): unknown => parse({ [annotation]: value })
    expect(act).toThrow(InvalidInput)
    expect(act).toThrow(`pod shop/web: annotation ${annotation}: ${JSON.stringify(value)} is`)
  })

  test('a list without end is refused', () => {
    const annotations = { 'addressd.io/exclude-inbound-ports': Array.from({ length: 65 }, (_, i) => i + 1).join() }
    expect(() => parse(annotations)).toThrow('has 65 entries; 64 are the most')
  })
})
