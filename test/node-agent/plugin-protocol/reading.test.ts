// SPDX-License-Identifier: Apache-2.0
// The smaller readers: CNI_ARGS, previous results, events and log lines of istio-cni's plugin.

import { describe, expect, test } from '@jest/globals'
import { InvalidInput } from '../../../src/base/errors.js'
import { parseAddEvent } from '../../../src/node-agent/plugin-protocol/add-event.js'
import { parseCniArgs } from '../../../src/node-agent/plugin-protocol/cni-args.js'
import { parseLogLines } from '../../../src/node-agent/plugin-protocol/log-lines.js'
import { parsePrevResult } from '../../../src/node-agent/plugin-protocol/prev-result.js'
import { CniRefusal } from '../../../src/node-agent/plugin-protocol/refusal.js'

describe('CNI_ARGS', () => {
  test('name the pod [4.3]', () => {
    expect(parseCniArgs('K8S_POD_NAMESPACE=a;K8S_POD_NAME=b;K8S_POD_UID=u;K8S_POD_INFRA_CONTAINER_ID=c')).toEqual({
      podNamespace: 'a',
      podName: 'b',
      podUid: 'u',
    })
    expect(parseCniArgs('')).toEqual({ podNamespace: '', podName: '', podUid: '' })
  })

  test('with unknown keys are taken only when unknown ones are to be ignored [4.3]', () => {
    for (const word of ['1', 'true', 'TRUE']) expect(parseCniArgs(`FOO=b;IgnoreUnknown=${word}`).podName).toBe('')
    for (const text of ['FOO=b', 'FOO=b;IgnoreUnknown=0', 'IgnoreUnknown=yes']) {
      expect(() => parseCniArgs(text)).toThrow(CniRefusal)
    }
  })

  test('are pairs, each of them [4.3]', () => {
    for (const text of ['a', 'IgnoreUnknown=1;', ';', 'IgnoreUnknown=1;K8S_POD_NAME=a=b']) {
      expect(() => parseCniArgs(text)).toThrow(CniRefusal)
    }
  })
})

describe('a previous result', () => {
  test('gives the addresses of its format, canonical, in order [4.1.3]', () => {
    const ips = [{ address: '::ffff:10.0.0.9/128' }, { address: 'FD00:0::7/64', version: '6' }]
    expect(parsePrevResult({ cniVersion: '0.3.0', ips }, '0.4.0')).toEqual(['10.0.0.9', 'fd00::7'])
    expect(parsePrevResult({ cniVersion: '1.1.0', interfaces: [] }, '1.0.0')).toEqual([])
    expect(parsePrevResult({ ip6: { ip: 'fd00::7/64' }, ip4: { ip: '10.0.0.9/24' } }, '0.1.0')).toEqual([
      '10.0.0.9',
      'fd00::7',
    ])
  })

  test('of another format than the configuration is refused [4.1.3]', () => {
    const pairs = [
      ['0.2.0', '0.3.0'],
      ['0.4.0', '0.2.0'],
      ['0.4.0', '1.0.0'],
      ['1.0.0', '0.4.0'],
      ['9.9.9', '1.1.0'],
    ] as const
    for (const [own, version] of pairs) expect(() => parsePrevResult({ cniVersion: own }, version)).toThrow(CniRefusal)
    expect(() => parsePrevResult({ ips: [] }, '1.0.0')).toThrow(CniRefusal)
    expect(() => parsePrevResult({ cniVersion: 1 }, '1.0.0')).toThrow(CniRefusal)
  })

  test('with an address that is none is refused, and the place is named', () => {
    for (const address of ['10.0.0.9', '10.0.0.9/33', '10.0.0.9/', '/24', 'fe80::1%eth0/64', 5, undefined]) {
      expect(() => parsePrevResult({ cniVersion: '1.0.0', ips: [{ address }] }, '1.0.0')).toThrow(
        'prevResult.ips[0].address',
      )
    }
    for (const wrong of [[], 'x', { cniVersion: '1.0.0', ips: {} }, { cniVersion: '1.0.0', ips: [1] }]) {
      expect(() => parsePrevResult(wrong, '1.0.0')).toThrow(CniRefusal)
    }
  })
})

describe('an event of the plugin of istio-cni', () => {
  const parse = (value: unknown): unknown => parseAddEvent(Buffer.from(JSON.stringify(value)))

  test('is read with keys in any case; what it does not say is empty [4.5.2]', () => {
    const entry = { address: { ip: 'fd00::0:7', mask: '//////////8AAAAAAAAAAA==' }, interface: null, gateway: '' }
    expect(parse({ NETNS: '/n', PodName: 'p', podNamespace: 's', IPs: [entry], More: 1 })).toEqual({
      netns: '/n',
      podName: 'p',
      podNamespace: 's',
      ips: ['fd00::7'],
    })
    expect(parse(null)).toEqual({ netns: '', podName: '', podNamespace: '', ips: [] })
  })

  test('is refused when a part of it is not what it should be [4.5.3]', () => {
    const wrong: readonly unknown[] = [
      [],
      { Netns: 1 },
      { IPs: {} },
      { IPs: [1] },
      { IPs: [null] },
      { IPs: [{ Address: 'x' }] },
      { IPs: [{ Address: { IP: '10.0.0.1', Mask: '*' } }] },
      { IPs: [{ Address: { IP: '10.0.0.1' }, Interface: 1.5 }] },
      { IPs: [{ Address: { IP: '10.0.0.1' }, Gateway: 'x' }] },
      { IPs: [{ Address: { IP: 'fe80::1%1' } }] },
    ]
    for (const event of wrong) expect(() => parse(event)).toThrow(InvalidInput)
  })
})

describe('the log of the plugin of istio-cni', () => {
  test('keeps lines with level, time and message, and their labels [4.7.3]', () => {
    const line = { level: 'warn', time: '2026-01-01T00:00:00.000001Z', scope: 'cni', msg: 'hello', pod: 'a/b' }
    const others = ['{"level":"info","time":"t"}', '{"level":"fatal","time":"t","msg":"m"}', 'x', '[]']
    expect(parseLogLines(JSON.stringify([JSON.stringify(line), ...others, 5]))).toEqual([
      { level: 'warn', message: 'hello', time: '2026-01-01T00:00:00.000001Z', labels: { pod: 'a/b' } },
    ])
    expect(parseLogLines('[]')).toEqual([])
    expect(parseLogLines('{"a":1}')).toBeUndefined()
    expect(parseLogLines('nope')).toBeUndefined()
  })
})
