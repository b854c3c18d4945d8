// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { parseMeshConfig } from '../../src/kube/mesh-config.js'
import {
  authorization,
  mesh,
  namespace,
  pod,
  podUid,
  ref,
  room,
  service,
  serviceEntry,
  serviceName,
} from './objects.js'

const selecting = (selector: string) => mesh(`discoverySelectors: [${selector}]\n`)
const p = podUid('p')

describe('discovery selectors', () => {
  const objects = [pod('p'), service('s'), namespace('ns1', { env: 'x' })]

  test('take in and give up a namespace with all it holds [F1]', () => {
    const made = room([...objects, selecting('{matchLabels: {env: x}}')])
    expect(made.names()).toEqual([p, serviceName('s')])
    expect(made.apply(namespace('ns1'))).toEqual({ changed: [], removed: [p, serviceName('s')] })
    expect(made.apply(namespace('ns1', { env: 'x' })).changed).toEqual([p, serviceName('s')])
  })

  test.each([
    ['{matchLabels: {env: y}}, {matchExpressions: [{key: env, operator: In, values: [x]}]}', true],
    ['{matchLabels: {env: x}, matchExpressions: [{key: env, operator: DoesNotExist}]}', false],
    ['{matchExpressions: [{key: other, operator: NotIn, values: [x]}]}', true],
    ['{match_expressions: [{key: env, operator: Exists}]}', true],
    ['{}', true],
  ])('%s let a namespace in: %s [F1,F1b]', (selector, seen) => {
    expect(room([...objects, selecting(selector)]).names()).toEqual(seen ? [p, serviceName('s')] : [])
  })

  test('leave out a namespace that does not exist, as soon as there are any [F1b]', () => {
    const made = room([pod('p', { ns: 'ghost' })])
    expect(made.names()).toEqual([podUid('p', 'ghost')])
    expect(made.apply(selecting('{}')).removed).toEqual([podUid('p', 'ghost')])
  })

  test('do not hide the network label of the system namespace [F2]', () => {
    const made = room([...objects, selecting('{matchLabels: {env: x}}')])
    expect(made.workload(p)?.network).toBe('nw')
  })

  test.each([
    '{matchExpressions: [{key: env, operator: Wrong}]}',
    '{matchExpressions: [{key: env, operator: In}]}',
    '{matchExpressions: [{key: env, operator: Exists, values: [x]}]}',
    '{matchLabels: {"-bad": x}}',
    '{matchLabels: {env: "no spaces"}}',
  ])('that are broken, as %s, leave the last good ones in force; at the start those are none [F1,F1b]', (broken) => {
    const made = room([...objects, pod('q', { ns: 'ns2' }), namespace('ns2')])
    made.apply(selecting('{matchLabels: {env: x}}'))
    expect(made.apply(selecting(broken))).toEqual({ changed: [], removed: [] })
    expect(made.failures.map((failure) => failure.collection)).toEqual(['discovery selectors'])
    expect(room([...objects, selecting(broken)]).names()).toEqual([p, serviceName('s')])
  })
})

describe('revisions', () => {
  test.each([
    ['teal', 'other', false],
    ['teal', 'teal', true],
    ['teal', undefined, true],
    ['', 'other', true],
  ])('of control plane %j and object %j fit: %s [F4]', (revision, label, taken) => {
    const labels = label === undefined ? {} : { 'istio.io/rev': label }
    const selector = { selector: { matchLabels: { app: 'a' } } }
    const made = room(
      [
        serviceEntry('se', { hosts: ['h.ex'] }, { labels }),
        authorization('ap', selector, { labels }),
        pod('p', { labels: { app: 'a', 'istio.io/rev': 'any' } }),
      ],
      { revision },
    )
    expect([made.service('ns1/h.ex') !== undefined, made.workload(p)?.authorizationPolicies]).toEqual([
      taken,
      taken ? ['ns1/ap'] : [],
    ])
  })

  test('other than the default one have a mesh configuration of their own [MC1]', () => {
    const made = room([mesh('trustDomain: plain.example\n'), pod('p')], { revision: 'teal' })
    expect(made.workload(p)?.trustDomain).toBe('')
  })
})

describe('a mesh configuration', () => {
  test('that is broken leaves the last good one, that is gone leaves defaults [MC1]', () => {
    const made = room([mesh('trustDomain: one.example\n'), pod('p')])
    const domain = () => made.workload(p)?.trustDomain
    expect(made.apply(mesh('trustDomain: [unclosed')).changed).toEqual([])
    expect(made.apply(mesh('trustDomain: {a: b}\n')).changed).toEqual([])
    expect([domain(), made.failures.length]).toEqual(['one.example', 2])
    made.delete([ref(mesh(''))])
    made.commit()
    expect(domain()).toBe('')
    made.apply(mesh('trustDomain: 5\n'))
    expect(domain()).toBe('')
    made.apply(mesh('trust_domain: two.example\n'))
    expect(domain()).toBe('two.example')
  })

  const defaults = {
    trustDomain: 'cluster.local',
    rootNamespace: 'istio-system',
    discoverySelectors: [],
    serviceEntryVisibility: undefined,
  }
  test.each<readonly [string, object]>([
    ['', defaults],
    ['# nothing\n', defaults],
    ['trustDomain: null\nnoSuchField: [1]\n', defaults],
    ['{"rootNamespace": "r"}', { ...defaults, rootNamespace: 'r' }],
    [
      'serviceEntryVisibility: {policies: [{visibility: 2}]}',
      {
        ...defaults,
        serviceEntryVisibility: { defaultVisibility: 'PUBLIC', policies: [{ visibility: 'NAMESPACE', rules: [] }] },
      },
    ],
  ])('reads %j', (text, expected) => {
    expect(parseMeshConfig(text)).toEqual(expected)
  })

  test.each([
    ['just words', /must be an object/],
    ['trustDomain: ""', /trustDomain "" is not made of DNS labels/],
    ['trustDomain: a_b', /trustDomain/],
    ['discoverySelectors: {}', /discoverySelectors must be a list/],
    [
      'serviceEntryVisibility: {defaultVisibility: SOME}',
      /serviceEntryVisibility.defaultVisibility must be a visibility/,
    ],
    ['discoverySelectors: [{matchLabels: {a: 1}}]', /discoverySelectors\[0\].matchLabels.a must be a text/],
    ['a: b: c', /not YAML/],
  ])('refuses %j and says where', (text, message) => {
    expect(() => parseMeshConfig(text)).toThrow(message)
  })
})
