// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { judgeConnection, type Connection } from '../support/ztunnel-verdict.js'
import { authorization, mesh, peerAuthentication, pod, podUid, ref, room } from './objects.js'
import type { KubeObject, Room } from './room.js'

type Json = Readonly<Record<string, unknown>>

const labels = { app: 'a' }
const groupsOf = (spec: Json, ns = 'ns1') => room([authorization('p', spec, { ns })]).policy(`${ns}/p`)?.['groups']
const matchOf = (rule: Json) => groupsOf({ rules: [rule] })
const one = (match: Json) => [{ rules: [{ matches: [match] }] }]

const peer = (namespace: string, account = 'x') => `cluster.local/ns/${namespace}/sa/${account}`

/** Is a connection let in to the pod of the room? */
function judge(made: Room, connection: Partial<Connection> = {}): string {
  const served = new Map([...made.policies.all()].map(({ name }) => [name, made.policy(name)!]))
  const { needs: listed = [] } = made.source.get(podUid('p'))!
  return judgeConnection(
    { principal: '', sourceIp: '10.9.9.9', destinationIp: '10.1.0.1', port: 80, ...connection },
    { namespace: 'ns1', listed },
    served,
  )
}
const withPod = (...objects: readonly KubeObject[]) => room([pod('p', { labels }), ...objects])

describe('values of rules', () => {
  test.each<readonly [string, Json]>([
    ['*', { presence: {} }],
    ['*a', { suffix: 'a' }],
    ['a*', { prefix: 'a' }],
    ['*a*', { suffix: 'a*' }],
    ['**', { suffix: '*' }],
    ['', { exact: '' }],
    ['spiffe://td/ns/a/sa/b', { exact: 'spiffe://td/ns/a/sa/b' }],
  ])('text %p is matched as it should [3.3]', (text, match) => {
    expect(matchOf({ from: [{ source: { principals: [text] } }] })).toEqual(one({ principals: [match] }))
  })

  test('accounts have the namespace of the policy unless they say another, and are no patterns [3.3]', () => {
    const serviceAccounts = ['s', 'b/s', 'b/x*', '*', 'c/']
    expect(matchOf({ from: [{ source: { serviceAccounts } }] })).toEqual(
      one({
        serviceAccounts: [
          { namespace: 'ns1', serviceAccount: 's' },
          { namespace: 'b', serviceAccount: 's' },
          { namespace: 'b', serviceAccount: 'x*' },
          { namespace: 'ns1', serviceAccount: '*' },
          { namespace: 'c' },
        ],
      }),
    )
  })

  test('ports are decimal, whatever else goes [3.3]', () => {
    const ports = ['80', '080', '0', '65535', '65536', '+80', ' 80', '0x50', '8_0', '1e2', 'http', '']
    expect(matchOf({ to: [{ operation: { ports } }] })).toEqual(one({ destinationPorts: [80, 80, 0, 65535] }))
  })

  test('ranges keep their host bits, whatever is no address goes [3.3]', () => {
    const ipBlocks = [
      '10.1.2.3/8',
      '0.0.0.0/0',
      'fe80::1%eth0',
      '::ffff:10.0.0.1',
      '10.0.0.0/08',
      ' 10.0.0.1',
      '10.0.0',
    ]
    expect(matchOf({ from: [{ source: { ipBlocks } }] })).toEqual(
      one({
        sourceIps: [
          { address: '10.1.2.3', length: 8 },
          { address: '0.0.0.0' },
          { address: 'fe80::1', length: 128 },
          { address: '::ffff:10.0.0.1', length: 128 },
        ],
      }),
    )
  })
})

describe('rules', () => {
  test('become destinations, then sources, then conditions [3.2]', () => {
    const rule = {
      from: [{ source: { namespaces: ['a'] } }, { source: {} }, {}],
      to: [{ operation: { ports: ['80'] } }, { operation: { notPorts: ['81'] } }],
      when: [{ key: 'destination.port', values: ['82'], notValues: ['83'] }],
    }
    expect(matchOf(rule)).toEqual([
      {
        rules: [
          { matches: [{ destinationPorts: [80] }, { notDestinationPorts: [81] }] },
          { matches: [{ namespaces: [{ exact: 'a' }] }, {}, {}] },
          { matches: [{ destinationPorts: [82], notDestinationPorts: [83] }] },
        ],
      },
    ])
  })

  test('that allow go as a whole when a part of them cannot be judged, others stay [3.4]', () => {
    const plain = { from: [{ source: { namespaces: ['a'] } }] }
    const mixed = { ...plain, to: [{ operation: { paths: ['/'] } }] }
    expect(groupsOf({ rules: [mixed, plain] })).toEqual(one({ namespaces: [{ exact: 'a' }] }))
    expect(groupsOf({ rules: [mixed] })).toBeUndefined()
  })

  test.each<readonly [string, unknown]>([
    ['that is nothing', null],
    ['that is a text', 'x'],
    ['whose sources are no list', { from: 'x' }],
    ['whose source is a text', { from: [{ source: 'x' }] }],
    ['with a misspelt attribute', { from: [{ source: { namespcaes: ['a'] } }] }],
    ['with a misspelt list', { form: [{ source: { namespaces: ['a'] } }] }],
    ['with numbers for texts', { to: [{ operation: { ports: [80] } }] }],
    ['with a condition without a key', { when: [{ values: ['a'] }] }],
    ['with a condition on the request', { when: [{ key: 'request.headers[x]', values: ['a'] }] }],
    ['named like what every object has', { when: [{ key: 'constructor', values: ['a'] }] }],
  ])('never hold for everybody because of one %s', (_, rule) => {
    expect(judge(withPod(authorization('p', { rules: [rule] })))).toBe('deny')
    expect(judge(withPod(authorization('p', { rules: [rule], action: 'DENY' })))).toBe('allow')
  })
})

describe('connections', () => {
  const l7 = { to: [{ operation: { methods: ['GET'], paths: ['/x'] } }] }

  test('are all turned away by an ALLOW of nothing but requests [3.4]', () => {
    expect(judge(withPod(authorization('p', { rules: [l7] })), { principal: peer('a') })).toBe('deny')
  })

  test('are not turned away by a DENY of nothing but requests, and no DENY of it becomes one of everything [3.4]', () => {
    expect(judge(withPod(authorization('p', { action: 'DENY', rules: [l7] })))).toBe('allow')
    const from = [{ source: { namespaces: ['a'] } }]
    const both = withPod(authorization('p', { action: 'DENY', rules: [{ ...l7, from }] }))
    expect([judge(both, { principal: peer('a') }), judge(both)]).toEqual(['allow', 'allow'])
  })

  test('are turned away on the port that a DENY of requests names [3.4]', () => {
    const to = [{ operation: { methods: ['GET'], ports: ['80'] } }]
    const made = withPod(authorization('p', { action: 'DENY', rules: [{ to }] }))
    expect([judge(made), judge(made, { port: 81 })]).toEqual(['deny', 'allow'])
  })

  test('are let in by nobody who names a port by a word [3.3]', () => {
    const rules = [{ to: [{ operation: { ports: ['http'] } }] }]
    expect(judge(withPod(authorization('p', { rules })))).toBe('deny')
    expect(judge(withPod(authorization('p', { rules, action: 'DENY' })))).toBe('allow')
  })

  test('are not touched by a selector without labels, and are by one with an empty set of them [5.2]', () => {
    const deny = { action: 'DENY', rules: [{}] }
    expect(judge(withPod(authorization('p', { ...deny, selector: {} })))).toBe('allow')
    expect(judge(withPod(authorization('p', { ...deny, selector: { matchLabels: {} } })))).toBe('deny')
  })

  test('of an identity are judged by namespace, account and trust domain [2.4,2.5]', () => {
    const allow = (source: Json) => withPod(authorization('p', { rules: [{ from: [{ source }] }] }))
    const answers = (made: Room) =>
      [peer('a'), peer('b'), peer('a', 'y'), ''].map((principal) => judge(made, { principal }))
    expect(answers(allow({ namespaces: ['a'] }))).toEqual(['allow', 'deny', 'allow', 'deny'])
    expect(answers(allow({ serviceAccounts: ['a/x'] }))).toEqual(['allow', 'deny', 'deny', 'deny'])
    expect(answers(allow({ principals: ['*/sa/x'] }))).toEqual(['allow', 'allow', 'deny', 'deny'])
    expect(answers(allow({ principals: ['*'] }))).toEqual(['allow', 'allow', 'allow', 'deny'])
  })

  test('without identity are let in to exempt ports alone, whatever stands above [4.7]', () => {
    const strict = { mtls: { mode: 'STRICT' } }
    const ports = (mode: string) => ({ selector: { matchLabels: labels }, portLevelMtls: { 81: { mode } } })
    const above = peerAuthentication('m', strict, { ns: 'istio-system' })
    const silent = peerAuthentication('n', {})
    for (const mode of ['PERMISSIVE', 'DISABLE'])
      for (const more of [[], [silent]]) {
        const made = withPod(above, ...more, peerAuthentication('w', ports(mode)))
        const answers = [judge(made), judge(made, { port: 81 }), judge(made, { principal: peer('a') })]
        expect([mode, more.length, answers]).toEqual([mode, more.length, ['deny', 'allow', 'allow']])
      }
    const opened = withPod(above, peerAuthentication('w', { ...ports('STRICT'), mtls: { mode: 'PERMISSIVE' } }))
    expect([judge(opened), judge(opened, { port: 81 })]).toEqual(['allow', 'deny'])
  })
})

describe('policies', () => {
  test('have the scope of where they are and whom they select [3.1]', () => {
    const selector = { selector: { matchLabels: labels } }
    const made = room([
      authorization('all', {}, { ns: 'istio-system' }),
      authorization('root', selector, { ns: 'istio-system' }),
      authorization('own', {}),
      authorization('some', selector),
    ])
    const scopes = [...made.policies.all()].map(({ name }) => [name, made.policy(name)?.scope]).sort()
    expect(scopes).toEqual([
      ['istio-system/all', undefined],
      ['istio-system/root', 'WORKLOAD_SELECTOR'],
      ['ns1/own', 'NAMESPACE'],
      ['ns1/some', 'WORKLOAD_SELECTOR'],
    ])
    made.apply(mesh('rootNamespace: ns1\n'))
    expect([made.policy('istio-system/all')?.scope, made.policy('ns1/own')?.scope]).toEqual(['NAMESPACE', undefined])
  })

  test('have neither versions nor other names, and are found by their own alone', () => {
    const made = room([authorization('p', {})])
    const [policy] = made.policies.lookup('ns1/p')
    expect(policy).toMatchObject({ name: 'ns1/p', version: '', aliases: [], parents: [], node: '' })
    expect([made.policies.lookup('ns1/q'), made.policies.members('ns1/p'), made.policies.local('n1')]).toEqual([
      [],
      [],
      [],
    ])
  })

  test('are told in the same commit as the workloads that list them', () => {
    const made = withPod()
    const told: string[][] = []
    made.address.store.onCommit((changes) =>
      told.push([...changes.keys()].map((typeUrl) => typeUrl.split('.').at(-1)!)),
    )
    made.apply(authorization('p', { selector: { matchLabels: labels } }))
    made.apply(authorization('p', { selector: { matchLabels: labels }, rules: [{}] }))
    made.delete([ref(authorization('p', {}))])
    made.commit()
    expect(told).toEqual([
      ['Authorization', 'Address', 'Workload'],
      ['Authorization'],
      ['Authorization', 'Address', 'Workload'],
    ])
  })
})

describe('reasons', () => {
  const why = (object: KubeObject, name = 'ns1/p') => {
    const { isSent, why } = room([object]).address.explainPolicy(name) ?? {}
    return [isSent, why?.slice(1)]
  }

  test.each<readonly [Json, Json, boolean, readonly string[]]>([
    [{ action: 'CUSTOM' }, {}, false, ['not sent to ztunnel, which does not support action CUSTOM']],
    [
      { targetRefs: [{ kind: 'Gateway', name: 'w' }] },
      {},
      false,
      ['not sent to ztunnel: it has targetRefs, so it is for waypoints'],
    ],
    [
      {},
      { annotations: { 'istio.io/dry-run': 'true' } },
      false,
      [
        'not sent to ztunnel: annotation istio.io/dry-run is true, and AMBIENT_ENABLE_DRY_RUN_AUTHORIZATION_POLICY is off',
      ],
    ],
    [{}, { labels: { 'istio.io/rev': 'x' } }, true, ['it has no rules: it lets nobody in']],
    [{ action: 'DENY' }, {}, true, ['it has no rules: it denies nothing']],
    [{ rules: [{}] }, {}, true, []],
    [
      { rules: [{ to: [{ operation: { paths: ['/'], hosts: ['h'] } }] }] },
      {},
      true,
      ['ztunnel cannot judge hosts, paths: rules with them are left out, so less is allowed than they say'],
    ],
    [
      { action: 'DENY', rules: [{ when: [{ key: 'connection.sni', values: ['h'] }] }] },
      {},
      true,
      ['ztunnel cannot judge connection.sni: no rule can hold without them, so it denies nothing'],
    ],
    [
      { action: 'DENY', rules: [{ to: [{ operation: { ports: ['http'] } }] }] },
      {},
      true,
      ['ports: "http" cannot be read and is left out', 'no rule can hold: it denies nothing'],
    ],
    [
      { selector: {}, rules: [{}] },
      {},
      true,
      ['its selector has no matchLabels, so no workload lists it and it does nothing'],
    ],
  ])('are given for %j %j', (spec, made, isSent, sentences) => {
    expect(why(authorization('p', spec, made))).toEqual([isSent, sentences])
  })

  test('are given for what PeerAuthentications and waypoints come to', () => {
    const pa = peerAuthentication('w', { selector: { matchLabels: labels }, portLevelMtls: { 81: { mode: 'STRICT' } } })
    const made = room([pa])
    const names = ['ns1/converted_peer_authentication_w', 'istio-system/istio_converted_static_strict', 'ns1/none']
    expect(names.map((name) => made.address.explainPolicy(name)?.why)).toEqual([
      ['from the ports of PeerAuthentication ns1/w', 'turns away peers without identity on port 81'],
      [
        'turns away peers without identity; there while any PeerAuthentication is',
        'listed by workloads that are STRICT',
      ],
      undefined,
    ])
  })
})
