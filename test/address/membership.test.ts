// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import {
  endpointUid,
  ip,
  pod,
  podUid,
  portsOf,
  room,
  service,
  serviceEntry,
  serviceName,
  slice,
  sliceUid,
  workloadEntry,
} from './objects.js'

const p = podUid('p')
const s = serviceName('s')
const app = { app: 'a' }
const port = (name: string, number: number, targetPort: number | string, protocol = 'TCP') => ({
  name,
  port: number,
  targetPort,
  protocol,
})
const container = (ports: readonly object[], more: object = {}) => ({ name: 'c', ports, ...more })

describe('a pod in a service', () => {
  test('has its selector fitted and its port by number [M1,R3]', () => {
    const made = room([pod('p', { labels: app }), service('s', { selector: app })])
    expect(portsOf(made, p, s)).toEqual(['80>8080'])
    expect(made.source.get(p)?.parents).toEqual([s])
  })

  const named = [port('a', 80, 8080), port('b', 81, 't81'), port('c', 82, 't82')]
  test('resolves named ports by its own containers and leaves out what it has not [R1,S4]', () => {
    const ports = [{ name: 't81', containerPort: 9090, protocol: 'TCP' }]
    const made = room([
      pod('p', { labels: app, spec: { containers: [container(ports)] } }),
      service('s', { selector: app, ports: named }),
    ])
    expect(portsOf(made, p, s)).toEqual(['80>8080', '81>9090'])
    expect(made.service(s)?.ports.map((each) => `${each.servicePort}>${each.targetPort}`)).toEqual([
      '80>8080',
      '81>0',
      '82>0',
    ])
  })

  test.each([
    ['a sidecar', { restartPolicy: 'Always' }, ['80>8080', '81>9090']],
    ['an ordinary init container', {}, ['80>8080']],
  ])('resolves by %s or not [R1]', (_, more, expected) => {
    const init = container([{ name: 't81', containerPort: 9090 }], more)
    const made = room([
      pod('p', { labels: app, spec: { containers: [container([])], initContainers: [init] } }),
      service('s', { selector: app, ports: named }),
    ])
    expect(portsOf(made, p, s)).toEqual(expected)
  })

  test('is in it even when no port can be resolved [M4]', () => {
    const made = room([pod('p', { labels: app }), service('s', { selector: app, ports: [port('b', 81, 't81')] })])
    expect(portsOf(made, p, s)).toEqual([])
  })

  test.each([
    ['an empty selector', service('s', { selector: {} }), pod('p', { labels: app })],
    ['no selector', service('s'), pod('p', { labels: app })],
    ['a selector, when it has no labels', service('s', { selector: app }), pod('p')],
    ['its selector in another namespace', service('s', { selector: app }, { ns: 'ns2' }), pod('p', { labels: app })],
  ])('is in none by %s [M1,S10]', (_, ofService, ofPod) => {
    expect(room([ofService, ofPod]).source.get(p)?.parents).toEqual([])
  })

  test('takes the container port that is called like the port of a ServiceEntry, before its target port [R2]', () => {
    const ports = [{ number: 8002, name: 'http', protocol: 'HTTP', targetPort: 9999 }]
    const made = room([
      pod('p', { labels: app, spec: { containers: [container([{ name: 'http', containerPort: 8000 }])] } }),
      serviceEntry('se', { hosts: ['h.ex'], resolution: 'STATIC', workloadSelector: { labels: app }, ports }),
    ])
    expect(portsOf(made, p, 'ns1/h.ex')).toEqual(['8002>8000'])
  })

  test('is not selected by ServiceEntries when the setting says so [M2]', () => {
    const entry = serviceEntry('se', { hosts: ['h.ex'], resolution: 'STATIC', workloadSelector: { labels: app } })
    const made = room([pod('p', { labels: app }), entry], { serviceEntrySelectsPods: false })
    expect(made.source.get(p)?.parents).toEqual([])
  })

  const target = (uid: string) => ({ kind: 'Pod', namespace: 'ns1', name: 'p', uid })
  test('is attached by a slice that names it, with the target port of the Service [M3,Y2]', () => {
    const endpoint = { addresses: ['10.1.0.1'], targetRef: target('Pod-p') }
    const made = room([pod('p'), service('s'), slice('sl', 's', [endpoint])])
    expect(portsOf(made, p, s)).toEqual(['80>8080'])
    expect(made.lookup('nw/10.1.0.1')).toEqual([p])
  })

  test('is not attached by its address alone: that is another workload beside it [M3,Y1]', () => {
    const made = room([pod('p'), service('s'), slice('sl', 's', [{ addresses: ['10.1.0.1'] }])])
    expect(made.source.get(p)?.parents).toEqual([])
    expect(made.lookup('nw/10.1.0.1')).toEqual([p, sliceUid('sl', '10.1.0.1')])
  })

  test.each([
    ['a pod of another uid', target('old')],
    ['another pod', { ...target('Pod-p'), name: 'q' }],
  ])('is not attached by a slice that names %s [M3]', (_, targetRef) => {
    const made = room([pod('p'), service('s'), slice('sl', 's', [{ addresses: ['10.1.0.1'], targetRef }])])
    expect(made.source.get(p)?.parents).toEqual([])
    expect(made.lookup('nw/10.1.0.1')).toEqual([p])
  })

  test('leaves when the selector narrows, and only it is told [L3,11]', () => {
    const made = room([
      pod('p', { labels: app }),
      pod('q', { labels: { ...app, tier: 'x' }, ips: ['10.1.0.2'] }),
      service('s', { selector: app }),
    ])
    expect(made.lookup('nw/10.0.0.1')).toEqual([s, p, podUid('q')])
    expect(made.apply(service('s', { selector: { ...app, tier: 'x' } }))).toEqual({ changed: [p], removed: [] })
    expect(made.lookup(s)).toEqual([s, podUid('q')])
  })

  test('is not computed again when only the waypoint of the service changes [11]', () => {
    const made = room([pod('p', { labels: app }), service('s', { selector: app })])
    const before = made.source.get(p)
    made.apply(service('s', { selector: app }, { labels: { 'istio.io/use-waypoint': 'none' } }))
    expect(made.source.get(p)).toBe(before)
  })

  test('shares names of ports that share a number, the later one naming both [S6]', () => {
    const ports = [port('dns', 53, 'dns-t', 'UDP'), port('dns-tcp', 53, 5353)]
    const made = room([pod('p', { labels: app }), service('s', { selector: app, ports })])
    expect(portsOf(made, p, s)).toEqual(['53>0', '53>5353'])
  })
})

describe('an endpoint of a slice', () => {
  test('is a workload of little more than address, service and health [Y1,Y3,Y4,Y5]', () => {
    const endpoints = [{ addresses: ['172.18.0.5'], conditions: { ready: false } }]
    const made = room([service('s'), slice('sl', 's', endpoints)])
    expect(made.workload(sliceUid('sl', '172.18.0.5'))).toMatchObject({
      name: 'sl',
      namespace: 'ns1',
      addresses: [ip('172.18.0.5')],
      network: 'nw',
      networkMode: 1,
      status: 1,
      clusterId: 'c0',
      workloadType: 0,
      canonicalName: '',
      services: new Map([[s, [{ servicePort: 80, targetPort: 9999, appProtocol: 0 }]]]),
    })
  })

  test.each([
    ['its Service is not published', [slice('sl', 's', [{ addresses: ['1.1.1.1'] }])]],
    ['it holds names', [service('s'), slice('sl', 's', [{ addresses: ['1.1.1.1'] }], { addressType: 'FQDN' })]],
    [
      'it is a pod that is not there',
      [
        service('s'),
        slice('sl', 's', [
          { addresses: ['1.1.1.1'], targetRef: { kind: 'Pod', namespace: 'ns1', name: 'gone', uid: 'u' } },
        ]),
      ],
    ],
    ['one of its addresses is none', [service('s'), slice('sl', 's', [{ addresses: ['1.1.1.1', 'x'] }])]],
  ])('is nothing when %s [Y1,Y2]', (_, objects) => {
    expect(room(objects).lookup('nw/1.1.1.1')).toEqual([])
  })

  test('with an address that came before in the slice is passed over [Y2]', () => {
    const endpoints = [{ addresses: ['1.1.1.1'] }, { addresses: ['1.1.1.1', '2.2.2.2'] }]
    const made = room([service('s'), slice('sl', 's', endpoints)])
    expect(made.lookup('nw/2.2.2.2')).toEqual([])
    expect(made.lookup('nw/1.1.1.1')).toEqual([sliceUid('sl', '1.1.1.1')])
  })
})

describe('an entry in a service', () => {
  const w = 'c0/networking.istio.io/WorkloadEntry/ns1/w'
  const entry = (ports: Readonly<Record<string, number>>) =>
    workloadEntry('w', { address: '10.2.0.1', ports }, { labels: app })

  test('maps names of ports and of targets by itself [R4,R5]', () => {
    const ports = [port('a', 80, 8080), port('p81', 81, 8081), port('c', 82, 't82'), port('d', 83, 't83')]
    const made = room([entry({ p81: 8180, t82: 8280 }), service('s', { selector: app, ports })])
    expect(portsOf(made, w, s)).toEqual(['80>8080', '81>8180', '82>8280'])
  })

  test('maps names of a ServiceEntry too, whose ports without target lead to themselves [R6,S14]', () => {
    const ports = [
      { number: 80, name: 'p80', protocol: 'TCP', targetPort: 8080 },
      { number: 81, name: 'p81', protocol: 'TCP' },
      { number: 82, name: 'p82', protocol: 'TCP' },
    ]
    const se = serviceEntry('se', { hosts: ['h.ex'], resolution: 'STATIC', workloadSelector: { labels: app }, ports })
    const made = room([entry({ p81: 8180 }), se])
    expect(portsOf(made, w, 'ns1/h.ex')).toEqual(['80>8080', '81>8180', '82>82'])
    expect(made.service('ns1/h.ex')?.ports.map((each) => each.targetPort)).toEqual([8080, 81, 82])
  })

  test('is in ServiceEntries alone when the setting keeps Services away [M2]', () => {
    const se = serviceEntry('se', { hosts: ['h.ex'], resolution: 'STATIC', workloadSelector: { labels: app } })
    const made = room([entry({}), service('s', { selector: app }), se], { serviceSelectsWorkloadEntries: false })
    expect(made.source.get(w)?.parents).toEqual(['ns1/h.ex'])
  })

  test('of a ServiceEntry maps its ports [R6,E4]', () => {
    const made = room([
      serviceEntry('se', {
        hosts: ['h.ex'],
        resolution: 'STATIC',
        ports: [{ number: 80, name: 'http', protocol: 'HTTP', targetPort: 8080 }],
        endpoints: [{ address: '2.3.4.5', ports: { http: 8081 } }],
      }),
    ])
    expect(portsOf(made, endpointUid('se', '2.3.4.5'), 'ns1/h.ex')).toEqual(['80>8081'])
  })
})
