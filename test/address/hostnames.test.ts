// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { endpointUid, mesh, namespace, ref, room, serviceEntry, serviceName, service } from './objects.js'
import type { Room } from './room.js'

const entry = (name: string, at: number, ns = 'ns1', host = 'foo.com') =>
  serviceEntry(
    name,
    { hosts: [host], resolution: 'STATIC', addresses: [`10.5.0.${at}`], endpoints: [{ address: `10.6.0.${at}` }] },
    { ns, at },
  )
const canonical = (made: Room, ...names: readonly string[]) => names.map((name) => made.service(name)?.canonical)

describe('one host name in one namespace', () => {
  test('is published for the older entry alone, and for the other when that goes [S25,S28]', () => {
    const made = room([entry('young', 2), entry('old', 1)])
    expect(made.names()).toEqual([endpointUid('old', '10.6.0.1'), 'ns1/foo.com'])
    expect([made.lookup('nw/10.5.0.2'), made.lookup('nw/10.6.0.2')]).toEqual([[], []])
    made.delete([ref(entry('old', 1))])
    expect(made.commit()).toEqual({
      changed: [endpointUid('young', '10.6.0.2'), 'ns1/foo.com'],
      removed: [endpointUid('old', '10.6.0.1')],
    })
  })

  test('is published for the lower name when both are equally old [S25]', () => {
    expect(room([entry('b', 1), entry('a', 1)]).service('ns1/foo.com')?.name).toBe('a')
  })

  test('is a Service before any entry, however old [S25]', () => {
    const made = room([entry('old', 1, 'ns1', 's.ns1.svc.cluster.local'), service('s', {}, { at: 9 })])
    expect(made.names()).toEqual([serviceName('s')])
    expect(made.service(serviceName('s'))?.name).toBe('s')
  })
})

describe('one host name in several namespaces', () => {
  test('is canonical where it is oldest, and elsewhere when that goes [S26,S28]', () => {
    const made = room([entry('a', 1, 'ns-o'), entry('b', 2)])
    expect(canonical(made, 'ns-o/foo.com', 'ns1/foo.com')).toEqual([true, false])
    made.delete([ref(entry('a', 1, 'ns-o'))])
    expect(made.commit().changed).toEqual(['ns1/foo.com'])
    expect(canonical(made, 'ns1/foo.com')).toEqual([true])
  })

  test('is canonical for the Service, however young [S26]', () => {
    const made = room([entry('e', 1, 'team-b', 's.ns1.svc.cluster.local'), service('s', {}, { at: 9 })])
    expect(canonical(made, serviceName('s'), 'team-b/s.ns1.svc.cluster.local')).toEqual([true, false])
  })

  test('is canonical in the lower namespace when both are equally old [S26]', () => {
    expect(canonical(room([entry('e', 1, 'ns2'), entry('e', 1, 'ns1')]), 'ns1/foo.com', 'ns2/foo.com')).toEqual([
      true,
      false,
    ])
  })

  const visibility = (text: string) => mesh(`serviceEntryVisibility: ${text}\n`)
  const privateTeam = visibility(
    '{defaultVisibility: PUBLIC, policies: [{visibility: NAMESPACE, matchingRules: [{namespaceSelector: {matchLabels: {team: p}}}]}]}',
  )
  test('is never canonical where it is private [S25,S26]', () => {
    const made = room([privateTeam, namespace('ns-o', { team: 'p' }), entry('a', 1, 'ns-o'), entry('b', 2)])
    expect(canonical(made, 'ns-o/foo.com', 'ns1/foo.com')).toEqual([false, true])
    expect(canonical(room([visibility('{defaultVisibility: NAMESPACE}'), entry('a', 1)]), 'ns1/foo.com')).toEqual([
      false,
    ])
  })
})

describe('the visibility of an entry', () => {
  const policies = (text: string) => mesh(`serviceEntryVisibility: {defaultVisibility: NONE, policies: [${text}]}\n`)
  const rule = (selector: string) => `matchingRules: [{namespaceSelector: ${selector}}]`
  test.each([
    ['by default', '', undefined],
    ['by the first policy that fits', `{visibility: NAMESPACE, ${rule('{}')}}, {visibility: NONE, ${rule('{}')}}`, 1],
    ['by number', `{visibility: 3, ${rule('{matchLabels: {team: x}}')}}`, 0],
    ['by a policy without rules', '{visibility: PUBLIC}', 0],
    [
      'by none whose rule is of an unknown kind',
      '{visibility: PUBLIC, matchingRules: [{somethingElse: {}}]}',
      undefined,
    ],
  ])('is decided %s [S20,S21,S22]', (_, text, expected) => {
    const made = room([policies(text), namespace('ns1', { team: 'x' }), entry('e', 1)])
    expect(made.service('ns1/foo.com')?.visibility).toBe(expected)
  })

  test('stays as it was when a selector is broken, even when nothing was configured before [S23]', () => {
    const broken = policies(`{visibility: PUBLIC, ${rule('{matchExpressions: [{key: a, operator: Wrong}]}')}}`)
    const made = room([entry('e', 1)])
    expect(made.apply(broken)).toEqual({ changed: [], removed: [] })
    expect(made.failures.map((failure) => failure.collection)).toEqual(['entry visibility'])
    const fresh = room([broken, entry('e', 1)])
    expect(fresh.names()).toEqual([])
  })
})
