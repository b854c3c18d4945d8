// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from '@jest/globals'
import { pod, podUid, portsOf, ref, room, service, serviceEntry, serviceName, slice, sliceUid } from './objects.js'

const leaving = { meta: { deletionTimestamp: '2026-01-01T00:01:00Z' } }
const inMesh = { annotations: { 'ambient.istio.io/redirection': 'enabled' } }
const s = serviceName('s')
const bare = { addresses: ['10.1.0.1'] }

describe('an address that two pods claim', () => {
  test('belongs to the leaving pod as long as nobody else has it', () => {
    const made = room([pod('old', leaving)])
    expect(made.lookup('nw/10.1.0.1')).toEqual([podUid('old')])
  })

  test('goes to the pod that stays, in the commit that shows it, and the leaving one is withdrawn', () => {
    const made = room([pod('old', leaving)])
    expect(made.apply(pod('new'))).toEqual({ changed: [podUid('new')], removed: [podUid('old')] })
    expect(made.lookup('nw/10.1.0.1')).toEqual([podUid('new')])
  })

  test('comes back to the leaving pod when the other ends first', () => {
    const made = room([pod('old', leaving), pod('new')])
    expect(made.apply(pod('new', { phase: 'Succeeded' }))).toEqual({
      changed: [podUid('old')],
      removed: [podUid('new')],
    })
  })

  test.each([
    ['both stay', {}, {}],
    ['both leave', leaving, leaving],
    ['the leaving one is on the host network', { ...leaving, spec: { hostNetwork: true } }, {}],
    ['the other is on the host network', leaving, { spec: { hostNetwork: true } }],
  ])('is served under both when %s', (_, a, b) => {
    expect(room([pod('a', a), pod('b', b)]).lookup('nw/10.1.0.1')).toEqual([podUid('a'), podUid('b')])
  })

  test('of two families goes one by one: the leaving pod keeps the other', () => {
    const made = room([pod('old', { ...leaving, ips: ['10.1.0.1', 'fd00::1'] }), pod('new', { ips: ['fd00::1'] })])
    expect(made.source.get(podUid('old'))?.aliases).toEqual(['nw/10.1.0.1'])
    expect(made.lookup('nw/fd00::1')).toEqual([podUid('new')])
  })
})

describe('an address that a slice names without naming its pod', () => {
  test('is served by the pod of the mesh that has it, with the ports of the slice', () => {
    const made = room([service('s'), slice('sl', 's', [bare])])
    expect(made.apply(pod('p', inMesh))).toEqual({ changed: [podUid('p')], removed: [sliceUid('sl', '10.1.0.1')] })
    expect(portsOf(made, podUid('p'), s)).toEqual(['80>9999'])
    expect(made.lookup('nw/10.0.0.1')).toEqual([s, podUid('p')])
  })

  test('is a bare endpoint again in the commit in which the pod goes', () => {
    const made = room([service('s'), slice('sl', 's', [bare]), pod('p', inMesh)])
    made.delete([ref(pod('p'))])
    expect(made.commit()).toEqual({ changed: [sliceUid('sl', '10.1.0.1')], removed: [podUid('p')] })
  })

  test('leaves the service with its slice, and the pod stays', () => {
    const made = room([service('s'), slice('sl', 's', [bare]), pod('p', inMesh)])
    made.delete([ref(slice('sl', 's', []))])
    expect(made.commit()).toEqual({ changed: [podUid('p')], removed: [] })
    expect(made.source.get(podUid('p'))?.parents).toEqual([])
  })

  test.each([
    ['is outside of the mesh', {}],
    ['is on the host network', { ...inMesh, spec: { hostNetwork: true } }],
    ['has ended', { ...inMesh, phase: 'Succeeded' }],
  ])('stays a bare endpoint when the pod %s', (_, made) => {
    const found = room([service('s'), slice('sl', 's', [bare]), pod('p', made)])
    expect(found.source.get(sliceUid('sl', '10.1.0.1'))).toBeDefined()
    expect(found.source.get(podUid('p'))?.parents ?? []).toEqual([])
  })

  test('does not touch the ports of a pod whose labels select it already', () => {
    const labels = { app: 'a' }
    const made = room([service('s', { selector: labels }), slice('sl', 's', [bare]), pod('p', { ...inMesh, labels })])
    expect(portsOf(made, podUid('p'), s)).toEqual(['80>8080'])
    expect(made.source.get(sliceUid('sl', '10.1.0.1'))).toBeUndefined()
  })

  test('goes to the pod that stays when one that leaves has it too', () => {
    const made = room([service('s'), slice('sl', 's', [bare]), pod('a', { ...inMesh, ...leaving }), pod('b', inMesh)])
    expect(made.lookup('nw/10.0.0.1')).toEqual([s, podUid('b')])
  })
})

describe('a virtual address that several services have', () => {
  const entry = (name: string, at: number, ns = 'ns1') =>
    serviceEntry(name, { hosts: [`${name}.ex`], resolution: 'STATIC', addresses: ['10.9.0.1'] }, { at, ns })

  test('finds the oldest of a namespace, and the next when that one goes', () => {
    const made = room([entry('young', 2), entry('old', 1)])
    expect(made.lookup('nw/10.9.0.1')).toEqual(['ns1/old.ex'])
    made.delete([ref(entry('old', 1))])
    made.commit()
    expect(made.lookup('nw/10.9.0.1')).toEqual(['ns1/young.ex'])
  })

  test('finds all that are equally old, and one of each namespace whatever its age', () => {
    const made = room([entry('a', 1), entry('b', 1), entry('c', 2), entry('d', 9, 'ns2')])
    expect(made.lookup('nw/10.9.0.1')).toEqual(['ns1/a.ex', 'ns1/b.ex', 'ns2/d.ex'])
  })
})
