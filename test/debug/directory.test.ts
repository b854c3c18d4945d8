// SPDX-License-Identifier: Apache-2.0
import { expect, test } from '@jest/globals'
import { Directory } from '../../src/debug/directory.js'
import { decodeResource } from '../../src/debug/rows.js'
import { ADDRESS_TYPE } from '../../src/wire/messages.js'
import type { Resource } from '../../src/xds/source.js'
import { createShop, entry, far, range, web, webA, webB } from '../ctl/room.js'
import { ip, makeService, makeWorkload, ToyStore } from '../support/toy-store.js'

const readName = (resource: Resource): { namespace: string; name: string } | undefined => {
  const decoded = decodeResource(resource)
  return decoded?.kind === 'service' ? decoded.service : undefined
}

function follow(store: ToyStore): Directory {
  const directory = new Directory(store.addresses, readName)
  store.onCommit((changes) => directory.apply(changes.get(ADDRESS_TYPE) ?? []))
  return directory
}

/** Everything that a directory of the shop can be asked. */
function snapshot(directory: Directory): object {
  return {
    networks: directory.networks(),
    hostnames: ['web.shop.svc.cluster.local', 'legacy.example.com', '*.example.org'].map((hostname) =>
      directory.servicesByHostname(hostname),
    ),
    names: [directory.servicesByName('shop', 'web'), directory.servicesByName('edge', 'legacy')],
    pods: directory.workloadNames('ns', 'name'),
    endpoints: directory.endpointsOf('edge', 'legacy'),
  }
}

const nothing = { networks: [], hostnames: [[], [], []], names: [[], []], pods: [], endpoints: [] }
const everything = {
  networks: ['', 'far'],
  hostnames: [['shop/web.shop.svc.cluster.local'], ['edge/legacy.example.com'], ['edge/*.example.org']],
  names: [['shop/web.shop.svc.cluster.local'], ['edge/legacy.example.com']],
  pods: ['Kubernetes//Pod/ns/name', 'other//Pod/ns/name'],
  endpoints: ['Kubernetes/networking.istio.io/ServiceEntry/edge/legacy/192.0.2.7'],
}

test('one that starts late knows what one knows that followed from the start', () => {
  const early = new ToyStore()
  const followed = follow(early)
  expect(snapshot(followed)).toEqual(nothing)
  const shop = createShop()
  expect(snapshot(follow(shop))).toEqual(everything)
  for (const message of [web, webA, webB, range, far, entry]) early.put(message)
  early.put(makeService({ name: 'everything', namespace: 'edge', hostname: '*.example.org' }))
  expect(snapshot(followed)).toEqual(everything)
})

test('what is gone is forgotten, and nothing else', () => {
  const store = createShop()
  const directory = follow(store)
  store.remove(far.uid)
  expect(directory.networks()).toEqual(['', 'far'])
  store.remove('edge/legacy.example.com')
  expect(directory.networks()).toEqual([''])
  expect(directory.workloadNames('ns', 'name')).toEqual(['Kubernetes//Pod/ns/name'])
  store.remove(...[...store.addresses.resources.keys()])
  expect(snapshot(directory)).toEqual(nothing)
})

test('an address that moves to another network takes the network along', () => {
  const store = new ToyStore()
  const directory = follow(store)
  const pod = makeWorkload({ name: 'a', addresses: [ip('10.0.0.1')], network: 'one' })
  store.put(pod)
  store.put({ ...pod, network: 'two' })
  expect(directory.networks()).toEqual(['two'])
})

test('one host name in several namespaces', () => {
  const store = new ToyStore()
  const directory = follow(store)
  const hostname = 'db.example.com'
  store.put(makeService({ name: 'b', namespace: 'b', hostname }), makeService({ name: 'a', namespace: 'a', hostname }))
  expect(directory.servicesByHostname(hostname)).toEqual(['a/db.example.com', 'b/db.example.com'])
  store.put(makeService({ name: 'renamed', namespace: 'a', hostname }))
  expect(directory.servicesByName('a', 'a')).toEqual([])
  expect(directory.servicesByName('a', 'renamed')).toEqual(['a/db.example.com'])
})
