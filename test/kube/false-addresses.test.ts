// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { findFalseAddresses } from '../../src/kube/false-addresses.js'
import { projectObject } from '../../src/kube/project.js'
import type { Kind } from '../../src/kube/records.js'

function find(kind: Kind, object: object): string | undefined {
  const whole = { ...object, metadata: { namespace: 'ns', name: 'a' } }
  return findFalseAddresses(kind, projectObject(kind, whole, 'cluster-1').record)
}

const no = (field: string, ...texts: string[]): string =>
  texts.map((text) => `${field} has ${JSON.stringify(text)}, which is no address`).join('; ')

describe('a text that is no address is named with its field', () => {
  test.each<[Kind, object, string]>([
    ['Pod', { status: { podIP: '10.0.0.300' } }, no('status.podIPs', '10.0.0.300')],
    ['Pod', { status: { podIPs: [{ ip: '10.0.0.3' }, { ip: 'fd00:::1' }] } }, no('status.podIPs', 'fd00:::1')],
    ['Service', { spec: { clusterIPs: ['10.0.0', ' 10.0.0.1'] } }, no('spec.clusterIPs', '10.0.0', ' 10.0.0.1')],
    [
      'EndpointSlice',
      { addressType: 'IPv4', endpoints: [{ addresses: ['web.example'] }, { addresses: ['1.1.1.1'] }] },
      no('endpoints.addresses', 'web.example'),
    ],
    ['Gateway', { status: { addresses: [{ type: 'IPAddress', value: '' }] } }, no('status.addresses', '')],
    ['WorkloadEntry', { spec: { address: '300.1.1.1' } }, no('spec.address', '300.1.1.1')],
    ['WorkloadEntry', { spec: { address: 'a host\u001b[2J' } }, no('spec.address', 'a host\u001b[2J')],
    ['ServiceEntry', { spec: { addresses: ['1.2.3.0/33'] } }, no('spec.addresses', '1.2.3.0/33')],
    ['ServiceEntry', { spec: { endpoints: [{ address: '::1::' }] } }, no('spec.endpoints.address', '::1::')],
    ['ServiceEntry', { status: { addresses: [{ value: '240.0.0.0/8' }] } }, no('status.addresses', '240.0.0.0/8')],
  ])('%s %j', (kind, object, clause) => {
    expect(find(kind, object)).toBe(clause)
  })

  test('shortened, and ten of them at most', () => {
    const podIPs = Array.from({ length: 1_000 }, () => ({ ip: 'x'.repeat(1_000) }))
    const clause = find('Pod', { status: { podIPs } }) ?? ''
    expect(clause.endsWith('; and so on')).toBe(true)
    expect(clause.length).toBeLessThan(2_000)
  })
})

describe('nothing is said of', () => {
  test.each<[Kind, object]>([
    ['Pod', { status: { podIP: '10.0.0.3' } }],
    ['Pod', {}],
    ['Service', { spec: { clusterIP: 'None' } }],
    ['Service', { spec: { clusterIPs: ['10.0.0.1', 'fd00::1'] } }],
    ['EndpointSlice', { addressType: 'FQDN', endpoints: [{ addresses: ['web.example'] }] }],
    ['Gateway', { status: { addresses: [{ type: 'Hostname', value: 'lb.example' }] } }],
    ['WorkloadEntry', { spec: { address: 'unix:///var/run/x.sock' } }],
    ['WorkloadEntry', { spec: { address: 'vm-1.example.' } }],
    ['WorkloadEntry', {}],
    ['ServiceEntry', { spec: { addresses: ['1.2.3.4', '10.0.0.0/8', 'fd00::/64'] } }],
    ['ServiceEntry', { spec: { endpoints: [{ address: '*.example' }, { address: '2.us.example' }] } }],
    ['Node', {}],
  ])('%s %j', (kind, object) => {
    expect(find(kind, object)).toBeUndefined()
  })
})
