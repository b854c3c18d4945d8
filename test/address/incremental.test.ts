// SPDX-License-Identifier: Apache-2.0
// The spine: whatever happened before, in whatever order, what is published equals what a fresh start on the final objects publishes; and the
// changes that were told lead from one to the other. SPINE_EVENTS sets how many events, SPINE_SEED which ones.

import fc from 'fast-check'
import { describe, test } from '@jest/globals'
import { deepStrictEqual, notStrictEqual, strictEqual } from 'node:assert'
import { defaultAddressOptions, type AddressOptions } from '../../src/address/options.js'
import { projectObject } from '../../src/kube/project.js'
import type { Kind } from '../../src/kube/records.js'
import { ADDRESS_TYPE, AUTHORIZATION_TYPE, WORKLOAD_TYPE } from '../../src/wire/messages.js'
import type { Resource, ResourceSource } from '../../src/xds/source.js'
import { Room, type KubeObject, type ObjectName } from './room.js'
import { events, knownKeys, knownNodes, toName, type Event } from './universe.js'

const total = Number(process.env.SPINE_EVENTS ?? 20_000)
const seed = Number(process.env.SPINE_SEED ?? Date.now() & 0x7fffffff)
const length = 80

const toText = ({
  name,
  version,
  aliases,
  entry,
  parents,
  node,
  ranges,
  bringsMembers,
  needs = [],
}: Resource): string =>
  [
    name,
    version,
    aliases.join(),
    entry === undefined ? '-' : Buffer.from(entry).toString('hex'),
    [...parents].sort().join(),
    node,
    ranges.map((r) => `${r.network} ${Buffer.from(r.address).toString('hex')} ${r.length}`).join(),
    bringsMembers,
    needs.join(),
  ].join(' | ')

const toTexts = (resources: Iterable<Resource>): readonly string[] => [...resources].map(toText).sort()

/** Everything that can be asked of a source. */
function ask(source: ResourceSource, keys: readonly string[]): Readonly<Record<string, unknown>> {
  return {
    size: source.size,
    all: toTexts(source.all()),
    found: Object.fromEntries(keys.map((key) => [key, toTexts(source.lookup(key))])),
    members: Object.fromEntries(keys.map((key) => [key, toTexts(source.members(key))])),
    local: Object.fromEntries(knownNodes.map((node) => [node, toTexts(source.local(node))])),
  }
}

const toNames = (source: ResourceSource): readonly string[] => [...source.all()].map((resource) => resource.name)

/** A name that leads nowhere is a policy that nobody enforces. */
function checkPoliciesResolve(room: Room): void {
  for (const { name, needs = [] } of room.source.all())
    for (const policy of needs) strictEqual(room.policies.get(policy)?.name, policy, `${name} lists ${policy}`)
}

/** Objects as a cluster holds them. */
class Cluster {
  readonly #held = new Map<string, KubeObject>()

  take(event: Event): void {
    if (event.event === 'upsert') this.#held.set(formatKey(toName(event.object)), event.object)
    else if (event.event === 'delete') this.#held.delete(formatKey(event.name))
    else if (event.event === 'relist') {
      for (const [key, object] of this.#held) if (object.kind === event.kind) this.#held.delete(key)
      for (const object of event.objects) this.#held.set(formatKey(toName(object)), object)
    }
  }

  all(): readonly KubeObject[] {
    return [...this.#held.values()]
  }
}

function formatKey({ kind, namespace = '', name }: ObjectName): string {
  return `${kind} ${namespace} ${name}`
}

function feed(room: Room, event: Event): void {
  if (event.event === 'upsert') room.set([event.object])
  else if (event.event === 'delete') room.delete([event.name])
  else if (event.event === 'relist') {
    const kind = event.kind as Kind
    const rows = event.objects.map((object) => {
      const { key, record } = projectObject(kind, object, room.options.clusterId)
      return [key, record] as const
    })
    room.inputs[kind].replace(new Map<string, any>(rows))
  }
}

/** Follows what is told, as a client would. */
class Follower {
  readonly #held = new Map<string, string>()

  constructor(room: Room, typeUrl: string) {
    room.address.store.onCommit((changes) => {
      const ofType = changes.get(typeUrl) ?? []
      for (const { name, before, after } of ofType) {
        strictEqual(this.#held.get(name), before && toText(before))
        notStrictEqual(before && toText(before), after && toText(after))
        if (after === undefined) this.#held.delete(name)
        else this.#held.set(name, toText(after))
      }
      strictEqual(new Set(ofType.map((change) => change.name)).size, ofType.length)
    })
  }

  held(): readonly string[] {
    return [...this.#held.values()].sort()
  }
}

function check(options: AddressOptions, happened: readonly Event[]): void {
  const room = new Room(options)
  const follower = new Follower(room, ADDRESS_TYPE)
  const ofPolicies = new Follower(room, AUTHORIZATION_TYPE)
  const cluster = new Cluster()
  let commits = 0
  for (const event of [...happened, { event: 'commit' } as const]) {
    cluster.take(event)
    feed(room, event)
    if (event.event !== 'commit') continue
    room.commit()
    deepStrictEqual(toTexts(room.source.all()), follower.held())
    deepStrictEqual(toTexts(room.policies.all()), ofPolicies.held())
    checkPoliciesResolve(room)
    if (++commits % 4 === 0) compare(room, cluster)
  }
  compare(room, cluster)
}

function compare(room: Room, cluster: Cluster): void {
  const fresh = new Room(room.options)
  fresh.apply(...cluster.all())
  const keys = [...new Set([...knownKeys, ...room.names(), ...fresh.names()])]
  deepStrictEqual(ask(room.source, keys), ask(fresh.source, keys))
  const policies = [...toNames(room.policies), ...toNames(fresh.policies), 'a/x', 'a/none']
  deepStrictEqual(ask(room.policies, policies), ask(fresh.policies, policies))
  const legacy = room.address.store.source(WORKLOAD_TYPE)!
  deepStrictEqual(toTexts(legacy.all()), toTexts(fresh.address.store.source(WORKLOAD_TYPE)!.all()))
  for (const name of room.names()) strictEqual(room.address.explain(name)?.name, name)
  deepStrictEqual({ incremental: room.failures, fresh: fresh.failures }, { incremental: [], fresh: [] })
}

const options: fc.Arbitrary<AddressOptions> = fc.record({
  clusterId: fc.constantFrom('Kubernetes', ''),
  systemNamespace: fc.constant(defaultAddressOptions.systemNamespace),
  revision: fc.constantFrom('', 'default'),
  domain: fc.constant(defaultAddressOptions.domain),
  autoAllowWaypointPolicy: fc.boolean(),
  dryRunPolicies: fc.boolean(),
  serviceEntrySelectsPods: fc.boolean(),
  serviceSelectsWorkloadEntries: fc.boolean(),
  ipAutoallocate: fc.boolean(),
})

describe('what is published', () => {
  test('equals a fresh start on the same objects, whatever happened before', () => {
    console.info(`spine of address: SPINE_SEED=${seed} SPINE_EVENTS=${total}`)
    const histories = fc.array(events, { minLength: length, maxLength: length })
    fc.assert(fc.property(options, histories, check), { seed, numRuns: Math.max(1, Math.round(total / length)) })
  }, 3_600_000)
})
