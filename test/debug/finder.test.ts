// SPDX-License-Identifier: Apache-2.0
import { expect, test } from '@jest/globals'
import { Directory } from '../../src/debug/directory.js'
import { selectFound } from '../../src/debug/finder.js'
import { decodeResource } from '../../src/debug/rows.js'
import { parseQuestion } from '../../src/wire/question.js'
import { createShop } from '../ctl/room.js'
import { ip, makeService, makeWorkload, ToyStore } from '../support/toy-store.js'

/** What a question finds: kind, name, and by what. */
function find(store: ToyStore, question: string): readonly (readonly string[])[] {
  const directory = new Directory(store.addresses, (resource) => {
    const decoded = decodeResource(resource)
    return decoded?.kind === 'service' ? decoded.service : undefined
  })
  const found = selectFound(parseQuestion(question), store, directory)
  return found.map(({ kind, resource, by }) => [kind, resource.name, by])
}

test('an address: workloads, then services that have it, then services whose range holds it', () => {
  const store = new ToyStore()
  store.put(
    makeService({ name: 'r', addresses: [{ network: 'a', address: ip('10.0.0.0'), length: 8 }] }),
    makeService({ name: 'v', addresses: [{ network: 'b', address: ip('10.0.0.1') }] }),
    makeWorkload({ name: 'w', network: 'c', addresses: [ip('10.0.0.1')] }),
    makeWorkload({ name: 'member', network: 'd', services: new Map([['shop/v.shop.svc.cluster.local', []]]) }),
  )
  expect(find(store, '10.0.0.1')).toEqual([
    ['workload', 'Kubernetes//Pod/shop/w', 'address c/10.0.0.1'],
    ['service', 'shop/v.shop.svc.cluster.local', 'address b/10.0.0.1'],
    ['service', 'shop/r.shop.svc.cluster.local', 'range a/10.0.0.0/8'],
  ])
})

test('an address that several pods share finds each of them', () => {
  const store = new ToyStore()
  const shared = { addresses: [ip('192.0.2.10')], networkMode: 1 }
  store.put(makeWorkload({ name: 'a', ...shared }), makeWorkload({ name: 'b', ...shared }))
  expect(find(store, '192.0.2.10').map(([, name]) => name)).toEqual([
    'Kubernetes//Pod/shop/a',
    'Kubernetes//Pod/shop/b',
  ])
})

test('an IPv6 range, by an address in it and by its last bit', () => {
  const store = new ToyStore()
  store.put(makeService({ name: 'six', addresses: [{ network: '', address: ip('fd00::8'), length: 125 }] }))
  expect(find(store, 'fd00::f')).toEqual([['service', 'shop/six.shop.svc.cluster.local', 'range /fd00::8/125']])
  expect(find(store, 'fd00::10')).toEqual([])
  expect(find(store, '0.0.0.8')).toEqual([])
})

test('a name finds the pod, the service and the policy that are called so, each once', () => {
  const store = createShop()
  store.put(makeWorkload({ name: 'web', addresses: [ip('10.0.0.9')] }))
  store.putPolicy('shop/web', Buffer.alloc(0))
  expect(find(store, 'shop/web')).toEqual([
    ['workload', 'Kubernetes//Pod/shop/web', 'name shop/web'],
    ['service', 'shop/web.shop.svc.cluster.local', 'name shop/web'],
    ['policy', 'shop/web', 'name shop/web'],
  ])
})

test('the name of a service entry finds its endpoints when no service is called so', () => {
  const store = createShop()
  store.remove('edge/legacy.example.com')
  expect(find(store, 'edge/legacy').map(([, name]) => name)).toEqual([
    'Kubernetes/networking.istio.io/ServiceEntry/edge/legacy/192.0.2.7',
  ])
})

test('the nearest wildcard wins, and only when nobody has the host itself', () => {
  const store = new ToyStore()
  for (const hostname of ['*.com', '*.example.com', 'a.example.com']) store.put(makeService({ name: 'x', hostname }))
  expect(find(store, 'a.example.com')).toEqual([['service', 'shop/a.example.com', 'host name a.example.com']])
  expect(find(store, 'b.example.com')).toEqual([['service', 'shop/*.example.com', 'wildcard host *.example.com']])
  expect(find(store, 'example.com')).toEqual([['service', 'shop/*.com', 'wildcard host *.com']])
})

test('short names lead to services inside the cluster only', () => {
  const store = createShop()
  expect(find(store, 'legacy.edge')).toEqual([])
  expect(find(store, 'web.shop')).toEqual([['service', 'shop/web.shop.svc.cluster.local', 'short name web.shop']])
  expect(find(store, 'web.shop.pod')).toEqual([])
})
